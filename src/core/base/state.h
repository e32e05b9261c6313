/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Per-process state: the host membership, the wire, the progress thread, the QP table and the
 * timers. Created with the first open context, destroyed with the last.
 *
 * Lock order of the whole library, outermost first; a thread may skip levels but never go back:
 *
 *	0  fault/plan.c's settling	faults that happen after their occasion, one at a time
 *	0  context_open.c's successors	contexts that replace inherited ones after a fork
 *	0  vrb.life		start and stop of the process state, join of the progress thread
 *	   raw_port.c's opening, mirror.c's changing
 *				start and stop of raw ports and sniffers, each waits for that thread
 *	0  remote_handle.c's calls  opening and closing QPs of other processes
 *	1  vrb.lock		device registry, list of contexts
 *	2  context->lock	lists of objects of one context, counts of children
 *	3  RX queues' locks, in the order of their numbers
 *				one thread at a time receives from a wire (pollers try the lock);
 *				see rx_queues.h
 *	   vrb.poll_lock	the main RX queue's lock; lanes, timers, all without another lock
 *	   remote_handle.c's lock  handles of QPs of other processes
 *	4  qp->lock		one QP: queues, engine, state
 *	   xrc_domain->lock	lists of one XRC domain
 *	   RX queues' pending.lock
 *				batches of packets that wait; below the others of this level
 *	5  srq->lock
 *	6  cq->lock
 *	7  resend.c's, backlog.c's locks
 *				what waits for room in a lane; above the others of this level
 *	   channel / context event queues, port tables, key table's writer lock
 *	8  timers, host, log, path flows, lists of senders, mirrors, egress rules	(leaves)
 *
 * A packet never outlives its QP: a QP is removed from the table under the locks of all RX queues,
 * so a thread that dispatches packets or timers while holding one of them may use the QP it found.
 */
#ifndef VRB_CORE_BASE_STATE_H
#define VRB_CORE_BASE_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/path_flows.h"
#include "util/list.h"
#include "util/lock.h"

struct host;
struct local;
struct progress;
struct timers;
struct vrb_xrc_ops;
struct wire;

struct vrb_process {
	pthread_mutex_t life;
	pthread_mutex_t lock;
	unsigned int users; /* open contexts; under vrb.life */
	/* incremented in a forked child; contexts of other generations are dead */
	unsigned int generation;
	int monitor;          /* netdev_monitor_open(); -1: interface changes are not monitored */
	struct list contexts; /* struct vrb_context.node */

	struct lock poll_lock;
	struct host *host;
	struct local *local; /* NULL: no shared-memory transport */
	bool ecn;            /* VERBENA_ECN */
	bool leaves;         /* atomic: it ends, and what it receives now is for other processes */
	struct wire *wire;   /* NULL if the UDP port could not be bound */
	struct progress *progress;
	struct timers *timers;
	struct path_table paths;
	const struct vrb_xrc_ops *xrc; /* immutable while the process is up */
};

extern struct vrb_process vrb;

#endif
