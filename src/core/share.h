/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many QPs of this process send to an address at once.  A connection's window (roce/cc.h) is what
 * its path holds: a queue on the way, and the receiver's socket at the end.  QPs to one address share
 * both, so each of them uses its part of its window.
 *
 * Time is cut into periods.  A QP that has more than one packet in flight, or would, counts itself
 * once in each; sharers are those of the last period, or of this one where they are more by now.  So
 * nobody counts himself out, however he ends, and after a pause there are as many as before it.  A QP
 * that waits for the answer to each packet takes no room to speak of and does not count.
 *
 * The process's QPs only: what other processes of the host send is a neighbour's, as another host's.
 *
 * A ref is under its QP's lock; the table has a lock of its own, a leaf, taken when a QP meets its
 * path for the first time, leaves it, or counts itself.
 */
#ifndef VRB_CORE_SHARE_H
#define VRB_CORE_SHARE_H

#include <stdint.h>

#include "util/list.h"
#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum { SHARE_BUCKETS = 256 };

/* A period lasts two round trips, and this at least. */
#define SHARE_PERIOD (10 * VRB_MSEC)

struct share;

struct share_table {
	struct lock lock;
	struct list bucket[SHARE_BUCKETS];	/* of struct share */
};

/* What a QP knows of its path. Zero: of none. */
struct share_ref {
	struct share *share;
	uint32_t period;	/* in which it counted itself last */
};

void share_init(struct share_table *t);

/* The QPs that share the path, the asking one included.  1 if there is no memory to know it. */
uint32_t share_sharers(struct share_table *t, struct share_ref *ref, const struct net_path *path);

/* The QP is one of them now. */
void share_count(struct share_table *t, struct share_ref *ref, uint64_t rtt, uint64_t now);

/* It sends there no more. */
void share_leave(struct share_table *t, struct share_ref *ref);

#endif
