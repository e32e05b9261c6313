/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a queue pair has to say: asks the engine, and gives the packets to the neighbour's lane or to a burst for the wire. Then
 * re-arms the QP's timer, and lets the public state follow.
 */
#ifndef VRB_CORE_OUTPUT_H
#define VRB_CORE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vrb_burst;
struct vrb_qp;

/* How much what a QP has to say matters. */
enum output_due {
	OUTPUT_NOTHING,
	OUTPUT_SOON,	/* an ACK, or a timer to be set: may wait for company */
	OUTPUT_NOW,
};

/* Must hold qp->lock. */
enum output_due vrb_output_due(const struct vrb_qp *qp);

/* Everything the QP has to say goes to its neighbour or into `b`, which the caller flushes. Must hold qp->lock. */
void vrb_output_collect(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now);

/* The same, and it leaves at once. Must hold qp->lock. */
void vrb_output(struct vrb_qp *qp, uint64_t now);

/* A packet that was built by another process for this QP, without ICRC. Must hold qp->lock. */
void vrb_output_packet(struct vrb_qp *qp, const uint8_t *packet, size_t len, uint64_t now);

/* Does the QP expect packets from the wire? Pollers need not look there while none does. Note: must hold qp->lock. */
void vrb_output_note_far(struct vrb_qp *qp, bool far);
bool vrb_output_any_far(void);

#endif
