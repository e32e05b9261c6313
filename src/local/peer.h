/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer: what it allows, and batches into its lane. For the files of the local transport only. */
#ifndef VRB_LOCAL_PEER_H
#define VRB_LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/segment.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/list.h"
#include "util/lock.h"

struct local;

struct local_peer {
	/* local->lock */
	struct list node;
	unsigned int refs;	/* number of QPs connected to it */
	bool ready;		/* the lane is ours */

	/* Immutable. */
	struct peer_map map;
	uint64_t identity;	/* address of its struct seg_identity, in its memory */
	int slot;

	/* Atomic hints. */
	uint64_t checked;	/* last time that it was known to be alive */
	bool alive;
	bool cma;		/* cross-memory attach works */
	bool proven;		/* immutable: it did at first, so the pid is the peer's */

	struct lock lock;	/* the sending end of our lane, and our hazards in it */
	struct lane_tx tx;
};

/* Must hold local->lock, or have the last reference. */
void peer_free(struct local_peer *peer);

/*
 * Tries whether the kernel permits the copy, and checks that the pid names the expected process.
 */
bool peer_probe(int32_t pid, uint64_t identity, uint64_t incarnation);

/*
 * True if the peer's memory can be accessed now. After exit or exec its pid names another process
 * or program, so check right before each access, and again after reading. Once false, it stays
 * false.
 */
bool peer_in_reach(struct local_peer *peer);

/* True if one-sided access works: the kernel permits cross-memory attach. */
static inline bool local_peer_cma(const struct local_peer *peer)
{
	return load_relaxed(&peer->cma);
}

/*
 * True if payloads may be left for the peer to pull, which it decides when it first sees our lane.
 */
static inline bool local_peer_pulls(const struct local_peer *peer)
{
	return load_relaxed(&peer->map.lane->can_pull) == 1;
}

/* Locks the lane for a batch of packets or one-sided requests to one peer. */
static inline struct lane_tx *local_tx_begin(struct local_peer *peer)
{
	lock_acquire(&peer->lock);
	return &peer->tx;
}

/* Rings the peer's doorbell. */
void peer_wake(struct local *l, const struct local_peer *peer);

static inline void local_tx_end(struct local *l, struct local_peer *peer, bool sent)
{
	lock_release(&peer->lock);
	if (!sent)
		return;
	full_fence();	/* L2: the slots before, asleep after */
	if (unlikely(load_relaxed(peer->map.asleep)))
		peer_wake(l, peer);
}

#endif
