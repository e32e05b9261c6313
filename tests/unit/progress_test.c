/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread. Threads synchronise by semaphores and joins; nothing depends on durations.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork_settled.h"
#include "run/clock.h"
#include "run/progress.h"
#include "run/timers.h"
#include "util/atomic.h"
#include "util/time.h"

struct source {
	int fd;
	sem_t called;
	bool useful;
	bool leave_unread;
	/* the test's own thread, which is told that its work was not found by polling */
	struct progress *one_sided;
	uint64_t calls;
};

static bool on_ready(void *arg, int fd)
{
	struct source *s = arg;
	uint64_t v;

	assert_int_equal(fd, s->fd);
	if (!load_relaxed(&s->leave_unread) && read(fd, &v, sizeof(v)) < 0)
		assert_int_equal(errno, EAGAIN);
	fetch_add_relaxed(&s->calls, 1);
	if (load_relaxed(&s->one_sided))
		progress_missed(s->one_sided);
	sem_post(&s->called);
	return load_relaxed(&s->useful);
}

static void source_init(struct source *s)
{
	memset(s, 0, sizeof(*s));
	s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->useful = true;
	sem_init(&s->called, 0, 0);
}

static void feed(struct source *s)
{
	uint64_t one = 1;

	assert_int_equal(write(s->fd, &one, sizeof(one)), sizeof(one));
}

static void calls_back_when_readable(void **state)
{
	struct progress *p;
	struct source s;

	source_init(&s);
	assert_int_equal(progress_new(NULL, NULL, &p), 0);
	assert_int_equal(progress_watch(p, s.fd, PROGRESS_OWN, on_ready, &s), 0);
	assert_int_equal(progress_start(p), 0);
	feed(&s);
	sem_wait(&s.called);
	feed(&s);
	sem_wait(&s.called);
	progress_unwatch(p, s.fd);
	feed(&s);
	progress_stop(p);
	assert_int_equal(s.calls, 2);
	progress_free(p);
	close(s.fd);
}

/* As a sandbox does. */
static void serves_a_program_that_may_open_no_more_files(void **state)
{
	struct rlimit before, none;
	struct progress *p;
	struct source s, other;
	uint64_t wakeups;

	source_init(&s);
	source_init(&other);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_OWN, on_ready, &s);
	progress_watch(p, other.fd, PROGRESS_OWN, on_ready, &other);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	progress_start(p);
	feed(&s);
	sem_wait(&s.called);
	wakeups = progress_wakeups(p);
	usleep(50000);
	assert_true(progress_wakeups(p) - wakeups <= 1);	/* the one that is about to sleep */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	progress_free(p);
	assert_int_equal(s.calls, 1);
	assert_int_equal(other.calls, 0);
	close(s.fd);
	close(other.fd);
}

/* Two rounds through the thread prove that it slept in between without waking by itself. */
static void an_idle_process_has_no_wakeups(void **state)
{
	struct progress *p;
	struct source s, shared;
	uint64_t before;

	source_init(&s);
	source_init(&shared);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_OWN, on_ready, &s);
	progress_watch(p, shared.fd, PROGRESS_SHARED, on_ready, &shared);
	progress_start(p);
	feed(&s);
	sem_wait(&s.called);
	before = progress_wakeups(p);
	usleep(50000);
	assert_int_equal(progress_wakeups(p), before);
	progress_free(p);
	close(s.fd);
	close(shared.fd);
}

struct lingering {
	struct source source;
	struct progress *p;
	uint64_t until;
};

static bool on_stream(void *arg, int fd)
{
	struct lingering *l = arg;

	progress_linger(l->p, load_relaxed(&l->until));
	return on_ready(&l->source, fd);
}

/*
 * A check is no wakeup. Work that arrives during it is served, and the thread sleeps when the time
 * is over.
 */
static void lingers_without_sleep_until_the_time_is_over(void **state)
{
	struct lingering l = { .until = VRB_NEVER };
	uint64_t before;

	source_init(&l.source);
	progress_new(NULL, NULL, &l.p);
	progress_watch(l.p, l.source.fd, PROGRESS_SHARED, on_stream, &l);
	progress_start(l.p);
	feed(&l.source);
	sem_wait(&l.source.called);
	before = progress_wakeups(l.p);
	for (int i = 0; i < 3; i++) {
		feed(&l.source);
		sem_wait(&l.source.called);
	}
	assert_int_equal(progress_wakeups(l.p), before);
	store_relaxed(&l.until, clock_now());
	for (int i = 0; i < 2; i++) {
		feed(&l.source);
		sem_wait(&l.source.called);
	}
	progress_stop(l.p);
	assert_true(progress_wakeups(l.p) > before);
	progress_free(l.p);
	close(l.source.fd);
}

static void stands_back_from_pollers_and_resumes(void **state)
{
	struct progress *p;
	struct source s;
	int i;

	source_init(&s);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_SHARED, on_ready, &s);
	progress_start(p);
	store_relaxed(&s.useful, false);
	store_relaxed(&s.leave_unread, true);
	feed(&s);
	/*
	 * The descriptor is readable all the time without useful work: no busy loop, but a few
	 * calls per check while no thread polls.
	 */
	for (i = 0; i < 12; i++)
		sem_wait(&s.called);
	assert_true(progress_wakeups(p) <= 3 * load_relaxed(&s.calls) + 3);

	/* Packets that arrive after polling has stopped are served without help. */
	store_relaxed(&s.leave_unread, false);
	store_relaxed(&s.useful, true);
	while (sem_trywait(&s.called) == 0)
		;
	feed(&s);
	sem_wait(&s.called);
	progress_free(p);
	close(s.fd);
}

/* Two rounds through the thread: it has seen earlier requests. */
static void two_rounds(struct source *s)
{
	for (int i = 0; i < 2; i++) {
		feed(s);
		sem_wait(&s->called);
	}
}

static struct progress *start_with_both(struct source *own, struct source *shared)
{
	struct progress *p;

	source_init(own);
	source_init(shared);
	progress_new(NULL, NULL, &p);
	progress_watch(p, own->fd, PROGRESS_OWN, on_ready, own);
	progress_watch(p, shared->fd, PROGRESS_SHARED, on_ready, shared);
	progress_start(p);
	return p;
}

static void free_with_both(struct progress *p, struct source *own, struct source *shared)
{
	progress_free(p);
	close(own->fd);
	close(shared->fd);
}

static bool reading;	/* atomic: what pollers_read() returns */

static bool pollers_read(void *arg)
{
	return load_relaxed(&reading);
}

static uint64_t no_deadline(void *arg)
{
	return VRB_NEVER;
}

struct left {
	struct source source;
	struct progress *p;
	unsigned int away;	/* atomic: calls while the thread stood back */
};

static bool on_left(void *arg, int fd)
{
	struct left *l = arg;

	if (progress_away(l->p))
		fetch_add_relaxed(&l->away, 1);
	return on_ready(&l->source, fd);
}

/*
 * What pollers do not read is served by the thread while it stands back, too. On a busy machine it
 * may have come back before: try again.
 */
static void serves_what_pollers_leave(void **state)
{
	static const struct progress_ops ops = {
		.deadline = no_deadline, .pollers_read = pollers_read,
	};
	struct source own;
	struct left l = { 0 };
	unsigned int before;

	source_init(&own);
	source_init(&l.source);
	store_relaxed(&reading, false);
	progress_new(&ops, NULL, &l.p);
	progress_watch(l.p, own.fd, PROGRESS_OWN, on_ready, &own);
	progress_watch(l.p, l.source.fd, PROGRESS_AT_TIMES, on_left, &l);
	progress_start(l.p);
	while (load_relaxed(&l.away) == 0) {
		progress_stand_back(l.p);
		two_rounds(&own);
		progress_polled(l.p);
		two_rounds(&l.source);
	}
	store_relaxed(&reading, true);
	two_rounds(&own);
	before = load_relaxed(&l.away);
	store_relaxed(&l.source.leave_unread, true);
	feed(&l.source);
	for (int i = 0; i < 10; i++) {
		progress_stand_back(l.p);
		progress_polled(l.p);
		two_rounds(&own);
	}
	progress_stop(l.p);
	assert_int_equal(load_relaxed(&l.away), before);
	progress_free(l.p);
	close(own.fd);
	close(l.source.fd);
}

/*
 * Work that arrives while the thread stands back is found when it resumes. On a busy machine the
 * thread may resume before the work is there, and then did not miss it: try again.
 */
static void leave_work(struct progress *p, struct source *own, struct source *shared)
{
	store_relaxed(&shared->one_sided, p);
	for (int i = 0; i < 1000 && !progress_needed(p); i++) {
		progress_stand_back(p);
		two_rounds(own);
		two_rounds(shared);
		two_rounds(own);
	}
	assert_true(progress_needed(p));
	store_relaxed(&shared->one_sided, NULL);
}

static void reports_backlog_until_it_is_useless(void **state)
{
	struct source own, shared;
	struct progress *p = start_with_both(&own, &shared);


	/* No thread polls: the progress thread resumes, finds the backlog and reports it. */
	assert_false(progress_needed(p));
	leave_work(p, &own, &shared);
	assert_false(progress_away(p));

	/*
	 * Another thread takes all packets: the progress thread stands back by itself, and on
	 * request.
	 */
	store_relaxed(&shared.useful, false);
	store_relaxed(&shared.leave_unread, true);
	feed(&shared);
	while (!progress_away(p))
		progress_polled(p);
	two_rounds(&own);
	assert_false(progress_needed(p));
	free_with_both(p, &own, &shared);
}

/* Work that the program would have found at its next poll does not count as missed. */
static void work_found_by_polls_is_not_backlog(void **state)
{
	struct source own, shared;
	struct progress *p = start_with_both(&own, &shared);

	for (int i = 0; i < 20; i++) {
		progress_stand_back(p);
		two_rounds(&own);
		two_rounds(&shared);	/* served once the thread has resumed */
		two_rounds(&own);
	}
	assert_false(progress_needed(p));
	free_with_both(p, &own, &shared);
}

/*
 * A thread that was needed keeps running until pollers have taken many times as much work as it
 * did.
 */
static void stands_back_when_pollers_take_all(void **state)
{
	enum { MORE_THAN_ENOUGH = 10000 };
	struct source own, shared;
	struct progress *p = start_with_both(&own, &shared);

	leave_work(p, &own, &shared);

	/* its share is half */
	for (int i = 0; i < 1000; i++) {
		progress_taken(p);
		feed(&shared);
		sem_wait(&shared.called);
	}
	assert_true(progress_needed(p));

	/* its share is none */
	for (int i = 0; i < MORE_THAN_ENOUGH; i++)
		progress_taken(p);
	assert_false(progress_needed(p));
	free_with_both(p, &own, &shared);
}

struct deadlines {
	struct timers *ts;
	struct timer t;
	sem_t fired;
};

static uint64_t next(void *arg)
{
	struct deadlines *d = arg;

	return timers_next(d->ts);
}

static void expire(void *arg, uint64_t now)
{
	struct deadlines *d = arg;

	while (timers_pop(d->ts, now))
		sem_post(&d->fired);
}

static const struct progress_ops deadline_ops = { .deadline = next, .expire = expire };

static void deadlines_fire_and_hurry_wakes_a_sleeper(void **state)
{
	struct deadlines d = { .ts = timers_new() };
	struct progress *p;
	int i;

	sem_init(&d.fired, 0, 0);
	timers_add(d.ts, &d.t);
	assert_int_equal(progress_new(&deadline_ops, &d, &p), 0);
	progress_start(p);
	for (i = 0; i < 200; i++) {
		uint64_t at = clock_now() + (i % 2 ? 0 : 200 * VRB_USEC);

		if (timers_arm(d.ts, &d.t, at))
			progress_hurry(p, at);
		sem_wait(&d.fired);
	}
	progress_free(p);
	timers_remove(d.ts, &d.t);
	timers_free(d.ts);
}

static bool unwatch_itself(void *arg, int fd)
{
	void **args = arg;

	progress_unwatch(args[0], fd);
	sem_post(args[1]);
	return true;
}

static void a_callback_may_unwatch_itself(void **state)
{
	struct progress *p;
	struct source s, other;
	sem_t done;
	void *args[2];

	source_init(&s);
	source_init(&other);
	sem_init(&done, 0, 0);
	progress_new(NULL, NULL, &p);
	args[0] = p;
	args[1] = &done;
	progress_start(p);
	feed(&s);
	progress_watch(p, s.fd, PROGRESS_OWN, unwatch_itself, args);
	sem_wait(&done);
	progress_watch(p, other.fd, PROGRESS_OWN, on_ready, &other);
	feed(&other);
	sem_wait(&other.called);
	progress_stop(p);
	assert_int_equal(sem_trywait(&done), -1);
	progress_free(p);
	close(s.fd);
	close(other.fd);
}

struct look {
	sem_t seen;
	char name[16];
	bool all_blocked;
};

static bool record_thread_state(void *arg, int fd)
{
	struct look *l = arg;
	sigset_t set;
	uint64_t v;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	l->all_blocked = sigismember(&set, SIGINT) && sigismember(&set, SIGUSR1);
	prctl(PR_GET_NAME, l->name);
	if (read(fd, &v, sizeof(v)) > 0)
		sem_post(&l->seen);
	return true;
}

static void thread_is_named_and_blocks_signals(void **state)
{
	struct progress *p;
	struct source s;
	struct look l;

	source_init(&s);
	sem_init(&l.seen, 0, 0);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_OWN, record_thread_state, &l);
	progress_start(p);
	feed(&s);
	sem_wait(&l.seen);
	assert_string_equal(l.name, "verbena");
	assert_true(l.all_blocked);
	progress_free(p);
	close(s.fd);
}

static void stops_and_starts_again(void **state)
{
	struct progress *p;
	struct source s;
	int i;

	source_init(&s);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_SHARED, on_ready, &s);
	for (i = 0; i < 3; i++) {
		progress_start(p);
		assert_int_equal(progress_start(p), 0);
		feed(&s);
		sem_wait(&s.called);
		progress_stop(p);
		progress_stop(p);
	}
	progress_free(p);
	close(s.fd);
}

static void nothing(void)
{
}

/* As with closefrom(3): nothing can wake the thread, and nobody waits for it. */
static void a_program_may_close_its_descriptors(void **state)
{
	static struct progress *p;	/* is left to a thread that could not be joined */
	int fd = dup(STDERR_FILENO);
	struct source s;

	source_init(&s);
	close(fd);
	progress_new(NULL, NULL, &p);	/* takes the lowest descriptor */
	assert_true(fcntl(fd, F_GETFD) >= 0);
	progress_watch(p, s.fd, PROGRESS_OWN, on_ready, &s);
	progress_start(p);
	feed(&s);
	sem_wait(&s.called);
	close(fd);
	progress_unwatch(p, s.fd);
	feed(&s);
	progress_at_exit(p, nothing);
	progress_stop(p);
	progress_free(p);
	assert_int_equal(s.calls, 1);
	close(s.fd);
}

/* The question for a deadline before the thread sleeps, and an answer that takes a while. */
static struct {
	bool stopped;	/* atomic */
	bool used_late;
	unsigned int calls;
	sem_t called, returns;
} slow;

static uint64_t slow_deadline(void *arg)
{
	if (++slow.calls == 2) {	/* the first was for timeouts */
		sem_post(&slow.called);
		for (int i = 0; i < 50 && !load_acquire(&slow.stopped); i++)
			usleep(1000);
		slow.used_late = load_acquire(&slow.stopped);
		sem_post(&slow.returns);
	}
	return VRB_NEVER;
}

static void expire_none(void *arg, uint64_t now)
{
}

/* Whoever stops a thread that cannot be woken frees what the callbacks use. */
static void a_thread_that_is_lost_asks_no_more(void **state)
{
	static const struct progress_ops ops = { .deadline = slow_deadline,
						 .expire = expire_none };
	static struct progress *p;	/* is left to a thread that could not be joined */
	int fd = dup(STDERR_FILENO);

	sem_init(&slow.called, 0, 0);
	sem_init(&slow.returns, 0, 0);
	close(fd);
	progress_new(&ops, NULL, &p);	/* takes the lowest descriptor */
	progress_start(p);
	sem_wait(&slow.called);
	close(fd);
	progress_stop(p);
	store_release(&slow.stopped, true);
	progress_free(p);
	sem_wait(&slow.returns);
	assert_false(slow.used_late);
}

static struct {
	struct progress *p;	/* is left to a thread that could not be joined */
	struct source source;
	sem_t called, may_return;
} busy;

static bool on_busy(void *arg, int fd)
{
	sem_post(&busy.called);
	sem_wait(&busy.may_return);
	usleep(20000);	/* the other thread finds that the descriptor is closed */
	return true;
}

static void *unwatch_busy(void *arg)
{
	progress_unwatch(busy.p, busy.source.fd);
	return NULL;
}

/* One thread waits for a callback; another one finds that nothing can wake the progress thread. */
static void all_learn_that_the_thread_is_lost(void **state)
{
	struct pollfd wake = { .fd = dup(STDERR_FILENO), .events = POLLIN };
	struct source other;
	pthread_t thread;

	source_init(&busy.source);
	source_init(&other);
	sem_init(&busy.called, 0, 0);
	sem_init(&busy.may_return, 0, 0);
	close(wake.fd);
	progress_new(NULL, NULL, &busy.p);	/* takes the lowest descriptor */
	progress_watch(busy.p, busy.source.fd, PROGRESS_OWN, on_busy, NULL);
	progress_watch(busy.p, other.fd, PROGRESS_OWN, on_ready, &other);
	progress_start(busy.p);
	feed(&busy.source);
	sem_wait(&busy.called);
	pthread_create(&thread, NULL, unwatch_busy, NULL);
	poll(&wake, 1, -1);
	close(wake.fd);
	sem_post(&busy.may_return);
	progress_unwatch(busy.p, other.fd);
	pthread_join(thread, NULL);
	progress_stop(busy.p);
	progress_free(busy.p);
	close(other.fd);
	close(busy.source.fd);
}

static void a_child_can_discard_it(void **state)
{
	struct progress *p;
	struct source s;
	int status;
	pid_t pid;

	source_init(&s);
	progress_new(NULL, NULL, &p);
	progress_watch(p, s.fd, PROGRESS_OWN, on_ready, &s);
	progress_start(p);
	pid = fork_settled();
	if (!pid) {
		progress_forget(p);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	feed(&s);
	sem_wait(&s.called);
	progress_free(p);
	close(s.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_back_when_readable),
		cmocka_unit_test(serves_a_program_that_may_open_no_more_files),
		cmocka_unit_test(an_idle_process_has_no_wakeups),
		cmocka_unit_test(lingers_without_sleep_until_the_time_is_over),
		cmocka_unit_test(stands_back_from_pollers_and_resumes),
		cmocka_unit_test(serves_what_pollers_leave),
		cmocka_unit_test(reports_backlog_until_it_is_useless),
		cmocka_unit_test(work_found_by_polls_is_not_backlog),
		cmocka_unit_test(stands_back_when_pollers_take_all),
		cmocka_unit_test(deadlines_fire_and_hurry_wakes_a_sleeper),
		cmocka_unit_test(a_callback_may_unwatch_itself),
		cmocka_unit_test(thread_is_named_and_blocks_signals),
		cmocka_unit_test(stops_and_starts_again),
		cmocka_unit_test(a_program_may_close_its_descriptors),
		cmocka_unit_test(a_thread_that_is_lost_asks_no_more),
		cmocka_unit_test(all_learn_that_the_thread_is_lost),
		cmocka_unit_test(a_child_can_discard_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
