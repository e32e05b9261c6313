/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Per-process state: the host membership, the transports, the progress thread, the timers and the
 * contexts. Created with the first open context or for librdmacm, destroyed with the last of these.
 *
 * Lock order of the whole library, outermost first; a thread may skip lines but never go back. It
 * holds only one lock of a line at a time, unless the line says more. Locks that it only tries may
 * come anywhere. Those of librdmacm: rdmacm/cma.h.
 *
 *	0  cq->poll_lock, wr_batch.lock
 *				held between calls of the program, which orders them
 *	   legacy_xrc.c's table_lock
 *				held while verbs are called
 *	   context_open.c's successors
 *				contexts that replace inherited ones after a fork
 *	   vrb.life		start and stop of the process state, join of the progress thread
 *	   raw_port.c's opening, mirror.c's changing, remote_handle.c's calls
 *				start and stop of raw ports and sniffers, calls to other processes
 *				about their QPs; each waits for that thread, too
 *	   plan.c's settling	faults that happen after their occasion, one at a time
 *	1  vrb.lock		device registry, list of contexts
 *	2  context->lock	lists of objects of one context, counts of children
 *	3  RX queues' own_lock	in the order of their numbers; one thread at a time receives from a
 *				wire (pollers try the lock)
 *	   vrb.poll_lock	the main RX queue's lock, number 0 but the last; see rx_queues.h;
 *				lanes, timers, all without another lock
 *	   remote_handle.c's lock
 *				handles of QPs of other processes
 *	4  qp->lock		one QP: queues, engine, state
 *	   RX queues' pending.lock
 *				batches of packets that wait
 *	   peer_tx.c's members	processes that receive multicast
 *	   backlog.c's, resend.c's
 *				what waits for room in a lane
 *	   local->lock		list of peers
 *	   peer->lock		a lane's sending end, also while requests complete
 *	5  xrcd.c's registry_lock
 *				list of XRC domains
 *	   xrc_domain->lock	lists of one XRC domain
 *	   srq->lock
 *	6  cq->lock
 *	7  channel / context event queues, key table's writer lock, exit_mad.c's, verbs/mad.c's
 *	8  (leaves) mutexes of objects with events, ports, egress rules, lists of senders, live
 *	   objects, path flows, timers, host, segment->lock, local->reading, mirrors, recorder.c's
 *	   opening, sysfs_counters.c's, gsi.c's, mad_queue.c's, rpc.c's, drain.c's, progress.c's,
 *	   flush_thread.c's, nofault.c's, path_errors.c's, raw/virtual.c's, the faults' in plan.c,
 *	   held.c and mads.c
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
	unsigned int users; /* open contexts, and librdmacm; under vrb.life */
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
