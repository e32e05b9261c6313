/* SPDX-License-Identifier: BSD-2-Clause */
/* Both sides of a split copy; split_copy.h documents the protocol. */
#include "local/split_copy.h"

#include <sched.h>
#include <sys/uio.h>

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/time.h"
#include "util/tuning.h"

enum {
	COUNT_MAX = UINT16_MAX,	/* largest piece count in a claim */
	FAILED = 1 << 16,	/* in lane_split_copy.done */
};

static uint64_t claim_word(uint32_t id, uint32_t front, uint32_t back)
{
	return (uint64_t)id << 32 | front << 16 | back;
}

static uint32_t claim_id(uint64_t claim)
{
	return claim >> 32;
}

static uint32_t claim_front(uint64_t claim)
{
	return claim >> 16 & COUNT_MAX;
}

static uint32_t claim_back(uint64_t claim)
{
	return claim & COUNT_MAX;
}

static uint32_t count_pieces(uint32_t length, uint32_t piece)
{
	return ((uint64_t)length + piece - 1) / piece;
}

static uint64_t piece_at(uint32_t index, uint32_t length, uint32_t piece, uint64_t *len)
{
	uint64_t at = (uint64_t)index * piece;

	*len = min((uint64_t)piece, length - at);
	return at;
}

/*
 * An eighth of the length, rounded to whole pages, so that neither side waits long for the last
 * piece of the other.
 */
static uint32_t piece_for(uint32_t length)
{
	uint32_t piece = (length / 8 + 4095) & ~4095u;

	return min(max(piece, (uint32_t)TUNE_SPLIT_COPY_PIECE_MIN),
		   (uint32_t)TUNE_SPLIT_COPY_PIECE_MAX);
}

void split_copy_open(struct split_copy *h, struct lane *lane, uint32_t length)
{
	*h = (struct split_copy){ .shared = &lane->split_copy,
				  .length = length,
				  .piece = piece_for(length) };
	h->id = claim_id(load_relaxed(&lane->split_copy.claim)) + 1;
	/* L9; invalidates claims on the previous copy. */
	store_release(&lane->split_copy.claim, claim_word(h->id, 0, 0));
}

/* Checks the sender's part of the claim word; this side ignores the other parts. */
static bool makes_sense(const struct split_copy *h, uint64_t claim)
{
	return claim_id(claim) == h->id && claim_front(claim) == h->front &&
	       h->front + claim_back(claim) <= count_pieces(h->length, h->piece);
}

/* Claims up to n pieces and reads how many the sender has claimed. */
static void take(struct split_copy *h, uint32_t n)
{
	uint64_t claim = load_acquire(&h->shared->claim);
	uint32_t pieces = count_pieces(h->length, h->piece), front;

	do {
		h->alone |= !makes_sense(h, claim);
		if (h->alone) {
			h->front = min(h->front + n, pieces);
			h->back = 0;
			return;
		}
		front = min(h->front + n, pieces - claim_back(claim));
	} while (!cas_acq_rel(&h->shared->claim, &claim,
			      claim_word(h->id, front, claim_back(claim))));	/* L9 */
	h->front = front;
	h->back = claim_back(claim);
}

bool split_copy_take(struct split_copy *h, uint64_t *at, uint64_t *len)
{
	uint32_t before = h->front;

	take(h, 1);
	if (h->front == before)
		return false;
	*at = piece_at(before, h->length, h->piece, len);
	return true;
}

void split_copy_close(struct split_copy *h)
{
	take(h, COUNT_MAX);
}

uint64_t split_copy_sender_part(const struct split_copy *h)
{
	uint32_t pieces = count_pieces(h->length, h->piece);

	return h->back ? (uint64_t)(pieces - h->back) * h->piece : h->length;
}

enum split_copy_outcome split_copy_await(const struct split_copy *h, struct local *l,
					 uint64_t incarnation)
{
	uint64_t until = 0;

	for (unsigned int tries = 1; h->back > 0; tries++) {
		uint64_t done = load_acquire(&h->shared->done);	/* L9 */

		if (done == claim_word(h->id, 0, h->back))
			return SPLIT_COPY_DONE;
		if (claim_id(done) == h->id && done & FAILED)
			return SPLIT_COPY_FAILED;
		if (tries % TUNE_SPLIT_COPY_SPINS != 0) {
			cpu_relax();
			continue;
		}
		if (!host_incarnation_alive(l->host, incarnation))
			return SPLIT_COPY_LOST;
		if (until == 0)
			until = clock_now() + LIMIT_SPLIT_COPY_WAIT;
		if (clock_now() >= until) {
			log_limited(LOG_LOCAL, LOG_WARN,
				    "a sender has not finished its part of a split copy; the "
				    "message is refused");
			return SPLIT_COPY_LOST;
		}
		sched_yield();
	}
	return SPLIT_COPY_DONE;
}

static bool offer_makes_sense(const struct split_copy_offer *o)
{
	return o->piece >= TUNE_SPLIT_COPY_PIECE_MIN &&
	       count_pieces(o->length, o->piece) <= COUNT_MAX;
}

bool split_copy_claim(struct lane_split_copy *shared, const struct split_copy_offer *o,
		      uint32_t mine, uint64_t *at, uint64_t *len)
{
	uint64_t claim = load_acquire(&shared->claim);
	uint32_t pieces;

	if (!offer_makes_sense(o))
		return false;
	pieces = count_pieces(o->length, o->piece);
	do {
		if (claim_id(claim) != o->id || claim_back(claim) != mine ||
		    claim_front(claim) + mine >= pieces)
			return false;
	} while (!cas_acq_rel(&shared->claim, &claim, claim + 1));	/* L9 */
	*at = piece_at(pieces - 1 - mine, o->length, o->piece, len);
	return true;
}

void split_copy_report(struct lane_split_copy *shared, const struct split_copy_offer *o,
		       uint32_t mine, bool failed)
{
	/* L9 */
	store_release(&shared->done, claim_word(o->id, 0, mine) | (failed ? FAILED : 0));
}

bool local_offer(struct local *l, struct local_peer *peer, uint64_t incarnation,
		 const struct split_copy_offer *offer)
{
	struct lane_head head = { .where = LANE_INLINE, .flags = LANE_OFFER };
	struct lane_part part = { offer, sizeof(*offer) };
	struct lane_tx *tx;
	bool room;

	if (peer->map.incarnation != incarnation || incarnation == local_incarnation(l) ||
	    load_relaxed(peer->map.asleep))
		return false;
	tx = local_tx_begin(peer);
	room = lane_tx_room(tx, sizeof(*offer));
	if (room)
		lane_tx_put(tx, &head, &part, 1);
	local_tx_end(l, peer, false);	/* no doorbell: nothing here is worth a wake-up */
	return room;
}

void local_split_copy(struct local_peer *peer, const struct split_copy_offer *o, uint64_t src)
{
	struct lane *lane = peer->map.lane;
	uint32_t mine = 0;
	uint64_t at, len;

	/* Too late: the receiver has copied everything. */
	if (!load_relaxed(&peer->cma) || claim_id(load_relaxed(&lane->split_copy.claim)) != o->id)
		return;
	lock_acquire(&peer->lock);
	store_relaxed(&lane->hazard[0], o->key);	/* L8, published by L9 */
	while (split_copy_claim(&lane->split_copy, o, mine, &at, &len)) {
		struct iovec local_iov = { (void *)(uintptr_t)(src + at), len };
		struct iovec remote_iov = { (void *)(uintptr_t)(o->addr + at), len };
		bool ok = peer_in_reach(peer) &&
			  SYS_RESULT(process_vm_writev(peer->map.pid, &local_iov, 1, &remote_iov,
						       1, 0)) == (ssize_t)len;

		split_copy_report(&lane->split_copy, o, ++mine, !ok);
		if (!ok)
			break;
	}
	store_release(&lane->hazard[0], 0);
	lock_release(&peer->lock);
}
