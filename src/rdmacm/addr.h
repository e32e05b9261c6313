/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket addresses as ids hold them, and the GIDs they stand for.  Pure; no lock.
 */
#ifndef VRB_RDMACM_ADDR_H
#define VRB_RDMACM_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/net.h"

/* Bytes of an address of this family; 0: not a family of ours. */
size_t addr_len(const struct sockaddr *a);

/* 0.0.0.0 or ::. */
bool addr_is_any(const struct sockaddr *a);

/*
 * These, and loopback addresses: who binds to one is bound to no device, as on Linux.  Programs
 * depend on it (libfabric).
 */
bool addr_is_wildcard(const struct sockaddr *a);

/* An IPv6 address that means nothing without an interface. */
bool addr_needs_scope(const struct sockaddr *a);
uint32_t addr_scope(const struct sockaddr *a);

bool addr_is_multicast(const struct sockaddr *a);

/* Host order. */
uint16_t addr_port(const struct sockaddr *a);
void addr_set_port(struct sockaddr *a, uint16_t port);

/* The GID of RoCE v2. */
struct net_addr addr_gid(const struct sockaddr *a);

/* The other way: IPv4 for ::ffff:a.b.c.d.  scope is for link-local addresses. */
void addr_from_gid(struct sockaddr_storage *a, const struct net_addr *gid, uint16_t port,
		   uint32_t scope);

/* The wildcard address of a family, port 0. */
void addr_any(struct sockaddr_storage *a, int family);

#endif
