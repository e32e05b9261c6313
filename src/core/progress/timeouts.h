/* SPDX-License-Identifier: BSD-2-Clause */
/* The actions of expired timers: a QP's engine retransmits or gives up; a CQ fails its QPs. */
#ifndef VRB_CORE_PROGRESS_TIMEOUTS_H
#define VRB_CORE_PROGRESS_TIMEOUTS_H

#include <stdbool.h>
#include <stdint.h>

struct object_timer;
struct expiry;

/*
 * Serves a bounded number of due timers. Before it counts one as missed, it takes all packets that
 * have arrived. Returns true if any timer was due. Must hold vrb.poll_lock, and no lock below it.
 */
bool vrb_timers_expire(uint64_t now, void (*take_all)(uint64_t now, bool poller), bool poller);

/*
 * Has a timer been put off, because its reply may be in an RX queue that nobody has read since it
 * was due? Then the caller reads all of them. True once.
 */
bool vrb_timers_unserved(void);

/* For object_timer.expire of a QP. */
void vrb_timeout_qp(struct object_timer *d, struct expiry *e);

/* For object_timer.expire of a CQ. */
void vrb_timeout_cq(struct object_timer *d, struct expiry *e);

#endif
