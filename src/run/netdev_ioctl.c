/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces where netlink is refused: IPv4 addresses by SIOCGIFCONF, those of IPv6 from
 * /proc/net/if_inet6. The C library's getifaddrs() and if_nameindex() need netlink.
 */
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/netdev_scan.h"

enum { ADDRESSES = 1024 };	/* IPv4 addresses that are looked at */

/* The entry of an interface, by its name; NULL if it is gone. */
static struct netdev_entry *entry_of(struct netdev_scan *s, int fd, const char *name)
{
	struct ifreq req = { .ifr_ifindex = 0 };
	struct netdev_entry *e;

	memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFINDEX, &req) < 0 || req.ifr_ifindex <= 0)
		return NULL;
	e = netdev_scan_find(s, (uint32_t)req.ifr_ifindex);
	if (e)
		return e;
	e = netdev_scan_add(s, (uint32_t)req.ifr_ifindex);
	if (!e)
		return NULL;
	netdev_scan_name(&e->dev, name, sizeof(req.ifr_name));
	if (ioctl(fd, SIOCGIFFLAGS, &req) == 0)
		netdev_scan_flags(&e->dev, (unsigned short)req.ifr_flags);
	if (ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
		e->dev.mtu = (uint32_t)req.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &req) == 0 && req.ifr_hwaddr.sa_family == ARPHRD_ETHER)
		memcpy(e->dev.mac, req.ifr_hwaddr.sa_data, sizeof(e->dev.mac));
	return e;
}

static uint8_t prefix_of(int fd, struct ifreq req)
{
	const struct sockaddr_in *mask = (const void *)&req.ifr_netmask;

	if (ioctl(fd, SIOCGIFNETMASK, &req) < 0)
		return 32;
	return (uint8_t)__builtin_popcount(mask->sin_addr.s_addr);
}

static void scan_ipv4(struct netdev_scan *s, int fd, struct ifreq *req)
{
	struct ifconf conf = { .ifc_len = ADDRESSES * (int)sizeof(*req), .ifc_req = req };
	unsigned int n, i;

	if (ioctl(fd, SIOCGIFCONF, &conf) < 0)
		return;
	n = (unsigned int)conf.ifc_len / sizeof(*req);
	for (i = 0; i < n; i++) {
		const struct sockaddr_in *sin = (const void *)&req[i].ifr_addr;
		uint8_t prefix = prefix_of(fd, req[i]);
		char name[sizeof(req->ifr_name)];
		struct netdev_entry *e;

		/* Further addresses have names of their own, "eth0:1". */
		memcpy(name, req[i].ifr_name, sizeof(name));
		name[strcspn(name, ":")] = 0;
		e = entry_of(s, fd, name);
		if (e && sin->sin_family == AF_INET)
			netdev_scan_addr(e, true, &sin->sin_addr, prefix, 0);
	}
}

/* Address, index, prefix length, scope, flags; all hexadecimal; then the name. */
static bool parse_ipv6(const char *line, uint8_t raw[16], unsigned int *prefix, unsigned int *flags,
		       char name[IFNAMSIZ])
{
	for (unsigned int i = 0; i < 16; i++)
		if (sscanf(line + 2 * i, "%2" SCNx8, &raw[i]) != 1)
			return false;
	return sscanf(line + 32, " %*x %x %*x %x %15s", prefix, flags, name) == 3 && *prefix <= 128;
}

static void scan_ipv6(struct netdev_scan *s, int fd)
{
	FILE *f = fopen("/proc/net/if_inet6", "re");
	char line[128], name[IFNAMSIZ];
	unsigned int prefix, flags;
	uint8_t raw[16];

	while (f && fgets(line, sizeof(line), f)) {
		struct netdev_entry *e = NULL;

		if (strlen(line) > 32 && parse_ipv6(line, raw, &prefix, &flags, name))
			e = entry_of(s, fd, name);
		if (e)
			netdev_scan_addr(e, false, raw, (uint8_t)prefix, flags);
	}
	if (f)
		fclose(f);
}

int netdev_scan_ioctl(struct netdev_scan *s)
{
	struct ifreq *req = malloc(ADDRESSES * sizeof(*req));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = fd < 0 ? errno : req ? 0 : ENOMEM;

	s->n = 0;
	if (!err) {
		scan_ipv4(s, fd, req);
		scan_ipv6(s, fd);
	}
	if (fd >= 0)
		close(fd);
	free(req);
	return err;
}
