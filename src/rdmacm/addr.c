/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of ids, and the corresponding GIDs. */
#include "rdmacm/addr.h"

#include <string.h>

#include <infiniband/ib.h>

#include "util/be.h"

static const struct sockaddr_in *ipv4_of(const struct sockaddr *a)
{
	return (const void *)a;
}

static const struct sockaddr_in6 *ipv6_of(const struct sockaddr *a)
{
	return (const void *)a;
}

static const struct sockaddr_ib *ib_of(const struct sockaddr *a)
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
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

uint8_t addr_ip_version(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? 4 : a->sa_family == AF_INET6 ? 6 : 0;
}

bool addr_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ipv4_of(a)->sin_addr.s_addr == htonl(INADDR_ANY);
	if (a->sa_family == AF_IB)
		return ib_addr_any(&ib_of(a)->sib_addr);
	return IN6_IS_ADDR_UNSPECIFIED(&ipv6_of(a)->sin6_addr);
}

bool addr_is_wildcard(const struct sockaddr *a)
{
	if (addr_is_any(a))
		return true;
	if (a->sa_family == AF_INET)
		return ntohl(ipv4_of(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (a->sa_family == AF_IB)
		return ib_addr_loopback(&ib_of(a)->sib_addr);
	return IN6_IS_ADDR_LOOPBACK(&ipv6_of(a)->sin6_addr);
}

bool addr_needs_scope(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 && (IN6_IS_ADDR_LINKLOCAL(&ipv6_of(a)->sin6_addr) ||
					    IN6_IS_ADDR_MC_LINKLOCAL(&ipv6_of(a)->sin6_addr));
}

uint32_t addr_scope(const struct sockaddr *a)
{
	if (a->sa_family == AF_IB)
		return (uint32_t)ib_of(a)->sib_scope_id;
	return a->sa_family == AF_INET6 ? ipv6_of(a)->sin6_scope_id : 0;
}

bool addr_is_multicast(const struct sockaddr *a)
{
	struct net_addr gid = addr_gid(a);

	return net_is_multicast(&gid);
}

uint16_t addr_pkey(const struct sockaddr *a)
{
	return be16toh(ib_of(a)->sib_pkey);
}

uint16_t addr_port(const struct sockaddr *a)
{
	if (a->sa_family == AF_IB)
		return (uint16_t)be64toh(ib_of(a)->sib_sid);
	/* The port has the same offset in both families. */
	return addr_len(a) ? ntohs(ipv4_of(a)->sin_port) : 0;
}

void addr_set_port(struct sockaddr *a, uint16_t port)
{
	struct sockaddr_ib *ib = (void *)a;

	if (a->sa_family == AF_IB) {
		ib->sib_sid = htobe64((be64toh(ib->sib_sid) & ~(uint64_t)UINT16_MAX) | port);
		return;
	}
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
	} else if (a->sa_family == AF_IB) {
		memcpy(gid.raw, &ib_of(a)->sib_addr, sizeof(gid.raw));
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

void addr_to_ip(struct sockaddr_storage *out, const struct sockaddr *a, uint32_t scope)
{
	struct net_addr gid = addr_gid(a);

	if (a->sa_family == AF_IB) {
		addr_from_gid(out, &gid, 0, addr_scope(a) ? addr_scope(a) : scope);
		return;
	}
	memset(out, 0, sizeof(*out));
	memcpy(out, a, addr_len(a));
	if (addr_needs_scope(a) && !addr_scope(a))
		((struct sockaddr_in6 *)(void *)out)->sin6_scope_id = scope;
}

void addr_set_gid(struct sockaddr_storage *a, const struct net_addr *gid, uint32_t scope)
{
	struct sockaddr_ib *ib = (void *)a;

	if (a->ss_family == AF_IB)
		memcpy(&ib->sib_addr, gid->raw, sizeof(ib->sib_addr));
	else
		addr_from_gid(a, gid, addr_port((struct sockaddr *)a), scope);
}

void addr_ib(struct sockaddr_storage *a, const struct net_addr *gid, uint16_t pkey,
	     uint64_t service_id)
{
	struct sockaddr_ib *ib = (void *)a;

	memset(a, 0, sizeof(*a));
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(pkey);
	memcpy(&ib->sib_addr, gid->raw, sizeof(ib->sib_addr));
	ib->sib_sid = htobe64(service_id);
	ib->sib_sid_mask = htobe64(UINT64_MAX);
}

void addr_any(struct sockaddr_storage *a, int family)
{
	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)family;
}
