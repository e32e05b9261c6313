/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups, per interface, and the UD QPs of this process attached to them.
 *
 * vrb.poll_lock protects the table. Attaching the first QP to a group on an interface joins the
 * group there; detaching the last one leaves it.
 */
#ifndef VRB_CORE_RX_MCAST_H
#define VRB_CORE_RX_MCAST_H

#include "util/net.h"

struct group_place;
struct vrb_qp;

/*
 * Attaching an attached QP has no effect. Returns 0, EINVAL (not a UD QP, not a multicast address,
 * or an address family that the port lacks), ENOMEM (also at a device limit), or the errno of
 * joining the group.
 */
int vrb_mcast_attach(struct vrb_qp *qp, const struct net_addr *group);

/* Returns EINVAL if the QP is not attached. */
int vrb_mcast_detach(struct vrb_qp *qp, const struct net_addr *group);

/* Ends all memberships of a QP whose context is closed. Must hold vrb.poll_lock. */
void vrb_mcast_leave_all(const struct vrb_qp *qp);

/*
 * Calls fn for each QP attached to the group on this interface (0: on any). Must hold
 * vrb.poll_lock.
 */
typedef void (*vrb_mcast_fn)(struct vrb_qp *qp, void *arg);
void vrb_mcast_for_each(const struct net_addr *group, uint32_t ifindex, vrb_mcast_fn fn, void *arg);

/*
 * A group that this process joins for others, to whom it relays the packets (subscriptions.h): as
 * often as it is released. Returns 0 or an errno value as of vrb_mcast_attach(). Must hold
 * vrb.poll_lock, as must those below.
 */
int vrb_mcast_hold(const struct net_addr *group, uint32_t ifindex);
void vrb_mcast_release(const struct net_addr *group, uint32_t ifindex);

/* Stores up to `max` of the groups to which QPs are attached. Returns how many there are. */
unsigned int vrb_mcast_list(struct group_place *to, unsigned int max);

/* In a forked child: drops the memberships, which are the parent's. */
void vrb_mcast_forget(void);

/* vrb.wire has new sockets: they join the groups. Must hold vrb.poll_lock. */
void vrb_mcast_join_again(void);

#endif
