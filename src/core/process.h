/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What exists once per process: the host membership, the wire, the progress thread, the QP table
 * and the timers. All come up with the first open context and go down with the last.
 *
 * Lock order of the whole library, outermost first; a thread may skip levels but never go back:
 *
 *	0  context.c's heirs	contexts that stand for others after a fork
 *	0  vrb.life		bringing the process up and down, which waits for the progress thread
 *	0  afar.c's calls	opening and closing QPs of other processes
 *	1  vrb.lock		device registry, list of contexts
 *	2  context->lock	lists of objects of one context, counts of children
 *	3  receivers' locks, in the order of their numbers
 *				one thread at a time takes packets off a wire (lock_try by pollers); see receiver.h
 *	   vrb.drive		the lock of the main receiver, and of lanes, timers and whatever is nobody else's
 *	   afar.c's lock	handles of QPs of other processes
 *	4  qp->lock		one QP: queues, engine, state
 *	   xrc_domain->lock	lists of one XRC domain
 *	5  srq->lock
 *	6  cq->lock
 *	7  channel / context event queues, port table, mr table's writer lock
 *	8  timers, host, log, shares	(leaves)
 *
 * A packet never outlives its QP: a QP is removed from the table under vrb.drive and the locks of all
 * receivers, so whoever dispatches packets or timers while holding one of them may use the QP it found.
 */
#ifndef VRB_CORE_PROCESS_H
#define VRB_CORE_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/share.h"
#include "util/list.h"
#include "util/lock.h"

struct host;
struct local;
struct progress;
struct timers;
struct wire;

struct vrb_process {
	pthread_mutex_t life;
	pthread_mutex_t lock;
	unsigned int users; /* open contexts; vrb.life */
	unsigned int
		generation;   /* grows in a forked child; contexts of another generation are dead */
	int monitor;          /* netdev_monitor_open(), -1: nothing follows the interfaces */
	struct list contexts; /* struct vrb_context.node */

	struct lock drive;
	struct host *host;
	struct local *local; /* NULL: no shared memory with other processes */
	bool ecn;            /* VERBENA_ECN */
	struct wire *wire;   /* NULL when the UDP port could not be had */
	struct progress *progress;
	struct timers *timers;
	struct share_table shares; /* of paths */
};

extern struct vrb_process vrb;

/* First context up, last context down. Return 0 or an errno value. Must hold no lock. */
int vrb_process_get(void);
void vrb_process_put(void);

#endif
