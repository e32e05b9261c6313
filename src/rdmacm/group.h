/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of ids.  On RoCE, joining is local: the interface joins the group, which sends
 * IGMP or MLD reports, and the id's QP is attached.
 *
 * Under the cma lock, unless stated otherwise.
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
	struct sockaddr_storage addr; /* as passed by the program */
	union ibv_gid mgid;
	bool send_only;
	int member;              /* the socket that holds the membership; -1: none */
	/* written without the lock, by the thread that fetches the event or leaves */
	struct ibv_qp *attached;
	unsigned int unacked;    /* delivered, unacknowledged events */
};

/*
 * Attaches the id's QP when the join event is delivered.  Must not hold the lock.  Returns 0 or an
 * errno value.
 */
int group_attach(struct cma_id *id, struct group *g);

/* Leaves all groups when the id is destroyed.  Must not hold the lock. */
void groups_leave(struct cma_id *id);

#endif
