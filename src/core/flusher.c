/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue of msync(2) calls and the thread that makes them; flusher.h says why. Lock: flusher.lock, a leaf. */
#include "core/flusher.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/mrtab.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "run/clock.h"
#include "util/compiler.h"
#include "util/list.h"

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

/* A queue pair that is gone, or was reset since, waits for nothing. */
static void tell(const struct job *job, bool ok)
{
	struct vrb_qp *qp;
	uint64_t now;

	lock_acquire(&vrb.drive);
	qp = vrb_qptab_find(job->qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		now = clock_now();
		qp->now = now;
		roce_flushed(&qp->roce, job->psn, ok ? REASON_NONE : REASON_RKEY_UNMAPPED);
		vrb_output(qp, now);
		lock_release(&qp->lock);
	}
	lock_release(&vrb.drive);
}

static void run(struct job *job)
{
	bool ok = msync(job->from, job->len, MS_SYNC) == 0;

	mr_entry_put(job->entry);
	tell(job, ok);
	free(job);
}

/* The next one, NULL at the end. */
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

/* Signals are the program's threads'. Must hold flusher.lock. */
static bool start(void)
{
	sigset_t all, old;

	if (flusher.runs)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	flusher.stop = false;
	flusher.runs = pthread_create(&flusher.thread, NULL, flusher_main, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (flusher.runs)
		pthread_setname_np(flusher.thread, "verbena-flush");
	return flusher.runs;
}

bool vrb_flusher_add(struct vrb_qp *qp, struct mr_entry *e, void *from, size_t len)
{
	struct job *job = malloc(sizeof(*job));
	bool ok;

	if (!job)
		return false;
	*job = (struct job){ .qpn = qp->wq.qpn, .psn = roce_expected_psn(&qp->roce), .entry = e, .from = from, .len = len };
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
