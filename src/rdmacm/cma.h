/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What exists once per process in librdmacm: the connection manager's engine and its tie to QP 1.
 *
 * Locks, outermost first:
 *
 *	device.c's mutex	open devices; verbs are called under it
 *	vrb.drive, in libibverbs	held where the engine's messages and deadlines come in
 *	cma lock		ids, their states, events, channels' queues, the engine
 *
 * So no verb is called under the cma lock, and device.c not either.  What a callback of the engine
 *finds out waits as an event until the program fetches it; the verbs that follow from it are called
 *then (deliver.c).
 */
#ifndef VRB_RDMACM_CMA_H
#define VRB_RDMACM_CMA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/cm.h"
#include "rdmacm/qp1.h"
#include "util/list.h"

/* Marks a function of the public interface. */
#define CMA_EXPORT __attribute__((visibility("default")))

struct cma {
	pthread_mutex_t lock;
	pthread_cond_t acked; /* an event was acknowledged, or an id moved */
	unsigned int
		generation; /* grows in a forked child: ids and channels of another one are dead */
	struct cm engine;
	bool ending;         /* the process: its wills stay */
	struct vrb_mad *mad;   /* NULL before the first id has an address */
	struct list ids;       /* struct cma_id.node */
	struct list listeners; /* struct cma_id.on_listen */
	struct list doomed; /* struct cma_id.node: to be discarded when the engine has returned */
};

extern struct cma cma;

struct cma_id;

/* Brings up the tie to QP 1 once.  Must not hold the lock.  Returns 0 or an errno value. */
int cma_start(void);

void cma_lock(void);

/*
 * Does what the engine's callbacks could not, and sees to it that the engine's next deadline is
 * kept.
 */
void cma_unlock(void);

/* For callbacks of the engine: an id that no program knows is to go. */
void cma_doom(struct cma_id *id);

/*
 * Before a peer is told of a connection's beginning or end: what was received is acknowledged. Must
 * not hold the lock.
 */
void cma_settle(void);

/* For calls that end with -1 and errno: 0 for 0. */
int cma_result(int err);

/* An errno value of a verb that says what failed by errno only, or by its result. */
int cma_verb(int ret);

#endif
