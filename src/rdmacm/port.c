/* SPDX-License-Identifier: BSD-2-Clause */
/* Port numbers of ids. */
#include "rdmacm/port.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/msg.h"
#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/id.h"

/* net.NAME as a number, or what it is without /proc. */
static unsigned int sysctl(const char *path, unsigned int otherwise)
{
	FILE *f = fopen(path, "re");
	unsigned int value;

	if (!f)
		return otherwise;
	if (fscanf(f, "%u", &value) != 1)
		value = otherwise;
	fclose(f);
	return value;
}

static bool may_bind_low_ports(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return !syscall(SYS_capget, &head, data) &&
	       (data[0].effective & (1u << CAP_NET_BIND_SERVICE));
}

static bool permitted(uint16_t port)
{
	return !port || port >= 1024 ||
	       port >= sysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", 1024) ||
	       may_bind_low_ports();
}

/* :: takes IPv4 as well, unless the program or the system says otherwise. */
static bool only_family(const struct cma_id *id, const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return true;
	return id->opt.only_family_set ? id->opt.only_family
				       : sysctl("/proc/sys/net/ipv6/bindv6only", 0) != 0;
}

int port_bind(struct cma_id *id, const struct sockaddr *addr)
{
	struct vrb_service *s = &id->service;

	if (!permitted(addr_port(addr)))
		return EACCES;
	*s = (struct vrb_service){
		.service_id = cm_service_id(id->pub.ps, addr_port(addr)),
		.ifindex = addr_scope(addr),
		.family = addr->sa_family == AF_INET ? 4 : 6,
		.only_family = only_family(id, addr),
		.reuse = id->opt.reuse,
	};
	if (!addr_is_wildcard(addr))
		s->addr = addr_gid(addr);
	return qp1.bind(cma.mad, s, &id->binding);
}

uint16_t port_number(const struct cma_id *id)
{
	return cm_service_port(id->service.service_id);
}
