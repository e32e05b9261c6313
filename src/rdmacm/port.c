/* SPDX-License-Identifier: BSD-2-Clause */
/* Port numbers of ids. */
#include "rdmacm/port.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/ib.h>

#include "cm/msg.h"
#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "util/be.h"

/* Reads a sysctl of net as a number; `otherwise` if /proc is not available. */
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

/* An id bound to :: also takes IPv4, unless an option or a sysctl forbids it. */
static bool only_family(const struct cma_id *id, const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return true;
	if (addr->sa_family == AF_IB)
		return false;
	return id->opt.only_family_set ? id->opt.only_family
				       : sysctl("/proc/sys/net/ipv6/bindv6only", 0) != 0;
}

/*
 * As cma_select_ib_ps() of Linux: the port space of a service id, if its mask covers it; 0: none.
 */
static uint64_t port_space_of(const struct cma_id *id, uint64_t sid, uint64_t mask)
{
	static const enum rdma_port_space spaces[] = { RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP };

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		uint64_t space = (uint64_t)spaces[i] << 16;

		if (id->pub.ps != spaces[i] && id->pub.ps != RDMA_PS_IB)
			continue;
		if (((sid ^ space) & mask & RDMA_IB_IP_PS_MASK) == 0)
			return space;
	}
	return 0;
}

static int service_of(const struct cma_id *id, const struct sockaddr *addr, uint64_t *service)
{
	const struct sockaddr_ib *ib = (const void *)addr;
	uint64_t sid, mask, space;

	if (addr->sa_family != AF_IB) {
		*service = cm_service_id(id->pub.ps, addr_port(addr));
		return 0;
	}
	sid = be64toh(ib->sib_sid);
	mask = be64toh(ib->sib_sid_mask);
	space = port_space_of(id, sid, mask);
	*service = space | (sid & mask & RDMA_IB_IP_PORT_MASK);
	return space ? 0 : EPROTONOSUPPORT;
}

int port_bind(struct cma_id *id, const struct sockaddr *addr)
{
	struct vrb_service *s = &id->service;
	struct vrb_binding *binding;
	uint64_t service;
	int err = service_of(id, addr, &service);

	if (err)
		return err;
	if (!permitted(cm_service_port(service)))
		return EACCES;
	*s = (struct vrb_service){
		.service_id = service,
		.ifindex = addr_scope(addr),
		.family = addr_ip_version(addr),
		.only_family = only_family(id, addr),
		.reuse = id->opt.reuse,
	};
	if (!addr_is_wildcard(addr))
		s->addr = addr_gid(addr);
	err = qp1.bind(cma.mad, s, &binding);
	if (err == EADDRINUSE || err == EADDRNOTAVAIL)
		diagnose_invalid("bind: port %u is in use: verbena ps PID lists the ports "
				 "of a process", cm_service_port(service));
	if (err)
		return err;
	cma_lock();
	id->binding = binding;
	cma_unlock();
	return 0;
}

/* ---- Calls on a bound port, which take a lock above the cma lock ---- */

/* NULL: the id has none, or was shut. */
static struct vrb_binding *begin(struct cma_id *id)
{
	struct vrb_binding *binding;

	cma_lock();
	binding = id->state == ID_DEAD ? NULL : id->binding;
	if (binding)
		id->binding_users++;
	cma_unlock();
	return binding;
}

static void end(struct cma_id *id)
{
	cma_lock();
	id->binding_users--;
	if (id->state == ID_DEAD)
		port_drop(id);
	cma_unlock();
}

int port_listen(struct cma_id *id)
{
	struct vrb_binding *binding = begin(id);
	int err;

	if (!binding)
		return EINVAL;
	err = qp1.listen(cma.mad, binding);
	end(id);
	return err;
}

int port_only_family(struct cma_id *id, bool only)
{
	struct vrb_binding *binding = begin(id);
	int err = 0;

	if (!binding)
		return 0;
	if (id->service.family == 6)
		err = qp1.only_family(cma.mad, binding, only);
	end(id);
	return err;
}

/* A datagram request to the id's port that the program has fetched, and has yet to answer. */
static struct cma_id *heir_of(const struct cma_id *id)
{
	struct list *pos;

	list_for_each (pos, &cma.ids) {
		struct cma_id *other = list_entry(pos, struct cma_id, node);
		const struct conn *conn = other != id && !other->request ? other->conn : NULL;

		if (conn && conn->cm.state == CM_SIDR_REQ_RCVD &&
		    conn->cm.service_id == id->service.service_id)
			return other;
	}
	return NULL;
}

void port_leave(struct cma_id *id)
{
	bool served = id->binding && (id->state == ID_LISTEN || id->child);
	struct cma_id *heir = served && !id->binding_users ? heir_of(id) : NULL;

	if (!heir) {
		port_drop(id);
		return;
	}
	qp1.end_listening(cma.mad, id->binding);
	heir->binding = id->binding;
	heir->service = id->service;
	id->binding = NULL;
}

void port_drop(struct cma_id *id)
{
	struct vrb_binding *binding = id->binding;

	if (!binding || id->binding_users)
		return;
	id->binding = NULL;
	qp1.unbind(cma.mad, binding);
}

uint16_t port_number(const struct cma_id *id)
{
	return cm_service_port(id->service.service_id);
}
