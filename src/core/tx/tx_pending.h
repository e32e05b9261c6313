/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pending packets: those of a stream of UC or UD requests, which leave together.
 *
 * Nobody acknowledges such requests, so they complete when their packets are built, with a copy of
 * the data. The packets wait in a batch of their RX queue until the batch is full, until the
 * program polls a CQ, or for TUNE_PENDING_TIME, after which the progress thread sends them. A poll
 * sends them before it takes completions: what a program has seen complete has left the process.
 *
 * A QP remembers the queue in whose batch it may have packets. What it transmits otherwise comes
 * after these, since UC loses a message that is overtaken (IBTA vol 1, 9.8.2).
 *
 * Lock: vrb_tx_pending.lock of core/base/rx_queues.h, below qp->lock. It is held while the batch is
 * filled and sent, so that no other batch of the same QP overtakes it.
 */
#ifndef VRB_CORE_TX_TX_PENDING_H
#define VRB_CORE_TX_TX_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"

struct vrb_qp;
struct vrb_rx_queue;
struct vrb_tx_batch;

extern unsigned int vrb_pending_queues;	/* atomic: RX queues with pending packets */

/*
 * Transmits the QP's output into the batch. False if it must leave at once, because another thread
 * uses the batch, earlier packets waited in vain, or memory is exhausted. Must hold qp->lock.
 */
bool vrb_tx_pending_transmit(struct vrb_qp *qp, uint64_t now);

/* The QP transmits into `b`: sends its pending packets first. Must hold qp->lock. */
void vrb_tx_pending_settle(struct vrb_qp *qp, const struct vrb_tx_batch *b);

/* Sends the pending packets of an RX queue, if it has any. Must hold no lock below qp->lock. */
void vrb_tx_pending_send(struct vrb_rx_queue *r);

/* As vrb_tx_pending_send(), unless another thread uses the batch. Also at exit. */
void vrb_tx_pending_try_send(struct vrb_rx_queue *r);

/* Sends those that have waited for TUNE_PENDING_TIME. Must hold no lock below qp->lock. */
void vrb_tx_pending_expire(struct vrb_rx_queue *r, uint64_t now);

/* Sends what is left and frees the batch; or, in a forked child, drops what is the parent's. */
void vrb_tx_pending_free(struct vrb_rx_queue *r);
void vrb_tx_pending_forget(struct vrb_rx_queue *r);

/* Slow path of the next. */
void vrb_tx_pending_send_shards(unsigned int shards);

/* Sends the pending packets of the queues that serve these shards (a bit mask). */
static inline void vrb_tx_send_pending(unsigned int shards)
{
	if (unlikely(load_relaxed(&vrb_pending_queues)))
		vrb_tx_pending_send_shards(shards);
}

#endif
