/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the QPs of this process that send to an address at the same time. A connection's window
 * (roce/cc.h) is sized to the capacity of its path: the queues along it and the receiver's socket.
 * QPs to one address share both, so each uses only its share of the window.
 *
 * Time is divided into periods. A QP that has, or would have, more than one packet in flight is
 * counted once per period. The number of active QPs is the larger of the counts of the last and
 * the current period. So no QP has to sign off, and the number survives a pause. A QP with a single
 * packet in flight occupies little of the path and is not counted.
 *
 * Other processes are not counted; they compete like other hosts.
 *
 * A path_ref is protected by its QP's lock. The table has its own lock, a leaf, taken when a QP
 * first uses a path, leaves it, or is counted.
 */
#ifndef VRB_CORE_BASE_PATH_FLOWS_H
#define VRB_CORE_BASE_PATH_FLOWS_H

#include <stdint.h>

#include "util/list.h"
#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum { PATH_BUCKETS = 256 };

struct path_flows;

struct path_table {
	struct lock lock;
	struct list bucket[PATH_BUCKETS];	/* of struct path_flows */
};

/* A QP's reference to the flows of its path. Zeroed: none. */
struct path_ref {
	struct path_flows *flows;
	uint32_t period;	/* the last one in which the QP was counted */
};

void path_table_init(struct path_table *t);

/* Number of QPs that share the path, including the caller. 1 if memory is exhausted. */
uint32_t path_active_qps(struct path_table *t, struct path_ref *ref, const struct net_path *path);

/* Counts the QP as active in this period. */
void path_mark_active(struct path_table *t, struct path_ref *ref, uint64_t rtt, uint64_t now);

/* Drops the QP's reference to its path. */
void path_leave(struct path_table *t, struct path_ref *ref);

#endif
