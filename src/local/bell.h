/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doorbells for progress (message.h): wake a sleeping peer so that it reads its progress word. One
 * doorbell covers everything published in a round. It is delayed if the program is likely to
 * answer, because the answer wakes the peer anyway.
 *
 * Barrier L2, as in lane.h: publish and free the slots, fence, load asleep.
 *
 * Must hold vrb.poll_lock.
 */
#ifndef VRB_LOCAL_BELL_H
#define VRB_LOCAL_BELL_H

#include <stdbool.h>

struct local;
struct local_peer;

/* Queues a doorbell for progress published to the peer. may_wait: an answer is expected. */
void local_queue_bell(struct local *l, struct local_peer *peer, bool may_wait);

/* Is a doorbell queued? */
bool local_has_bells(const struct local *l);

enum local_bells {
	BELLS_NOW,		/* ring every queued doorbell */
	BELLS_EXPECT_ANSWERS,	/* delay those with may_wait */
	BELLS_WAIT,		/* delay every doorbell */
};

/* Rings the queued doorbells of peers that sleep. Returns true if any doorbell remains queued. */
bool local_ring_bells(struct local *l, enum local_bells which);

#endif
