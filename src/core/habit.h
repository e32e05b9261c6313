/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does the program answer what a QP receives, on the same QP and at once?  Then the ACK may wait for
 * the answer and travel with it, though nobody polls; a target that only watches its memory would
 * otherwise have its ACK sent before it sees the data.  A program that never answers shall not have
 * one ACK late, so the habit has to show first, and one ACK that waited in vain ends the belief.
 *
 * No time is read here and nothing locked: a QP's habit is under its lock.
 */
#ifndef VRB_CORE_HABIT_H
#define VRB_CORE_HABIT_H

#include <stdbool.h>
#include <stdint.h>

#include "util/time.h"

enum { HABIT_BELIEVED = 8 };	/* answers in a row */

#define HABIT_SOON (100 * VRB_USEC)	/* after this an ACK that waits leaves alone */

struct habit {
	uint64_t asked;		/* when a packet came that wants an ACK; 0: none since the program posted */
	uint8_t answered;	/* so many times in a row, HABIT_BELIEVED at most */
};

/* A packet wants an ACK. */
static inline void habit_asked(struct habit *h, uint64_t now)
{
	h->asked = now;
}

static inline bool habit_believed(const struct habit *h)
{
	return h->answered == HABIT_BELIEVED;
}

/* The program posts: an answer, if it was asked. */
static inline void habit_posted(struct habit *h, uint64_t now)
{
	if (!h->asked)
		return;
	if (time_since(h->asked, now) > HABIT_SOON)
		h->answered = 0;
	else if (!habit_believed(h))
		h->answered++;
	h->asked = 0;
}

/* The ACK leaves alone. */
static inline void habit_alone(struct habit *h, uint64_t now)
{
	if (h->asked && time_since(h->asked, now) >= HABIT_SOON)
		h->answered = 0;
}

#endif
