/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The multicast groups of a process that does not hold the UDP port: it subscribes to them at one
 * process that does, the first that answers its question (mad/group_mad.h). It repeats that, as a
 * subscription lapses, and asks again when it gets no answer for as long.
 *
 * Must hold vrb.poll_lock, except for start and stop.
 */
#ifndef VRB_CORE_RX_SUBSCRIBER_H
#define VRB_CORE_RX_SUBSCRIBER_H

#include <stdint.h>

struct group_mad;

/* Returns 0 or an errno value. */
int vrb_subscriber_start(void);
void vrb_subscriber_stop(void);	/* must hold no lock */
void vrb_subscriber_forget(void);	/* in a forked child */

/* The groups of this process have changed. */
void vrb_subscriber_changed(void);

/* What a holder has answered. */
void vrb_subscriber_answer(const struct group_mad *m, uint64_t now);

#endif
