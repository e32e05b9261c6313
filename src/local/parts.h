/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the local transport share. */
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
	SEGS_MAX = 64,			/* of a pulled packet; more are sent as packets */
};

/* A lane by which a neighbour sends to us. */
struct inbound {
	struct lane_rx rx;
	uint64_t sender;	/* incarnation */
	uint64_t identity;	/* address in its memory */
	int32_t pid;
	uint16_t slot;
	bool dead;		/* what it left is still taken, then the lane is cleared */
};

struct local {
	struct host *host;
	struct segment *seg;
	struct keeper keeper;
	struct lock lock;
	struct list peers;

	/* vrb.drive */
	uint32_t news_seen;
	unsigned int n_inbound, next_inbound;
	unsigned int n_dead;		/* some of inbound[] are; a hint */
	bool lacking;			/* a lane was told of for which there was no memory */
	struct inbound inbound[SEG_PEERS];
};

#endif
