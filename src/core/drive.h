/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives the device: rounds that take packets off the wire, the lanes and the host inbox, expire timers, and let the queue pairs
 * answer.  Runs in application threads (polling) and in the progress thread.
 */
#ifndef VRB_CORE_DRIVE_H
#define VRB_CORE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct progress_ops;
struct vrb_context;
struct vrb_qp;

/* Why packets were dropped before a QP saw them, and what went on. Only grow; atomic. */
struct drive_stats {
	uint64_t rcvd_pkts, sent_pkts;
	uint64_t icrc_errors;		/* wrong ICRC */
	uint64_t malformed;		/* did not decode */
	uint64_t unknown_qp;
	uint64_t wrong_path;		/* for a QP that is connected to somebody else */
	uint64_t handed;		/* given to another process */
	uint64_t hand_lost;		/* its inbox was full */
	uint64_t send_lost;		/* socket full for too long */
};

/* For progress_new(): deadlines and their expiry. The argument is not used. */
extern const struct progress_ops vrb_drive_progress_ops;

/*
 * Called by vrb_process_get with wire, host, timers and progress (not yet started) in place, and by vrb_process_put before they go.
 * start returns 0 or an errno value.
 */
int vrb_drive_start(void);
void vrb_drive_stop(void);

/* In a forked child: nothing of the parent's is touched any more. */
void vrb_drive_forget_all(void);

/* The QP-number table. Insert after creation; remove waits until no packet or timer of the QP is being processed. */
int vrb_drive_insert(struct vrb_qp *qp);
int vrb_drive_insert_locked(struct vrb_qp *qp);	/* for who holds vrb.drive */
void vrb_drive_remove(struct vrb_qp *qp);

/* Removes the QPs that a program leaves open when it closes their context. */
void vrb_drive_remove_context(struct vrb_context *ctx);

/* The program is about to wait for an event instead of polling. */
void vrb_drive_blocks(void);

/*
 * One bounded round: packets that have arrived, then timers that are due. Called by ibv_poll_cq on an empty queue, for the sake of QPs of these
 * shards (cq->shards); returns at once if other threads are at it. True if anything was done. Must hold no lock.
 */
bool vrb_drive_poll(unsigned int shards);

/* After a small request to a QP of this process: runs it, and its answer. Must hold no lock of level 3 or below. */
void vrb_drive_within(void);

/*
 * Takes what has arrived, by memory and by the wire, up to a bound: a device has done so long before a program's next call.  Must hold no lock.
 */
void vrb_drive_take_arrived(void);

/* For who waits for a message of another process: one round of lanes and inbox. True if anything was there. Must hold no lock. */
bool vrb_drive_messages(void);

/* What does not belong to a receiver (receiver.h): what was sent. And all together. */
extern struct drive_stats vrb_drive_stats;
void vrb_drive_stats_sum(struct drive_stats *sum);

#endif
