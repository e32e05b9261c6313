/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of msync(2) calls and the thread that executes them; flush_thread.h says why.
 * flusher.lock is a leaf.
 */
#include "core/progress/flush_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/state.h"
#include "core/mem/key_table.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/tx/transmit.h"
#include "run/clock.h"
#include "util/compiler.h"
#include "util/list.h"
#include "util/quiet_thread.h"

struct job {
	struct list node;
	uint32_t qpn, psn;
	struct mr_entry *entry;
	void *from;
	size_t len;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	struct list jobs;
	bool runs;
	bool stop;
} flusher = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.more = PTHREAD_COND_INITIALIZER,
	.jobs = { &flusher.jobs, &flusher.jobs },
};

/* The QP may have been destroyed or reset meanwhile. */
static void report(const struct job *job, bool ok)
{
	struct vrb_qp *qp;
	uint64_t now;

	lock_acquire(&vrb.poll_lock);
	qp = vrb_qp_table_find(job->qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		now = clock_now();
		qp->now = now;
		roce_flushed(&qp->roce, job->psn, ok ? REASON_NONE : REASON_RKEY_UNMAPPED);
		vrb_transmit(qp, now);
		lock_release(&qp->lock);
	}
	lock_release(&vrb.poll_lock);
}

static void run(struct job *job)
{
	bool ok = msync(job->from, job->len, MS_SYNC) == 0;

	mr_entry_put(job->entry);
	report(job, ok);
	free(job);
}

/* The next job; NULL at the end. */
static struct job *take(void)
{
	struct job *job = NULL;

	pthread_mutex_lock(&flusher.lock);
	while (list_empty(&flusher.jobs) && !flusher.stop)
		pthread_cond_wait(&flusher.more, &flusher.lock);
	if (!list_empty(&flusher.jobs)) {
		job = list_entry(flusher.jobs.next, struct job, node);
		list_del(&job->node);
	}
	pthread_mutex_unlock(&flusher.lock);
	return job;
}

static void *flusher_main(void *arg)
{
	struct job *job;

	while ((job = take()) != NULL)
		run(job);
	return NULL;
}

/* Must hold flusher.lock. */
static bool start(void)
{
	if (flusher.runs)
		return true;
	flusher.stop = false;
	flusher.runs = quiet_thread_start(&flusher.thread, flusher_main, NULL) == 0;
	if (flusher.runs)
		pthread_setname_np(flusher.thread, "verbena-flush");
	return flusher.runs;
}

bool vrb_flusher_add(struct wq_qp *wq, struct mr_entry *e, void *from, size_t len)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	struct job *job = malloc(sizeof(*job));
	bool ok;

	if (!job)
		return false;
	*job = (struct job){
		.qpn = qp->wq.qpn,
		.psn = roce_expected_psn(&qp->roce),
		.entry = e,
		.from = from,
		.len = len,
	};
	pthread_mutex_lock(&flusher.lock);
	ok = start();
	if (ok) {
		list_add_tail(&flusher.jobs, &job->node);
		pthread_cond_signal(&flusher.more);
	}
	pthread_mutex_unlock(&flusher.lock);
	if (!ok)
		free(job);
	return ok;
}

void vrb_flusher_stop(void)
{
	bool runs;

	pthread_mutex_lock(&flusher.lock);
	runs = flusher.runs;
	flusher.stop = true;
	pthread_cond_signal(&flusher.more);
	pthread_mutex_unlock(&flusher.lock);
	if (runs)
		pthread_join(flusher.thread, NULL);
	flusher.runs = false;
}

void vrb_flusher_forget(void)
{
	pthread_mutex_init(&flusher.lock, NULL);
	pthread_cond_init(&flusher.more, NULL);
	list_init(&flusher.jobs);
	flusher.runs = false;
}
