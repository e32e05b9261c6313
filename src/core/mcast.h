/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups: which UD queue pairs of this process take which group's datagrams, by interface.
 *
 * The table is under vrb.drive.  The first member of a group on an interface joins it there, the last one leaves it.
 */
#ifndef VRB_CORE_MCAST_H
#define VRB_CORE_MCAST_H

#include "util/net.h"

struct vrb_qp;

/* The destination QP number of a datagram to a group (IBTA vol 1, 10.5). */
#define VRB_MCAST_QPN 0xffffffu

/*
 * Attaching twice is attaching once.  Returns 0, EINVAL (not a UD QP, not a group, another family than the port has), ENOMEM (limits of
 * the device), or why the system refuses the membership.
 */
int vrb_mcast_attach(struct vrb_qp *qp, const struct net_addr *group);

/* EINVAL if it is not attached. */
int vrb_mcast_detach(struct vrb_qp *qp, const struct net_addr *group);

/* Calls fn for each QP that takes datagrams which came to this group by this interface (0: unknown, any). Must hold vrb.drive. */
typedef void (*vrb_mcast_fn)(struct vrb_qp *qp, void *arg);
void vrb_mcast_for_each(const struct net_addr *group, uint32_t ifindex, vrb_mcast_fn fn, void *arg);

/* In a forked child: the memberships are the parent's. */
void vrb_mcast_forget(void);

#endif
