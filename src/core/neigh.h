/* SPDX-License-Identifier: BSD-2-Clause */
/* The Ethernet address behind an IP address, as the kernel's neighbour table knows it. */
#ifndef VRB_CORE_NEIGH_H
#define VRB_CORE_NEIGH_H

#include <stdint.h>

#include "util/net.h"

struct vrb_port;

/*
 * Own addresses have the port's own MAC, loopback zeroes, groups the one that the group maps to;
 * others are looked up, and asked for if need be, which may take a second.  Returns 0, ENETUNREACH,
 * EHOSTUNREACH.
 */
int vrb_neigh_resolve(struct vrb_port *port, const struct net_addr *dst, uint8_t mac[6]);

#endif
