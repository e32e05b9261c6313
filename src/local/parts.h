/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the local transport. */
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
	/* limit for a pulled packet; with more, the payload is copied */
	SEGS_MAX = 64,
};

/* A lane by which a peer sends to us. */
struct inbound {
	struct lane_rx rx;
	uint64_t sender;	/* incarnation */
	uint64_t identity;	/* address in its memory */
	int32_t pid;
	uint16_t slot;
	bool dead;		/* remaining packets are taken, then the lane is cleared */
};

struct local {
	struct host *host;
	struct segment *seg;
	struct keeper keeper;
	struct lock lock;
	struct list peers;

	/* vrb.poll_lock */
	uint32_t news_seen;
	unsigned int n_inbound, next_inbound;
	unsigned int n_dead;		/* hint: number of dead entries in inbound[] */
	bool lacking;			/* atomic: an announced lane got no memory */
	struct inbound inbound[SEG_PEERS];
};

#endif
