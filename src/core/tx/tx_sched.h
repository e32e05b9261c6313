/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit scheduling. After packets arrived, a QP transmits at the end of the receive round, with
 * one ACK for all of them, or later, so that the ACK can be piggybacked on a request. Posted
 * requests can be coalesced in the same way.
 */
#ifndef VRB_CORE_TX_TX_SCHED_H
#define VRB_CORE_TX_TX_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qp/transport_state.h"
#include "util/atomic.h"

struct ibv_send_wr;
struct list;
struct vrb_qp;
struct vrb_rx_queue;

/*
 * Schedules the QP to transmit at the end of the receive round. Must hold the RX queue's lock and
 * qp->lock.
 */
void vrb_tx_schedule(struct vrb_qp *qp, enum tx_urgency due, struct vrb_rx_queue *r);

/* Transmits the output of all QPs scheduled or delayed on the RX queue. Must hold its lock. */
void vrb_tx_flush(struct vrb_rx_queue *r, uint64_t now);

/*
 * As vrb_tx_flush(), after a round of `packets`. If only ACKs are due, they may be delayed: until
 * the poller's next poll or, without a poller, until the program's reply, if it usually replies
 * (roce/delayed_ack.h). Must hold the RX queue's lock.
 */
void vrb_tx_flush_or_delay(struct vrb_rx_queue *r, unsigned int packets, bool poller, uint64_t now);

/*
 * Puts the QP on a list of the RX queue unless it is on a list already; false if that list is
 * another queue's. Must hold the queue's lock and qp->lock.
 */
bool vrb_tx_enqueue(struct vrb_rx_queue *r, struct vrb_qp *qp, struct list *list);

/* The earliest deadline of a delayed ACK, or a time before it; VRB_NEVER: none. */
uint64_t vrb_delayed_tx_deadline(void);

/*
 * vrb_tx_flush_expired() flushes the RX queues whose deadline has passed.
 * vrb_tx_try_flush_delayed() flushes all with delayed output that no other thread has locked. Must
 * hold no lock of level 3 or below.
 */
void vrb_tx_flush_expired(uint64_t now);
void vrb_tx_try_flush_delayed(void);

/* As vrb_tx_try_flush_delayed(), and rings doorbells. */
void vrb_tx_flush_at_exit(void);

extern unsigned int vrb_delayed_acks;	/* atomic: number of QPs with a delayed ACK */

/* Does another QP have a delayed ACK? `delayed`: this one does. */
static inline bool vrb_other_delayed_acks(bool delayed)
{
	return load_relaxed(&vrb_delayed_acks) != delayed;
}

/*
 * Sends all delayed ACKs before a post, so that the receiver of the new message finds its own
 * requests acknowledged. Must hold no lock of level 3 or below.
 */
void vrb_tx_flush_delayed(void);

/*
 * Mark the QP's ACK as delayed, under the lock of the RX queue that lists the QP, or as sent, under
 * qp->lock. now: of the receive round.
 */
void vrb_delayed_ack_begin(struct vrb_qp *qp, uint64_t now);
void vrb_delayed_ack_end(struct vrb_qp *qp);

/*
 * vrb_peer_post_rdma(): true if a request that is being posted alone has run already. Must hold
 * qp->lock.
 */
bool vrb_post_at_once(struct vrb_qp *qp, const struct ibv_send_wr *wr);

/*
 * Called after posting: transmits at once, but coalesces a stream of small requests until the next
 * poll. Must hold qp->lock.
 */
void vrb_doorbell(struct vrb_qp *qp);

#endif
