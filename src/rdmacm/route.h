/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's route to a destination: interface, source address and next hop, and whether the next
 * hop's link address is known.  By rtnetlink, or by a connected socket if netlink is refused.
 *
 * Owns a netlink socket, of the network namespace of its first use, with a lock of its own: a leaf,
 * held while the kernel answers.
 */
#ifndef VRB_RDMACM_ROUTE_H
#define VRB_RDMACM_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "util/net.h"

struct route {
	/* Outgoing interface; the loopback interface for our own addresses; 0: unknown. */
	uint32_t ifindex;
	struct net_addr src; /* preferred source */
	struct net_addr hop; /* next hop: a router, or the destination itself */
	uint8_t hop_limit;
	bool direct; /* needs no neighbour: our own address, or a multicast group */
};

/*
 * src may be NULL; its port is ignored.  Returns 0 or an errno value: ENETUNREACH, EHOSTUNREACH,
 * EINVAL (src is not a local address) and others of the kernel.
 */
int route_lookup(const struct sockaddr *src, const struct sockaddr *dst, struct route *out);

/* True if the next hop's link address is known, or if that cannot be found out. */
bool route_neighbour_known(const struct route *r);

/* Makes the kernel resolve the neighbour, by an empty datagram to the discard port. */
void route_probe_neighbour(const struct sockaddr *dst, uint32_t ifindex);

/* Opens a non-blocking descriptor that is readable after a neighbour changes; or -errno. */
int route_monitor_open(void);

/* Reads all pending notifications. */
void route_monitor_drain(int fd);

/* In a forked child: the socket is the parent's. */
void route_forget(void);

#endif
