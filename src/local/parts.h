/* SPDX-License-Identifier: BSD-2-Clause */
/* Private definitions of the local transport. */
#ifndef VRB_LOCAL_PARTS_H
#define VRB_LOCAL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "local/keeper.h"
#include "local/lane.h"
#include "local/local.h"
#include "util/list.h"
#include "util/lock.h"

enum {
	/* limit for a pulled packet; a payload with more segments is copied */
	SEGS_MAX = 64,
	/* includes peers that died while QPs were connected to them */
	OUTBOUND_MAX = 2 * SEG_PEERS,
};

/* A lane on which a peer sends to us. */
struct inbound {
	struct lane_rx rx;
	uint64_t sender;	/* incarnation */
	uint64_t identity;	/* address of its seg_identity in the sender's memory */
	int32_t pid;
	uint16_t slot;
	bool dead;		/* consume the remaining packets, then clear the lane */
};

struct local {
	struct host *host;
	struct segment *seg;
	struct keeper keeper;
	struct lock lock;
	struct list peers;
	struct list unused;		/* peers that can be freed */
	bool any_unused;		/* atomic hint */
	/*
	 * All peers; `n_outbound` is atomic. Additions hold the lock, removals the lock,
	 * vrb.poll_lock and `reading`.
	 */
	struct local_peer *outbound[OUTBOUND_MAX];
	unsigned int n_outbound;
	/*
	 * Keeps the peers of a reader with neither of the other locks: a bind waits for own copies
	 * under a peer's lock. Innermost.
	 */
	struct lock reading;

	/* vrb.poll_lock */
	struct list bells;		/* peers with a queued doorbell; bell.h */
	uint32_t news_seen;
	unsigned int n_inbound, next_inbound;
	unsigned int polls;		/* since local_sleep() */
	unsigned int n_dead;		/* hint: number of dead entries in inbound[] */
	bool lacking;			/* atomic: an announced lane has no memory */
	struct inbound inbound[SEG_PEERS];
};

/*
 * A fence against the light ones of this process and its peers. If the kernel has begun to refuse
 * heavy fences, light ones end.
 */
void local_heavy_fence(struct local *l);

#endif
