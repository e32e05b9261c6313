/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of ids.  On RoCE joining is local: the interface takes the group's packets,
 * which is told to the network by IGMP or MLD, and the id's QP is attached.
 *
 * Under the cma lock, but for what says otherwise.
 */
#ifndef VRB_RDMACM_GROUP_H
#define VRB_RDMACM_GROUP_H

#include <stdbool.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "util/list.h"

struct cma_id;

struct group {
	struct list node;             /* cma_id.groups */
	struct sockaddr_storage addr; /* as the program gave it */
	union ibv_gid mgid;
	bool send_only;
	int member;              /* a socket that holds the membership; -1 */
	struct ibv_qp *attached; /* by the thread that fetches or leaves, without the lock */
	unsigned int unacked;    /* events that were delivered */
};

/*
 * The join has come to the program: attaches the id's QP.  Must not hold the lock.  Returns 0 or an
 * errno value.
 */
int group_attach(struct cma_id *id, struct group *g);

/* Leaves all groups of an id that ends.  Must not hold the lock. */
void groups_leave(struct cma_id *id);

#endif
