/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When queue pairs speak that have been spoken to: at once, one answer for a whole burst; or later, together with what they will say
 * anyway. Posted requests may wait in the same way, to leave together.
 */
#ifndef VRB_CORE_ANSWER_H
#define VRB_CORE_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"

struct list;
struct vrb_qp;
struct vrb_receiver;

/* The QPs that the receiver has touched, and all that it owes an answer, speak now. Must hold its lock. */
void vrb_answer(struct vrb_receiver *r, uint64_t now);

/*
 * The same after taking `packets`: where only ACKs are due, they may wait for the poller's next poll; where nobody polls, for the program to
 * post, if it has the habit (habit.h). Must hold the receiver's lock.
 */
void vrb_answer_or_owe(struct vrb_receiver *r, unsigned int packets, bool poller, uint64_t now);

/* Puts the QP on a list of the receiver; false if it is on another's. Must hold the receiver's lock and qp->lock. */
bool vrb_answer_list(struct vrb_receiver *r, struct vrb_qp *qp, struct list *list);

/* By when answers that wait have to leave, or earlier; VRB_NEVER: none waits. */
uint64_t vrb_answer_due(void);

/* Those for which it is time leave now; all leave now but those of receivers that somebody else has. Must hold no lock of level 3 or below. */
void vrb_answer_overdue(uint64_t now);
void vrb_answer_try_owed(void);

extern unsigned int vrb_answer_owing;	/* atomic: QPs whose ACK was put off */

/* Is there an ACK of another QP that was put off? owes: the QP's own. */
static inline bool vrb_answer_others_owe(bool owes)
{
	return load_relaxed(&vrb_answer_owing) != owes;
}

/*
 * All that was put off leaves: before posting, for whoever sees what is posted shall find its own request acknowledged.  Must hold no lock of
 * level 3 or below.
 */
void vrb_answer_owed(void);

/* The QP's ACK is put off (must hold the lock of the receiver that has it on a list); the QP owes none any more (must hold qp->lock). */
void vrb_answer_put_off(struct vrb_qp *qp);
void vrb_answer_paid(struct vrb_qp *qp);

/*
 * After posting: the QP speaks at once; but in a stream of small requests they may gather until the next poll, and leave together.
 * Must hold qp->lock.
 */
void vrb_answer_posted(struct vrb_qp *qp);

#endif
