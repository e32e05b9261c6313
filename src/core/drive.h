/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where packets meet queue pairs: takes them off the wire and the host inbox, finds the QP, runs the engine, and puts what
 * it wants to say on the wire.  Runs in application threads (posting, polling) and in the progress thread.
 */
#ifndef VRB_CORE_DRIVE_H
#define VRB_CORE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "run/timers.h"

struct progress_ops;
struct vrb_context;
struct vrb_cq;
struct vrb_device;
struct vrb_qp;

/* A timer and what it belongs to. */
struct drive_timer {
	struct timer timer;
	bool of_cq;		/* of a vrb_cq, else of a vrb_qp */
};

/* Why packets were dropped before a QP saw them, and what went on. Only grow; read without a lock. */
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
void vrb_drive_remove(struct vrb_qp *qp);

/* Removes the QPs that a program leaves open when it closes their context. */
void vrb_drive_remove_context(struct vrb_context *ctx);

/* Sends what the engine has to send, re-arms its timer, and lets the public state follow. Must hold qp->lock. */
void vrb_drive_output(struct vrb_qp *qp, uint64_t now);

/*
 * The same after posting; but in a stream of small requests they may gather until the next poll,
 * and leave together.
 */
void vrb_drive_posted(struct vrb_qp *qp, uint64_t now);

/* The program is about to wait for an event instead of polling. */
void vrb_drive_blocks(void);

/*
 * One bounded round: packets that have arrived, then timers that are due. Called by ibv_poll_cq on an empty queue; returns at once if
 * another thread is driving. True if anything was done. Must hold no lock.
 */
bool vrb_drive_poll(void);

/* A CQ's timer: vrb_cq_timeout() is called at `due` or earlier. The caller may hold cq->lock. */
int vrb_drive_add_cq(struct vrb_cq *cq);
void vrb_drive_defer(struct vrb_cq *cq, uint64_t due);

/* Ends that; vrb_cq_timeout() is not running afterwards. Must hold no lock. */
void vrb_drive_forget(struct vrb_cq *cq);

extern struct drive_stats vrb_drive_stats;

#endif
