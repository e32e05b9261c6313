/* SPDX-License-Identifier: BSD-2-Clause */
/* A neighbour, as the files of the local transport see it. */
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
	uint64_t identity;	/* address of its struct seg_identity in its memory */
	int slot;

	/* Atomic hints. */
	uint64_t checked;	/* when it was last known to live */
	bool alive;
	bool cma;		/* cross-memory attach works */

	struct lock lock;	/* the sending end of our lane, and our hazards in it */
	struct lane_tx tx;
};

/* Must hold local->lock, or be the last. */
void peer_free(struct local_peer *peer);

/* Asks the kernel whether it lets us copy, and whether the pid names the process that is meant. */
bool peer_probe(int32_t pid, uint64_t identity, uint64_t incarnation);

/*
 * May its memory be reached now?  Its pid names another process, or the same one another program, as soon as it exits or calls exec; so
 * this is asked right before each access, and after one that brings something here.  False for good from then on.
 */
bool peer_in_reach(struct local_peer *peer);

#endif
