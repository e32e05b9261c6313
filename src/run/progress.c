/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread takes a snapshot of the watches, sleeps until one is readable, and calls back.  poll
 * rather than epoll: there are a handful of descriptors, and an epoll set would be shared with
 * forked children, which could change the parent's.
 *
 * Lock: p->lock protects the watches and the fields said below; a leaf, never held across a
 * callback.
 */
#include "run/progress.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/clock.h"
#include "run/log.h"
#include "run/proc_state.h"
#include "run/slowdown.h"
#include "run/thread_use.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/poll_fds.h"
#include "util/quiet_thread.h"
#include "util/sleep.h"
#include "util/time.h"
#include "util/tuning.h"

enum {
	WATCHES = 64,
	EXIT_LOOK_MS = 50,	/* between looks at the thread when the process ends */
	USELESS_LIMIT = 4,	/* consecutive useless wake-ups before the thread stands back */
	/*
	 * as USELESS_LIMIT, after the thread was missed: where interrupting a CPU takes 60 us, as
	 * in some virtual machines, they cost as much as the millisecond without it
	 */
	NEEDED_LIMIT = 16,
	USEFUL_WEIGHT = 8,	/* useless wake-ups that one useful one offsets */
	HOT_LOOKS = 16,
};

#define STAND_BACK VRB_MSEC	/* interval between checks for pollers */
/*
 * As above after the thread was missed, for the next HOT_LOOKS: a program that polls between spins
 * on its memory waits that long for packets that arrive while it spins. Longer where each look
 * costs more (slowdown.h), up to STAND_BACK_HOT_MAX.
 */
#define STAND_BACK_HOT	   (100 * VRB_USEC)
#define STAND_BACK_HOT_MAX (400 * VRB_USEC)
#define SLICE	   (100 * VRB_USEC)

struct watch {
	int fd;
	enum progress_kind kind;
	progress_ready_fn ready;
	void *arg;
};

struct progress {
	const struct progress_ops *ops;
	void *arg;
	int wake_fd;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t noticed;		/* seen has grown */
	bool running;			/* lock; atomic, read without it at exit */
	int cpu_clock;			/* the thread's; atomic */
	pid_t tid;			/* the thread's; atomic */
	struct watch watch[WATCHES];	/* lock */
	unsigned int n;			/* lock */
	uint64_t changes;		/* lock: of watch[] */
	uint64_t seen;			/* lock: changes when the thread's snapshot was taken */

	bool stop;
	bool lost;			/* the program has closed wake_fd; atomic */
	bool left;			/* the thread could not be woken, and was not joined */
	bool asleep, ended;		/* atomic; for let_go() */
	bool look;			/* has stopped standing back */
	bool yield;			/* stand back */
	bool polled;			/* since the thread's last check; a hint */
	/* stopped standing back and found work: the program does not always poll; atomic */
	bool needed;
	/* useless wake-ups, less the offset ones; atomic, pollers count, too; a hint */
	unsigned int useless;
	void (*job)(void);		/* does not change while has_job */
	uint32_t has_job;		/* atomic; the thread that waits for the end sleeps on it */
	uint64_t sleep_until;		/* 0 while awake */
	uint64_t wakeups;

	/* The thread's own. */
	struct watch snapshot[WATCHES];
	unsigned int n_snapshot;
	uint64_t snapshot_of;
	bool away;			/* standing back; others may read it */
	bool back;			/* has stopped standing back, and not slept since */
	uint64_t look_at;		/* when away: the next look */
	unsigned int hot_looks;		/* left, at the short interval */
	uint64_t linger_until;		/* 0: does not */
};

int progress_new(const struct progress_ops *ops, void *arg, struct progress **out)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (!p)
		return ENOMEM;
	p->ops = ops;
	p->arg = arg;
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->wake_fd < 0) {
		int err = errno;

		free(p);
		return err;
	}
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->noticed, NULL);
	*out = p;
	return 0;
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_stop(p);
	if (p->left)
		return;	/* the thread may still wake up */
	if (!load_relaxed(&p->lost))
		close(p->wake_fd);
	pthread_cond_destroy(&p->noticed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void progress_forget(struct progress *p)
{
	if (!p)
		return;
	close(p->wake_fd);
	free(p);
}

/* Returns false if the program has closed the descriptor. */
static bool kick(struct progress *p)
{
	uint64_t one = 1;
	ssize_t n;

	/* EAGAIN: the counter is full of unread wake-ups, so the thread wakes up anyway. */
	do
		n = sys_write(p->wake_fd, &one, sizeof(one));
	while (n == -EINTR);
	return n != -EBADF;
}

/*
 * The program has closed the descriptor that would wake the thread: it calls back no more, and ends
 * when it wakes up, if ever. Must not hold p->lock.
 */
static void note_loss(struct progress *p)
{
	log_once(LOG_RUN, LOG_ERROR,
		 "this program has closed descriptors that it did not open (closefrom(3)?): its "
		 "devices no longer work");
	store_relaxed(&p->stop, true);
	store_release(&p->lost, true);	/* the thread that reads it reads stop, too */
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->noticed);
	pthread_mutex_unlock(&p->lock);
}

/* Waits until a thread that is lost calls back no more. Must not hold p->lock. */
static void let_go(struct progress *p)
{
	full_fence();	/* partner: run_once(). Either it reads lost, or it is asleep here. */
	while (!load_acquire(&p->asleep) && !load_acquire(&p->ended))
		sleep_whole(VRB_MSEC);
}

/* Publishes what other threads stored before they waited in progress_unwatch(). */
static void take_snapshot(struct progress *p)
{
	if (load_relaxed(&p->changes) == p->snapshot_of && p->snapshot_of)
		return;
	pthread_mutex_lock(&p->lock);
	memcpy(p->snapshot, p->watch, p->n * sizeof(p->watch[0]));
	p->n_snapshot = p->n;
	p->snapshot_of = p->seen = p->changes;
	pthread_cond_broadcast(&p->noticed);
	pthread_mutex_unlock(&p->lock);
}

static void set_next_look(struct progress *p, uint64_t now)
{
	uint64_t hot = min(slowdown() * STAND_BACK_HOT, STAND_BACK_HOT_MAX);

	p->look_at = time_after(now, p->hot_looks ? hot : STAND_BACK);
	p->hot_looks -= p->hot_looks > 0;
}

static void stand_back(struct progress *p)
{
	store_relaxed(&p->away, true);
	set_next_look(p, clock_now());
	store_relaxed(&p->polled, false);
}

static uint64_t next_deadline(struct progress *p)
{
	return p->ops ? p->ops->deadline(p->arg) : VRB_NEVER;
}

/* Stops standing back once no thread has polled for one interval. */
static void look_around(struct progress *p, uint64_t now)
{
	bool called, polled;

	if (load_relaxed(&p->yield) && swap_acq_rel(&p->yield, false) && !p->away)
		stand_back(p);
	if (!p->away || (now < p->look_at && !load_relaxed(&p->look)))
		return;
	polled = load_relaxed(&p->polled);
	store_relaxed(&p->polled, false);
	called = swap_acq_rel(&p->look, false);
	if (called || !polled) {
		store_relaxed(&p->away, false);
		p->back = !called;
		store_relaxed(&p->useless, 0);
	} else {
		set_next_look(p, now);
	}
}

/*
 * Serves expired deadlines and returns the time to sleep until. *late: the callback could not serve
 * a passed deadline, because another thread does, so the thread need not stay awake. While standing
 * back, it leaves deadlines to the pollers; if these stop, it serves them at its next check.
 */
static uint64_t run_deadlines(struct progress *p, bool *late)
{
	uint64_t now = clock_now();
	uint64_t next;

	look_around(p, now);
	*late = false;
	if (p->away)
		return p->look_at;
	next = next_deadline(p);
	if (time_reached(next, now)) {
		p->ops->expire(p->arg, now);
		next = next_deadline(p);
		*late = time_reached(next, now);
		if (*late)
			next = time_after(now, STAND_BACK);
	}
	return next;
}

static bool pollers_read(struct progress *p)
{
	return !p->ops || !p->ops->pollers_read || p->ops->pollers_read(p->arg);
}

static unsigned int fill_pollfds(struct progress *p, struct pollfd pfd[WATCHES + 1])
{
	bool skip_shared = p->away, skip_at_times = p->away && pollers_read(p);
	unsigned int i;

	pfd[0] = (struct pollfd){ .fd = p->wake_fd, .events = POLLIN };
	for (i = 0; i < p->n_snapshot; i++) {
		const struct watch *w = &p->snapshot[i];
		bool skip = (skip_shared && w->kind == PROGRESS_SHARED) ||
			    (skip_at_times && w->kind == PROGRESS_AT_TIMES);

		pfd[i + 1] = (struct pollfd){ .fd = skip ? -1 : w->fd, .events = POLLIN };
	}
	return i + 1;
}

/* Waits until the deadline; returns as ppoll() does. */
static int wait_until(struct pollfd *pfd, unsigned int n, uint64_t until)
{
	struct timespec ts;
	uint64_t now;

	if (until == VRB_NEVER)
		return poll_fds(pfd, n, NULL);
	now = clock_now();
	if (until < now)
		until = now;
	ts.tv_sec = (time_t)((until - now) / VRB_SECOND);
	ts.tv_nsec = (long)((until - now) % VRB_SECOND);
	return poll_fds(pfd, n, &ts);
}

/* Counts a useless wake-up. Returns true if it is time to stand back. */
static bool count_useless(struct progress *p)
{
	unsigned int n = load_relaxed(&p->useless) + 1;

	store_relaxed(&p->useless, n);
	if (n < (load_relaxed(&p->needed) ? NEEDED_LIMIT : USELESS_LIMIT))
		return false;
	store_relaxed(&p->needed, false);
	return true;
}

/*
 * The thread may only have been faster than a poller, so one useful wake-up does not offset many
 * useless ones.
 */
static void useful_again(struct progress *p)
{
	unsigned int n = load_relaxed(&p->useless);

	if (n)
		store_relaxed(&p->useless, n > USEFUL_WEIGHT ? n - USEFUL_WEIGHT : 0);
}

static void call_back(struct progress *p, const struct watch *w)
{
	bool useful = w->ready(w->arg, w->fd);

	if (w->kind == PROGRESS_OWN)
		return;
	if (useful) {
		useful_again(p);
	} else if (!p->away && count_useless(p)) {
		stand_back(p);
	}
}

/* Stops early if a callback changed the watches, because the snapshot is stale then. */
static void dispatch(struct progress *p, const struct pollfd *pfd)
{
	unsigned int i;
	uint64_t count;

	if (pfd[0].revents & POLLNVAL) {
		note_loss(p);
		return;
	}
	if (pfd[0].revents && read(p->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_limited(LOG_RUN, LOG_ERROR, "progress thread: cannot read its eventfd: %m");
	for (i = 0; i < p->n_snapshot; i++) {
		if (pfd[i + 1].revents)
			call_back(p, &p->snapshot[i]);
		if (load_relaxed(&p->changes) != p->snapshot_of)
			return;
	}
}

void progress_linger(struct progress *p, uint64_t until)
{
	p->linger_until = until;
}

static bool lingers(struct progress *p)
{
	if (p->linger_until && (p->away || clock_now() >= p->linger_until))
		p->linger_until = 0;
	return p->linger_until;
}

/* Returns false if it did work instead. */
static bool may_sleep(struct progress *p, uint64_t *until)
{
	if (p->away || !p->ops || !p->ops->rest)
		return true;
	switch (p->ops->rest(p->arg)) {
	case PROGRESS_WORKED:
		return false;
	case PROGRESS_BUSY:
		stand_back(p);
		*until = time_earlier(*until, p->look_at);
		return true;
	default:
		return true;
	}
}

static void run_job(struct progress *p)
{
	if (likely(!load_acquire(&p->has_job)))	/* pairs with progress_at_exit() */
		return;
	p->job();
	store_release(&p->has_job, 0);	/* pairs with await_job() */
	SYS_CALL(SYS_futex, &p->has_job, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void run_once(struct progress *p)
{
	struct pollfd pfd[WATCHES + 1];
	unsigned int n;
	uint64_t until;
	bool late;
	int ready;

	take_snapshot(p);
	until = run_deadlines(p, &late);
	if (!may_sleep(p, &until))
		return;
	n = fill_pollfds(p, pfd);
	if (lingers(p))
		until = 0;	/* a look, no sleep */

	/*
	 * Partner: progress_hurry(). Either it reads sleep_until, or its deadline is read here.
	 * While standing back no wake-up is needed.
	 */
	store_relaxed(&p->sleep_until, p->away ? 0 : until);
	full_fence();
	if (!late && !p->away && next_deadline(p) < until)
		return;
	store_release(&p->asleep, true);	/* let_go()'s caller frees what callbacks used */
	full_fence();	/* partner: let_go() */
	if (load_acquire(&p->lost))
		return;
	ready = wait_until(pfd, n, until);
	store_relaxed(&p->asleep, false);
	full_fence();
	if (load_acquire(&p->lost))
		return;
	store_relaxed(&p->sleep_until, 0);
	if (until)
		store_relaxed(&p->wakeups, p->wakeups + 1);
	if (ready > 0)
		dispatch(p, pfd);
	p->back = false;
}

/*
 * Asks for a short time slice: the scheduler then lets the thread interrupt a program that spins on
 * the same CPU when a packet has arrived for it (Linux 6.12; older ones ignore it).
 */
static void run_in_short_slices(void)
{
	struct sched_attr_v0 {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != SCHED_OTHER)
		return;
	attr.runtime = SLICE;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *thread_main(void *arg)
{
	struct progress *p = arg;

	store_relaxed(&p->cpu_clock, thread_cpu_clock());
	store_relaxed(&p->tid, (pid_t)syscall(SYS_gettid));
	run_in_short_slices();
	if (p->ops && p->ops->begin)
		p->ops->begin(p->arg);
	while (!load_acquire(&p->stop)) {
		run_once(p);
		run_job(p);
	}
	store_release(&p->ended, true);
	return NULL;
}

static int create_thread(struct progress *p)
{
	int err = quiet_thread_start(&p->thread, thread_main, p);

	if (!err)
		pthread_setname_np(p->thread, "verbena");
	return err;
}

int progress_start(struct progress *p)
{
	int err = 0;

	pthread_mutex_lock(&p->lock);
	if (!p->running) {
		p->stop = p->asleep = p->ended = false;
		p->away = p->back = p->needed = false;
		store_relaxed(&p->useless, 0);
		p->linger_until = 0;
		p->hot_looks = 0;
		p->snapshot_of = 0;
		store_relaxed(&p->changes, p->changes + 1);
		err = create_thread(p);
		store_relaxed(&p->running, !err);
	}
	pthread_mutex_unlock(&p->lock);
	return err;
}

void progress_stop(struct progress *p)
{
	bool running, lost;

	pthread_mutex_lock(&p->lock);
	running = p->running;
	store_release(&p->stop, true);
	pthread_mutex_unlock(&p->lock);
	if (!running)
		return;
	if (!kick(p))
		note_loss(p);
	lost = load_acquire(&p->lost);
	if (lost)
		let_go(p);
	p->left = lost && !load_acquire(&p->ended);
	if (p->left)
		pthread_detach(p->thread);
	else
		pthread_join(p->thread, NULL);

	/* Waiters in progress_unwatch() may continue only now. */
	pthread_mutex_lock(&p->lock);
	store_relaxed(&p->running, false);
	pthread_cond_broadcast(&p->noticed);
	pthread_mutex_unlock(&p->lock);
}

int progress_watch(struct progress *p, int fd, enum progress_kind kind, progress_ready_fn ready,
		   void *arg)
{
	int err = ENOSPC;

	pthread_mutex_lock(&p->lock);
	if (p->n < WATCHES) {
		p->watch[p->n++] = (struct watch){ fd, kind, ready, arg };
		store_relaxed(&p->changes, p->changes + 1);
		err = 0;
	}
	pthread_mutex_unlock(&p->lock);
	if (!err)
		kick(p);
	return err;
}

static bool remove_watch(struct progress *p, int fd)
{
	unsigned int i;

	for (i = 0; i < p->n; i++) {
		if (p->watch[i].fd != fd)
			continue;
		p->watch[i] = p->watch[--p->n];
		store_relaxed(&p->changes, p->changes + 1);
		return true;
	}
	return false;
}

/* Returns false if the thread is lost. */
static bool await_notice(struct progress *p, uint64_t change)
{
	bool lost;

	pthread_mutex_lock(&p->lock);
	while (p->running && p->seen < change && !load_relaxed(&p->lost))
		pthread_cond_wait(&p->noticed, &p->lock);
	lost = p->running && p->seen < change;
	pthread_mutex_unlock(&p->lock);
	return !lost;
}

void progress_unwatch(struct progress *p, int fd)
{
	uint64_t mine = 0;

	pthread_mutex_lock(&p->lock);
	if (remove_watch(p, fd) && p->running && !pthread_equal(pthread_self(), p->thread))
		mine = p->changes;
	pthread_mutex_unlock(&p->lock);
	if (!mine)
		return;
	if (!kick(p))
		note_loss(p);
	if (!await_notice(p, mine))
		let_go(p);
}

void progress_hurry(struct progress *p, uint64_t at)
{
	/* Partner: run_once(). Orders the caller's store of its deadline before the load. */
	full_fence();
	if (at < load_relaxed(&p->sleep_until))
		kick(p);
}

void progress_wake(struct progress *p)
{
	store_release(&p->look, true);
	kick(p);
}

void progress_missed(struct progress *p)
{
	if (!p->back)
		return;
	store_relaxed(&p->needed, true);
	p->hot_looks = HOT_LOOKS;
}

bool progress_needed(const struct progress *p)
{
	return load_relaxed(&p->needed);
}

/*
 * What the caller stored before is behind what the thread did before, and before what it does once
 * it is back: yield pairs with look_around().
 */
void progress_stand_back(struct progress *p)
{
	if (!swap_acq_rel(&p->yield, true))
		kick(p);
}

bool progress_away(const struct progress *p)
{
	return load_relaxed(&p->away);
}

void progress_polled(struct progress *p)
{
	if (!load_relaxed(&p->polled))
		store_relaxed(&p->polled, true);
}

void progress_taken(struct progress *p)
{
	if (load_relaxed(&p->needed))
		count_useless(p);
}

static bool is_elsewhere(const struct progress *p)
{
	return p && load_relaxed(&p->running) && !pthread_equal(p->thread, pthread_self());
}

/* Returns true once the job is done. Not by a semaphore, whose time of day may be set back. */
static bool await_job(struct progress *p)
{
	uint64_t now = clock_now(), end = now + EXIT_LOOK_MS * VRB_MSEC;
	bool done;

	while (!(done = !load_acquire(&p->has_job)) && now < end) {
		const struct timespec limit = { 0, (long)(end - now) };

		SYS_CALL(SYS_futex, &p->has_job, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0);
		now = clock_now();
	}
	return done;
}

/*
 * While the thread sleeps, it waits for a lock, perhaps of this thread. Else it works, or has no
 * CPU; this thread may have been stopped, too, for longer than it would wait.
 */
static void wait_for_job(struct progress *p)
{
	int cancel = cancel_off(), sleeps = 0;

	for (int i = 0; !await_job(p) && i < LIMIT_EXIT_CPU_MS / EXIT_LOOK_MS; i++) {
		sleeps += !proc_is_runnable(load_relaxed(&p->tid));
		if (sleeps == LIMIT_EXIT_JOB_MS / EXIT_LOOK_MS)
			break;
	}
	cancel_on(cancel);
}

void progress_at_exit(struct progress *p, void (*job)(void))
{
	if (!is_elsewhere(p)) {
		job();
	} else if (!load_acquire(&p->has_job)) {
		p->job = job;
		store_release(&p->has_job, 1);	/* pairs with run_job() */
		if (kick(p))
			wait_for_job(p);
	}
}

uint64_t progress_cpu_time(const struct progress *p)
{
	return p ? thread_cpu_time(load_relaxed(&p->cpu_clock)) : 0;
}

uint64_t progress_wakeups(const struct progress *p)
{
	return load_relaxed(&p->wakeups);
}
