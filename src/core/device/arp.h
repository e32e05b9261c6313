/* SPDX-License-Identifier: BSD-2-Clause */
/* The link address of an IP address, from the kernel's neighbour table. */
#ifndef VRB_CORE_DEVICE_ARP_H
#define VRB_CORE_DEVICE_ARP_H

#include <stdint.h>

#include "util/net.h"

struct vrb_port;

/*
 * Own addresses map to the port's MAC, loopback to zeroes, multicast groups to their MAC. Others
 * are resolved by the kernel, which may take a second. Returns 0, ENETUNREACH or EHOSTUNREACH.
 */
int vrb_arp_resolve(struct vrb_port *port, const struct net_addr *dst, uint8_t mac[6]);

/* The MAC of a multicast group, which is computed: RFC 1112 section 6.4, RFC 2464 section 7. */
void vrb_multicast_mac(const struct net_addr *group, uint8_t mac[6]);

#endif
