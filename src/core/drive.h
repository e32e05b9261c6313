/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where packets meet queue pairs: takes them off the wire and the host inbox, finds the QP, runs the engine, and puts what
 * it wants to say on the wire.  Runs in application threads (posting, polling) and in the progress thread.
 */
#ifndef VRB_CORE_DRIVE_H
#define VRB_CORE_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct vrb_cq;
struct vrb_qp;

int vrb_drive_start(void);	/* called by vrb_process_get with the wire, host, timers and progress thread up */
void vrb_drive_stop(void);

/* The QP-number table. Insert after creation; remove waits until no packet or timer of the QP is being processed. */
int vrb_drive_insert(struct vrb_qp *qp);
void vrb_drive_remove(struct vrb_qp *qp);

/* Sends what the engine has to send, and re-arms its timer. Must hold qp->lock. */
void vrb_drive_output(struct vrb_qp *qp, uint64_t now);

/*
 * One bounded round: packets that have arrived, then timers that are due. Called by ibv_poll_cq on an empty queue; returns at once if
 * another thread is driving. True if anything was done. Must hold no lock.
 */
bool vrb_drive_poll(void);

/* Has the drive look at a CQ that overran or holds an event back until `due`. The caller may hold cq->lock. */
void vrb_drive_defer(struct vrb_cq *cq, uint64_t due);

/* Ends that; no deferred work of the CQ is running afterwards. Must hold no lock. */
void vrb_drive_forget(struct vrb_cq *cq);

#endif
