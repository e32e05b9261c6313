/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens when a timer is due: a QP's engine sends again or gives up, a CQ tells of its overrun or of the events it held back.
 * The timers themselves are run/timers.h's; when they are looked at is up to drive.c.
 */
#ifndef VRB_CORE_DEADLINE_H
#define VRB_CORE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "run/timers.h"

struct vrb_cq;

/* A timer and what it belongs to. */
struct deadline {
	struct timer timer;
	enum {
		DEADLINE_QP,
		DEADLINE_CQ,
		DEADLINE_GSI,
	} kind;
};

/*
 * Serves what is due, a bounded number of them; before one is held to be missed, takes all that is here already.  True if anything was due.
 * Must hold vrb.drive, and no lock below it.
 */
bool vrb_deadlines_expire(uint64_t now, void (*take_all)(uint64_t now, bool poller), bool poller);

/* A CQ's timer: vrb_cq_timeout() is called at `due` or earlier. The caller may hold cq->lock. */
int vrb_deadline_add(struct vrb_cq *cq);
void vrb_deadline_set(struct vrb_cq *cq, uint64_t due);

/* Ends that; vrb_cq_timeout() is not running afterwards. Must hold no lock. */
void vrb_deadline_remove(struct vrb_cq *cq);

#endif
