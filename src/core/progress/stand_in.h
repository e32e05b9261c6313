/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread of the program that waits for an event stands in for the progress thread: it sleeps on
 * the same sockets and serves them itself. Then a packet wakes one thread; otherwise it wakes the
 * progress thread, and that one wakes the program's.
 *
 *	stands in	the progress thread parks after its next wake-up, and only checks each
 *			STAND_IN_STAY whether threads still stand in; now and then it serves its
 *			descriptors, because it has others, too
 *	leaves		the next wait usually follows at once, so the progress thread stays parked;
 *			if none follows, it resumes within STAND_IN_STAY
 *
 * In between, nobody serves what arrives, for STAND_IN_STAY at most; as for a program that has
 * polled and stops (run/progress.h).
 *
 * A wait that lasts longer than STAND_IN_STAY goes on without standing in, so an idle process has
 * no wake-ups. One thread stands in at a time.
 */
#ifndef VRB_CORE_PROGRESS_STAND_IN_H
#define VRB_CORE_PROGRESS_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "util/time.h"

#define STAND_IN_STAY VRB_MSEC

/*
 * Waits until the eventfd can be read, and reads it into *count. Returns 0; EAGAIN if it could not
 * be read for STAND_IN_STAY, or another thread stands in or polls: the caller then reads it and
 * sleeps; or EINTR if a signal ended the wait that would end a read(2). No cancellation point. Must
 * hold no lock.
 */
int vrb_stand_in_read(int eventfd, uint64_t *count);

/* For the progress thread: sleeps for a while and returns true if others do its work. */
bool vrb_stand_in_park(void);

/* A thread will sleep for a completion event: the progress thread resumes now. */
void vrb_stand_in_end(void);

/* In a forked child, where no thread stands in. */
void vrb_stand_in_forget(void);

#endif
