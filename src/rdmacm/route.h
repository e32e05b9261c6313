/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's routing says of a destination: by which interface, from which address, by which
 * neighbour; and whether that neighbour has been heard of.  By route netlink, or by a connected
 * socket where netlink is refused.  Owns nothing between calls; no lock.
 */
#ifndef VRB_RDMACM_ROUTE_H
#define VRB_RDMACM_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/net.h"

struct route {
	uint32_t ifindex;    /* by which packets leave; of the loopback interface for our own
				addresses; 0: unknown */
	struct net_addr src; /* preferred source */
	struct net_addr hop; /* who gets the packets: a router, or the destination itself */
	uint8_t hop_limit;
	bool direct; /* needs no neighbour: our own address, or a group */
};

/*
 * src may be NULL; its port is not looked at.  Returns 0, or why there is no route: ENETUNREACH,
 * EHOSTUNREACH, EINVAL (the source is not ours) ...
 */
int route_lookup(const struct sockaddr *src, const struct sockaddr *dst, uint8_t tos,
		 struct route *out);

/* Can packets leave for the route's neighbour now?  True as well where nothing can be known. */
bool route_neighbour_known(const struct route *r);

/* Makes the kernel look for the neighbour, by an empty datagram to the destination. */
void route_ask_neighbour(const struct sockaddr *dst, uint32_t ifindex);

/* A non-blocking descriptor that becomes readable when a neighbour changes; -errno. */
int route_monitor_open(void);

/* Empties it. */
void route_monitor_drain(int fd);

#endif
