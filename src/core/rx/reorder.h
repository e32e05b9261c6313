/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reorder queue: requests of a reliable connection that arrived before a missing one. The engine
 * accepts packets only in order and has sent a NAK for the missing packet; once that arrives, the
 * queued packets need no retransmission. Dropping a queued packet only costs its retransmission,
 * so the queue is bounded and allocations may fail.
 *
 * Nothing proves that an out-of-order packet came from the peer: an attacker needs to guess only
 * the PSN, and this queue accepts a whole window of PSNs. So a packet is trusted only as long as a
 * retransmission of the gap in front of it can explain it:
 *
 *	old		queued for LIMIT_REORDER_AGE; a retransmission takes one round trip. Dropped
 *	passed		more than TUNE_REORDER_TRUSTED packets in front of it arrived later. Nearly
 *			all gaps are shorter, so this is gapless traffic that reaches the PSN
 *	disputed	a different packet with the same PSN arrived; one of the two is forged
 *
 * The last two are doubted: when such a packet's PSN is expected, the queue requests its
 * retransmission instead of delivering it. It counts as evidence of a gap for longer, until more
 * than TUNE_REORDER_MISSING packets in front of it have arrived: a needless retransmission costs
 * one packet, while waiting for a probe takes much time.
 *
 * A packet that arrives in order is never compared with a queued one and always runs. So a forged
 * packet is delivered only with at most TUNE_REORDER_TRUSTED missing packets in front of it.
 * Without a reorder queue it would have to carry the expected PSN.
 *
 * One per QP, allocated at its first gap; under qp->lock.
 */
#ifndef VRB_CORE_RX_REORDER_H
#define VRB_CORE_RX_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/time.h"

enum {
	REORDER_PACKETS = 256,		/* per QP: the largest window; a power of two */
};

struct reorder_queue;

/* Passes a packet to the engine. */
typedef void reorder_run_fn(void *arg, const struct roce_pkt *pkt);

/* Queues a copy of a packet for which roce_out_of_order() is true. */
void reorder_insert(struct reorder_queue **h, const struct roce_pkt *pkt, uint64_t now);

/*
 * A packet arrived in order: runs the queued packets that follow it. Each requests an ACK, so that
 * the sender learns not to retransmit it. If another packet is missing, makes the engine send a
 * NAK.
 */
void reorder_deliver(struct reorder_queue *h, struct roce_qp *qp, reorder_run_fn *run, void *arg,
		     uint64_t now);

/* Does a packet wait for earlier ones? h: NULL or a queue. */
bool reorder_waits(const struct reorder_queue *h);

/* Frees the queue and all packets in it. */
void reorder_free(struct reorder_queue **h);

#endif
