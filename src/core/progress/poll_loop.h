/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rounds of progress: take packets from the wire, the lanes and the host inbox, expire timers,
 * transmit what QPs have to send. Runs in polling application threads and in the progress thread.
 */
#ifndef VRB_CORE_PROGRESS_POLL_LOOP_H
#define VRB_CORE_PROGRESS_POLL_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "run/progress.h"

struct vrb_qp;

/* For progress_new(): deadlines and their expiry. The argument is unused. */
extern const struct progress_ops vrb_progress_ops;

/*
 * Its rest(), for a thread that stands in for the progress thread: takes what is in the lanes, and
 * lets peers ring from now on.
 */
enum progress_rest vrb_progress_rest(void);

/*
 * vrb_process_get() calls start once wire, host, timers and progress (not yet started) exist, and
 * vrb_process_put() calls stop before they go. start returns 0 or an errno value.
 */
int vrb_progress_start(void);
void vrb_progress_stop(void);

/* The program is about to wait for an event instead of polling. */
void vrb_prepare_sleep(void);

/*
 * One bounded round: packets that have arrived, then expired timers. Called by ibv_poll_cq on an
 * empty CQ for QPs of these shards (cq->shards); returns at once if other threads are polling.
 * Returns true if anything was done. Must hold no lock.
 */
bool vrb_poll_once(unsigned int shards);

/*
 * Loopback: the posting thread executes a small request to a QP of this process at once, as a
 * device loops it back, because no other thread may be polling. Call begin before the post; it
 * returns false if another thread holds vrb.poll_lock. If it returns true, the post may set
 * qp->post.loops, and then rings no doorbell of its own process. Call run after the post; it takes
 * the message, and the ACK too if a request is signaled, else the ACK may wait for the reply. By
 * the wire these come to the RX queues of the two QPs. Must hold no lock of level 3 or below but
 * that of begin.
 */
bool vrb_loopback_begin(void);
void vrb_loopback_run(const struct vrb_qp *qp, bool begun, bool by_lane, bool signaled);
void vrb_loopback_end(void);	/* only if begin returned true */

/*
 * Takes what has arrived, by memory and by the wire, up to a bound; a device would have done so
 * before the program's next call. Waits for threads that are taking some. Must hold no lock.
 */
void vrb_poll_arrived(void);

/*
 * The part of it that comes by the main rx queue's sockets, for a message of another process; the
 * lanes were emptied before that. Must hold vrb.poll_lock, in a round of that queue.
 */
void vrb_poll_wire_in_round(uint64_t now);

/*
 * One round of lanes and inbox, while waiting for a message of another process. Returns true if
 * anything was taken. Must hold no lock.
 */
bool vrb_poll_messages(void);

#endif
