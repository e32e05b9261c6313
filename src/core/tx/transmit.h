/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmits a QP's output: takes packets from the engine and puts them into the peer's lane or into
 * a batch for the wire, then re-arms the QP's timer and publishes its state.
 */
#ifndef VRB_CORE_TX_TRANSMIT_H
#define VRB_CORE_TX_TRANSMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/qp/qp.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/time.h"

struct vrb_tx_batch;
struct vrb_qp;

/* Must hold qp->lock. */
enum tx_urgency vrb_tx_urgency(const struct vrb_qp *qp);

/* Where does a pending ACK leave? Must hold qp->lock. */
enum roce_ack_order vrb_ack_order(const struct vrb_qp *qp, uint64_t now);

/*
 * Moves all of the engine's output to the peer's lane or into `b`, which the caller flushes. Must
 * hold qp->lock.
 */
void vrb_transmit_batch(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now);

/* As vrb_transmit_batch(), with the thread's batch, which it flushes. Must hold qp->lock. */
void vrb_transmit(struct vrb_qp *qp, uint64_t now);

/* Sets the QP's timer to its next deadline; transmitting does so, too. Must hold qp->lock. */
void vrb_set_timer(struct vrb_qp *qp);

/*
 * Messages may have left, which start no timer: the QP's timer looks after them in
 * LIMIT_MESSAGE_WATCH (roce_watch()). Reads the clock only if the timer does not run. Must hold
 * qp->lock.
 */
void vrb_watch_begin(struct vrb_qp *qp);

static inline void vrb_watch(struct vrb_qp *qp)
{
	if (unlikely(load_relaxed(&qp->timer.timer.at) == VRB_NEVER))
		vrb_watch_begin(qp);
}

/* Sends a packet without ICRC that another process built for this QP. Must hold qp->lock. */
void vrb_transmit_packet(struct vrb_qp *qp, const uint8_t *packet, size_t len, uint64_t now);

/*
 * Records whether the QP expects packets from the wire. While no QP does, pollers need not check
 * it. Must hold qp->lock.
 */
void vrb_set_uses_wire(struct vrb_qp *qp, bool wire);

/* A UD QP has received a datagram, by the wire or from a near peer. Must hold qp->lock. */
void vrb_datagram_received(struct vrb_qp *qp, bool wire, uint64_t now);

extern unsigned int vrb_wire_qps;	/* atomic: QPs that expect packets from the wire */

static inline bool vrb_any_uses_wire(void)
{
	return load_relaxed(&vrb_wire_qps);
}

#endif
