/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses as ids hold them, and the GIDs they stand for. */
#include "rdmacm/addr.h"

#include <string.h>

static const struct sockaddr_in *ipv4_of(const struct sockaddr *a)
{
	return (const void *)a;
}

static const struct sockaddr_in6 *ipv6_of(const struct sockaddr *a)
{
	return (const void *)a;
}

size_t addr_len(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

bool addr_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ipv4_of(a)->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&ipv6_of(a)->sin6_addr);
}

bool addr_is_wildcard(const struct sockaddr *a)
{
	if (addr_is_any(a))
		return true;
	if (a->sa_family == AF_INET)
		return ntohl(ipv4_of(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&ipv6_of(a)->sin6_addr);
}

bool addr_needs_scope(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 && (IN6_IS_ADDR_LINKLOCAL(&ipv6_of(a)->sin6_addr) ||
					    IN6_IS_ADDR_MC_LINKLOCAL(&ipv6_of(a)->sin6_addr));
}

uint32_t addr_scope(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 ? ipv6_of(a)->sin6_scope_id : 0;
}

bool addr_is_multicast(const struct sockaddr *a)
{
	struct net_addr gid = addr_gid(a);

	return net_is_multicast(&gid);
}

uint16_t addr_port(const struct sockaddr *a)
{
	/* The same place in both families. */
	return addr_len(a) ? ntohs(ipv4_of(a)->sin_port) : 0;
}

void addr_set_port(struct sockaddr *a, uint16_t port)
{
	((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

struct net_addr addr_gid(const struct sockaddr *a)
{
	struct net_addr gid = { { 0 } };

	if (a->sa_family == AF_INET) {
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, &ipv4_of(a)->sin_addr, 4);
	} else if (a->sa_family == AF_INET6) {
		memcpy(gid.raw, &ipv6_of(a)->sin6_addr, sizeof(gid.raw));
	}
	return gid;
}

void addr_from_gid(struct sockaddr_storage *a, const struct net_addr *gid, uint16_t port,
		   uint32_t scope)
{
	struct sockaddr_in *four = (void *)a;
	struct sockaddr_in6 *six = (void *)a;

	memset(a, 0, sizeof(*a));
	if (net_is_ipv4(gid)) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, gid->raw + 12, 4);
	} else {
		six->sin6_family = AF_INET6;
		memcpy(&six->sin6_addr, gid->raw, sizeof(gid->raw));
		six->sin6_scope_id = scope;
	}
	addr_set_port((struct sockaddr *)a, port);
}

void addr_any(struct sockaddr_storage *a, int family)
{
	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)family;
}
