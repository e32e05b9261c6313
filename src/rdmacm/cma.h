/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of the process in librdmacm: the connection manager's engine and its registration with QP
 * 1.
 *
 * Locks, outermost first:
 *
 *	locks of rsockets	rs.h; librdmacm's functions are called under them
 *	`starting`		registration with QP 1 (cma.c)
 *	device.c's mutex	open devices; verbs are called under it
 *	vrb.poll_lock, in libibverbs	held during callbacks for MADs and deadlines
 *	cma lock		ids, their states, events, channels' queues, the engine
 *	ringing			writes to the eventfds of channels (event.c)
 *
 * Hence no verb and no call of device.c may be made under the cma lock.  Callbacks of the engine
 * queue events; the verbs that an event requires are called when the program fetches it
 * (deliver.c).
 */
#ifndef VRB_RDMACM_CMA_H
#define VRB_RDMACM_CMA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/cm.h"
#include "rdmacm/qp1.h"
#include "util/atomic.h"
#include "util/list.h"

/* Marks a function of the public interface. */
#define CMA_EXPORT __attribute__((visibility("default")))

struct cma {
	pthread_mutex_t lock;
	pthread_cond_t acked; /* signalled when an event is acknowledged or an id migrates */
	/* incremented in a forked child; ids and channels of another generation are invalid */
	unsigned int generation;
	struct cm engine;
	bool ending;         /* the process is exiting; its exit MADs are kept */
	unsigned int removals; /* number of devices removed so far */
	struct vrb_mad *mad;   /* atomic; NULL until the first id gets an address */
	struct list ids;       /* struct cma_id.node */
	struct list listeners; /* struct cma_id.on_listen */
	struct list discarded; /* struct cma_id.node; discarded once the engine has returned */
	struct list silent;    /* struct channel.on_silent */
};

extern struct cma cma;

struct cma_id;

/* cma.mad, without the lock: another thread may be in cma_start(). */
static inline struct vrb_mad *cma_mad(void)
{
	return load_acquire(&cma.mad);
}

/* Registers with QP 1 once.  Must not hold the lock.  Returns 0 or an errno value. */
int cma_start(void);

void cma_lock(void);

/*
 * Discards the ids in `discarded`, schedules the engine's next deadline, unlocks, and makes
 * channels readable that have got events.
 */
void cma_unlock(void);

/* Waits for `acked`.  Under the lock, which is free meanwhile. */
void cma_wait_acked(void);

/* For callbacks of the engine: discards an id that was not delivered to the program. */
void cma_discard_later(struct cma_id *id);

/*
 * Sends pending ACKs, before a message that begins or ends a connection.  Must not hold the
 * lock.
 */
void cma_settle(void);

/* Result of a public call: 0, or -1 with errno set. */
int cma_result(int err);

/* Maps the result of a verb to an errno value, whether it returns one or sets errno. */
int cma_verb(int ret);

#endif
