/* SPDX-License-Identifier: BSD-2-Clause */
/* A neighbour, as local.c and onesided.c see it. */
#ifndef VRB_LOCAL_PEER_H
#define VRB_LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/segment.h"
#include "util/list.h"
#include "util/lock.h"

struct local_peer {
	/* local->lock */
	struct list node;
	unsigned int refs;	/* QPs that talk to it */
	bool ready;		/* its lane for us is ours */

	/* Immutable. */
	struct peer_map map;
	int slot;

	/* Atomic hints. */
	uint64_t checked;	/* when it was last known to live */
	bool alive;
	bool cma;		/* cross-memory attach works */

	struct lock lock;	/* the sending end of our lane, and our hazards in it */
	struct lane_tx tx;
};

#endif
