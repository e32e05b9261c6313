/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer: its abilities, and batches into its lane. Private to src/local. */
#ifndef VRB_LOCAL_PEER_H
#define VRB_LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/region_map.h"
#include "local/message.h"
#include "local/segment.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/list.h"
#include "util/lock.h"

struct local;

struct local_peer {
	/* local->lock */
	struct list node;	/* in local->peers, or local->unused */
	unsigned int refs;	/* number of QPs connected to it */
	bool ready;		/* the lane belongs to us */

	/* Immutable. */
	struct peer_map map;
	uint64_t identity;	/* address of its struct seg_identity, in its memory */
	int slot;
	int bell;		/* host_bell_open() */
	bool self;		/* this process: its addresses are valid here */
	const uint32_t *own_heavy;	/* seg_header.heavy of this process */

	/* Atomic hints. */
	uint64_t checked;	/* last time that the peer was known to be alive */
	bool alive;
	bool cma;		/* cross-memory attach works */
	bool proven;		/* immutable: it worked at first, so the pid is the peer's */

	struct lock lock;	/* protects the sending end of our lane, our hazards in it, and: */
	/* atomic: L8, the key of this process whose memory onesided_one() uses; 0: none */
	uint32_t own_key;
	struct region_maps *regions;	/* NULL: no mappable region was used yet */
	struct lane_tx tx;
	uint64_t full_since;	/* see peer_full_since(); 0: it has never been full */
	uint32_t full_tail;
	struct message_queue senders;
	struct mr_entry whole_key;	/* the last entry of its table with a valid digest */

	/* vrb.poll_lock */
	struct list bell_node;		/* in local->bells, or unlinked */
	bool bell_may_wait;		/* bell.h */
	bool bell_is_new;		/* queued since the last round */

	/* atomic: a doorbell is delayed, and no packet has left since */
	bool bell_delayed;
};

void peer_free(struct local_peer *peer);

/*
 * Removes all mappings of the peer's regions, which would keep its memory: no QP uses them any
 * more, or the peer is gone. Must hold peer->lock and no address within a mapping.
 */
void peer_unmap_regions(struct local_peer *peer);

/*
 * Checks that the kernel permits the copy and that the pid names the expected process: ESRCH if it
 * names another.
 */
int peer_probe(int32_t pid, uint64_t identity, uint64_t incarnation);

/*
 * Returns true if the peer's memory can be accessed now. After exit or exec its pid names another
 * process or program, so check right before each access, and again after reading. Once false, it
 * stays false.
 */
bool peer_in_reach(struct local_peer *peer);

/* Returns true if one-sided access works: the kernel permits cross-memory attach. */
static inline bool local_peer_cma(const struct local_peer *peer)
{
	return load_relaxed(&peer->cma);
}

/*
 * Returns true if payloads may stay in our memory for the peer to pull. The peer decides this when
 * it first sees our lane.
 */
static inline bool local_peer_pulls(const struct local_peer *peer)
{
	return load_relaxed(&peer->map.lane->can_pull) == 1;
}

/* Does it sleep? A hint: it may fall asleep until the next fence (L2). */
static inline bool local_peer_sleeps(const struct local_peer *peer)
{
	return load_relaxed(peer->map.asleep);
}

/* Locks the lane for a batch of packets or one-sided requests to one peer. */
static inline struct lane_tx *local_tx_begin(struct local_peer *peer)
{
	lock_acquire(&peer->lock);
	return &peer->tx;
}

/*
 * lane_tx_room() has found no room: since when has that been so, without anything taken from the
 * lane? Must hold peer->lock.
 */
static inline uint64_t peer_full_since(struct local_peer *peer, uint64_t now)
{
	if (!peer->full_since || peer->full_tail != peer->tx.tail) {
		peer->full_since = now;
		peer->full_tail = peer->tx.tail;
	}
	return peer->full_since;
}

/* Rings the peer's doorbell. */
void peer_wake(struct local *l, struct local_peer *peer);

/* Would local_next_sender() return a sender? Must hold vrb.poll_lock. */
bool peers_have_news(struct local *l);

/* L2: between the stores that the peer must see, and the loads of its `polled` and `asleep`. */
static inline void peer_fence(const struct local_peer *peer)
{
	light_fence();
	if (unlikely(!load_relaxed(&peer->map.header->polled) || !load_relaxed(peer->own_heavy)))
		full_fence();
}

static inline void local_tx_end(struct local *l, struct local_peer *peer, bool sent)
{
	lock_release(&peer->lock);
	if (!sent)
		return;
	/*
	 * The slots, or the doorbell for them, make the peer read what a delayed doorbell
	 * announces, too.
	 */
	if (unlikely(load_relaxed(&peer->bell_delayed)))
		store_relaxed(&peer->bell_delayed, false);
	/* L2: store the slots and bell_delayed before, load asleep after */
	peer_fence(peer);
	if (unlikely(load_relaxed(peer->map.asleep)))
		peer_wake(l, peer);
}

#endif
