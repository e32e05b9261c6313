/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are posted but not complete when their memory region or queue pair is destroyed. An
 * adapter has fetched the data of a short request long before the program's next call, and programs
 * rely on that: they post, then deregister or destroy at once. So deregistration and destruction
 * first wait for the requests that use the object. Nor would an adapter still have an ACK to send
 * for what the program has seen: a queue pair also waits until its answers find room in a lane, and
 * before a transition to RESET, too.
 *
 * The calling thread polls while it waits; it must hold no lock. It waits as long as the peer makes
 * progress: at most DRAIN_SILENCE without an answer, and DRAIN_MAX in all. A peer that waits for a
 * call of this program, typically for a receive, is silent too, so this cannot deadlock. Silent
 * waits share a budget per process, DRAIN_BUDGET in ten times that period, so that thousands of
 * queue pairs to a dead host are destroyed quickly. While answers wait, packets that the peer takes
 * from the lane are progress, and silence may use the whole budget: only a process that gets no CPU
 * takes none.
 *
 * Requests that are not complete then fail or are lost, as they would without the wait.
 */
#ifndef VRB_CORE_PROGRESS_DRAIN_H
#define VRB_CORE_PROGRESS_DRAIN_H

#include <stdint.h>

#include "util/time.h"

#define DRAIN_SILENCE (200 * VRB_MSEC)
#define DRAIN_MAX     (2 * VRB_SECOND)
#define DRAIN_BUDGET  VRB_SECOND

struct vrb_pd;
struct vrb_qp;

/*
 * For a region or window whose end waits for the queue pairs of its PD: for requests that name it,
 * and for copies that began before the call. The latter takes the locks under which they run, one
 * after the other: those of the RX queues, then of each QP with requests outstanding.
 */
extern const struct vrb_mr_waits vrb_mr_waits;

/*
 * Takes what has arrived for the QP, as an adapter has; waits for its requests that modify memory
 * or state of the peer, and for its answers.
 */
void vrb_drain_qp(struct vrb_qp *qp);

/* Waits for its answers only. */
void vrb_drain_answers(struct vrb_qp *qp);

/* In a forked child: silent waits have a budget of their own. */
void vrb_drain_forget(void);

/* Number of times that a QP was checked for a region, for tests. Under vrb.poll_lock. */
extern uint64_t vrb_drain_looks;

#endif
