/* SPDX-License-Identifier: BSD-2-Clause */
/* Arming a CQ, and waiting for its events. */
#ifndef VRB_CORE_FASTPATH_EVENT_WAIT_H
#define VRB_CORE_FASTPATH_EVENT_WAIT_H

#include <stdbool.h>

struct vrb_channel;
struct vrb_cq;

/*
 * Requests an event at the next (solicited) completion. One that came after the last event and was
 * not polled raises it at once; older ones that stay unpolled, later (cq.c).
 */
void vrb_cq_arm(struct vrb_cq *cq, bool solicited_only);

/*
 * Takes the oldest event and counts it as delivered to cq. Sleeps unless the fd is O_NONBLOCK;
 * polls first if recent waits were short. Must hold no lock. Returns 0, EAGAIN or EINTR.
 */
int vrb_channel_take(struct vrb_channel *channel, struct vrb_cq **cq);

#endif
