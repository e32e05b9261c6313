/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of ids, and the corresponding GIDs.  Pure; no lock. */
#ifndef VRB_RDMACM_ADDR_H
#define VRB_RDMACM_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/net.h"

/* Length in bytes of an address of this family; 0: unsupported family. */
size_t addr_len(const struct sockaddr *a);

/* The IP version under which services are bound: 4, 6, or 0 for AF_IB, whose addresses are GIDs. */
uint8_t addr_ip_version(const struct sockaddr *a);

/* 0.0.0.0, ::, or the zero GID. */
bool addr_is_any(const struct sockaddr *a);

/*
 * Also true for loopback addresses: as on Linux, an id bound to one is bound to no device.
 * libfabric depends on it.
 */
bool addr_is_wildcard(const struct sockaddr *a);

/* True for IPv6 addresses that need an interface (link-local ones). */
bool addr_needs_scope(const struct sockaddr *a);
uint32_t addr_scope(const struct sockaddr *a);

bool addr_is_multicast(const struct sockaddr *a);

/* For AF_IB. */
uint16_t addr_pkey(const struct sockaddr *a);

/* In host byte order; 0 for other families. */
uint16_t addr_port(const struct sockaddr *a);
void addr_set_port(struct sockaddr *a, uint16_t port);

/* The GID of the address in RoCE v2. */
struct net_addr addr_gid(const struct sockaddr *a);

/* The reverse: IPv4 for ::ffff:a.b.c.d.  scope applies to link-local addresses. */
void addr_from_gid(struct sockaddr_storage *a, const struct net_addr *gid, uint16_t port,
		   uint32_t scope);

/*
 * The same address for the kernel, which routes by IP.  scope applies to an address that needs one
 * and has none.
 */
void addr_to_ip(struct sockaddr_storage *out, const struct sockaddr *a, uint32_t scope);

/* Stores the GID in an address, whose family is kept. */
void addr_set_gid(struct sockaddr_storage *a, const struct net_addr *gid, uint32_t scope);

/* Makes an AF_IB address with this GID and a service id without wildcard bits. */
void addr_ib(struct sockaddr_storage *a, const struct net_addr *gid, uint16_t pkey,
	     uint64_t service_id);

/* The wildcard address of a family, port 0. */
void addr_any(struct sockaddr_storage *a, int family);

#endif
