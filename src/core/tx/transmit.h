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

#include "core/qp/transport_state.h"
#include "util/atomic.h"

struct vrb_tx_batch;
struct vrb_qp;

/* Must hold qp->lock. */
enum tx_urgency vrb_tx_urgency(const struct vrb_qp *qp);

/*
 * Moves all of the engine's output to the peer's lane or into `b`, which the caller flushes. Must
 * hold qp->lock.
 */
void vrb_transmit_batch(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now);

/* As vrb_transmit_batch(), with the thread's batch, which it flushes. Must hold qp->lock. */
void vrb_transmit(struct vrb_qp *qp, uint64_t now);

/* Sends a packet without ICRC that another process built for this QP. Must hold qp->lock. */
void vrb_transmit_packet(struct vrb_qp *qp, const uint8_t *packet, size_t len, uint64_t now);

/*
 * Records whether the QP expects packets from the wire. While no QP does, pollers need not check
 * it. Must hold qp->lock.
 */
void vrb_set_uses_wire(struct vrb_qp *qp, bool wire);

extern unsigned int vrb_wire_qps;	/* atomic: QPs that expect packets from the wire */

static inline bool vrb_any_uses_wire(void)
{
	return load_relaxed(&vrb_wire_qps);
}

#endif
