/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When queue pairs speak that have been spoken to: at once, one answer for a whole burst; or later, together with what they will say
 * anyway. Posted requests may wait in the same way, to leave together.
 */
#ifndef VRB_CORE_ANSWER_H
#define VRB_CORE_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct vrb_qp;

/* The QPs on `touched`, and all that are owed an answer, speak now. Must hold vrb.drive. */
void vrb_answer(struct list *touched, uint64_t now);

/*
 * The same after taking `packets`: where only ACKs are due, they may wait for the poller's next poll; where nobody polls, for the program to
 * post, if it has the habit (habit.h). Must hold vrb.drive.
 */
void vrb_answer_or_owe(struct list *touched, unsigned int packets, bool poller, uint64_t now);

/* Answers that wait leave now. The first must hold vrb.drive; the second takes it, unless somebody else has it. */
void vrb_answer_owed(uint64_t now);
void vrb_answer_try_owed(void);

/* By when they have to leave, or earlier; VRB_NEVER: none waits. */
uint64_t vrb_answer_due(void);

/*
 * After posting: the QP speaks at once; but in a stream of small requests they may gather until the next poll, and leave together.
 * Must hold qp->lock.
 */
void vrb_answer_posted(struct vrb_qp *qp, uint64_t now);

/* Somebody polls at `now`. */
void vrb_answer_polled(uint64_t now);

/* In a forked child: the QPs that waited are the parent's. */
void vrb_answer_forget(void);

#endif
