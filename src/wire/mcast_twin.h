/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Second members of the IPv4 groups that a process joins, to work around an error of Linux (seen in
 * 6.18). A datagram to a group with exactly one member socket on the host is looked up early, and
 * then goes to any socket of that socket's SO_REUSEPORT group: here, to a process that has not
 * joined. A datagram with two members correctly goes to both. So each membership gets a twin: a
 * socket bound to the group's address, which accepts no packets.
 *
 * A twin is also the member in place of a socket that has as many groups as the kernel allows one,
 * and then gets its datagrams by IP_MULTICAST_ALL.
 */
#ifndef VRB_WIRE_MCAST_TWIN_H
#define VRB_WIRE_MCAST_TWIN_H

#include "util/list.h"
#include "util/net.h"

/*
 * A list of twins is empty after list_init(). port 0: the port cannot be shared, so the twin is not
 * bound. Returns 0 or the errno value; beside another member, a failure only leaves the error of
 * Linux in effect.
 */
int mcast_twin_join(struct list *twins, const struct net_addr *group, uint32_t ifindex,
		    uint16_t port);

/* Returns false if there is no twin. */
bool mcast_twin_leave(struct list *twins, const struct net_addr *group, uint32_t ifindex);

void mcast_twin_close_all(struct list *twins);

#endif
