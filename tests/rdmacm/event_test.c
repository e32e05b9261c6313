/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: the descriptor, signals, the order of events, acknowledgements, events of the
 * program's own, event names.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fork_settled.h"
#include "left_out.h"
#include "util/atomic.h"
#include "world.h"

static void names(void)
{
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED"));
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_ADDRINFO_ERROR),
		      "RDMA_CM_EVENT_ADDRINFO_ERROR"));
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_USER), "UNKNOWN EVENT"));
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT"));
}

static void own_event(struct rdma_cm_id *id, uint64_t arg)
{
	CHECK_EQ(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 7, arg), 0);
}

/* The descriptor is readable exactly while an event is pending; events of all ids come in order. */
static void order(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *a = world_id(ch, RDMA_PS_TCP), *b = world_id(ch, RDMA_PS_UDP);

	world_no_event(ch);
	for (uint64_t n = 0; n < 4; n++)
		own_event(n & 1 ? b : a, n);
	for (uint64_t n = 0; n < 4; n++) {
		struct rdma_cm_event *e = world_event(ch, RDMA_CM_EVENT_USER, 7);

		CHECK(e->id == (n & 1 ? b : a));
		CHECK_EQ(e->param.arg, n);
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	world_no_event(ch);
	CHECK_FAILS(rdma_write_cm_event(a, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	CHECK_FAILS(rdma_write_cm_event(NULL, RDMA_CM_EVENT_USER, 0, 0), EINVAL);
	CHECK_EQ(rdma_destroy_id(a), 0);
	CHECK_EQ(rdma_destroy_id(b), 0);
}

#if defined(__SANITIZE_THREAD__)
enum { WITH_TSAN = true };
#else
enum { WITH_TSAN = false };
#endif

static uint32_t signals;

static void on_signal(int sig)
{
	fetch_add_relaxed(&signals, 1);
}

static void handle_signals(int flags)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGALRM, &act, NULL), 0);
}

struct waiter {
	pthread_t thread;
	struct rdma_cm_id *id;
};

/* Signals the waiter in each part of its wait; then it gets an event. */
static void *after_signals(void *arg)
{
	const struct waiter *w = arg;

	for (uint32_t n = load_relaxed(&signals), end = n + 20; n != end; n++) {
		CHECK_EQ(pthread_kill(w->thread, SIGALRM), 0);
		while (load_relaxed(&signals) == n)
			sched_yield();
	}
	own_event(w->id, 1);
	return NULL;
}

/* A signal interrupts the wait, */
static void interrupted(struct rdma_event_channel *ch)
{
	/* Often enough for each part of a wait. */
	struct itimerspec often = { .it_value.tv_nsec = 300 * 1000,
				    .it_interval.tv_nsec = 300 * 1000 };
	struct rdma_cm_event *e;
	timer_t timer;

	handle_signals(0);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_FAILS(rdma_get_cm_event(ch, &e), EINTR);
	CHECK_EQ(timer_delete(timer), 0);
}

/* unless its handler was installed with SA_RESTART. */
static void restarted(struct rdma_event_channel *ch)
{
	struct waiter w = { pthread_self(), world_id(ch, RDMA_PS_TCP) };
	struct rdma_cm_event *e;
	pthread_t thread;

	handle_signals(SA_RESTART);
	CHECK_EQ(pthread_create(&thread, NULL, after_signals, &w), 0);
	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_destroy_id(w.id), 0);
}

/* A signal ends this thread's next sleep in ppoll(2); this id gets an event then, or in read(2). */
static __thread struct rdma_cm_id *interrupted_id;

/* Replace those of the C library. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
		(__typeof__(next))dlsym(RTLD_NEXT, "ppoll");

	if (!interrupted_id)
		return next(fds, n, limit, mask);
	own_event(interrupted_id, 1);
	interrupted_id = NULL;
	errno = EINTR;
	return -1;
}

EXPORTED ssize_t read(int fd, void *buf, size_t len)
{
	ssize_t (*next)(int, void *, size_t) = (__typeof__(next))dlsym(RTLD_NEXT, "read");

	if (interrupted_id && fd == interrupted_id->channel->fd) {
		own_event(interrupted_id, 1);
		interrupted_id = NULL;
	}
	return next(fd, buf, len);
}

/* The same while a memory region has the library's handlers of faults installed. */
static void restarted_with_region(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);
	struct rdma_cm_event *e;
	struct ibv_mr *mr;
	char buf[8];

	handle_signals(SA_RESTART);
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	CHECK(mr);
	for (int i = 0; i < 20; i++) {
		interrupted_id = id;
		CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

static void not_waiting(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *e;

	CHECK_FAILS(rdma_get_cm_event(ch, NULL), EINVAL);
	CHECK_FAILS(rdma_ack_cm_event(NULL), EINVAL);
	CHECK_EQ(fcntl(ch->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

	CHECK_EQ(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	CHECK_FAILS(rdma_get_cm_event(ch, &e), EAGAIN);
	CHECK_EQ(fcntl(ch->fd, F_SETFL, 0), 0);
}

/* Unfetched events are dropped with their id; those of other ids stay. */
static void dropped(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *a = world_id(ch, RDMA_PS_TCP), *b = world_id(ch, RDMA_PS_TCP);

	own_event(a, 1);
	own_event(b, 2);
	own_event(a, 3);
	CHECK_EQ(rdma_destroy_id(a), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_USER, 7)), 0);
	world_no_event(ch);
	CHECK_EQ(rdma_destroy_id(b), 0);
}

static uint32_t acknowledged;

static void *destroy(void *arg)
{
	CHECK_EQ(rdma_destroy_id(arg), 0);
	/* Relaxed: the library's lock orders the two accesses. */
	CHECK(load_relaxed(&acknowledged));
	return NULL;
}

/* Destroying an id waits until its fetched events are acknowledged. */
static void destroy_waits(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *e[2];
	pthread_t thread;

	own_event(id, 1);
	own_event(id, 2);
	e[0] = world_event(ch, RDMA_CM_EVENT_USER, 7);
	e[1] = world_event(ch, RDMA_CM_EVENT_USER, 7);
	CHECK_EQ(pthread_create(&thread, NULL, destroy, id), 0);
	CHECK_EQ(rdma_ack_cm_event(e[1]), 0);
	store_relaxed(&acknowledged, 1);
	CHECK_EQ(rdma_ack_cm_event(e[0]), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static long waiting_thread;	/* its id; 0: not running yet */

static void *wait_for_ever(void *ch)
{
	struct rdma_cm_event *e;

	store_release(&waiting_thread, syscall(SYS_gettid));
	rdma_get_cm_event(ch, &e);
	fprintf(stderr, "the wait on a destroyed channel ended\n");
	exit(1);
}

/* In a call in which a wait sleeps.  False if the kernel does not tell. */
static bool await_sleep(void)
{
	char name[64], text[32] = "";
	long number = 0;

	do {
		int fd;

		sched_yield();
		snprintf(name, sizeof(name), "/proc/self/task/%ld/syscall",
			 load_acquire(&waiting_thread));
		fd = open(name, O_RDONLY);
		if (fd < 0 && errno != ENOENT)
			return false;
		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			text[0] = 0;
		if (fd >= 0)
			close(fd);
		number = text[0] >= '0' && text[0] <= '9' ? strtol(text, NULL, 10) : -1;
	} while (number != SYS_read && number != SYS_ppoll && number != SYS_nanosleep &&
		 number != SYS_clock_nanosleep);
	return true;
}

/* A program that ends may destroy the channel of a thread that waits, as rping does. */
static void destroyed_while_waiting(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t thread;
	int fd = ch->fd;

	CHECK_EQ(pthread_create(&thread, NULL, wait_for_ever, ch), 0);
	if (!await_sleep()) {
		left_out(1, "/proc/self/task/.../syscall cannot be read");
		return;
	}
	rdma_destroy_event_channel(ch);
	/* The thread's descriptor is not closed. */
	CHECK(fcntl(fd, F_GETFD) >= 0);
}

/* The same a little later: the thread was about to wait. */
static void destroyed_before_waiting(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_event *e;

	rdma_destroy_event_channel(ch);
	CHECK_FAILS(rdma_get_cm_event(ch, &e), EBADF);
}

static void end_after_a_stop(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t thread;

	rdma_destroy_event_channel(ch);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_ever, ch), 0);
	if (!await_sleep())
		_exit(0);
	raise(SIGSTOP);
	usleep(20000);
	_exit(0);
}

/* The program is stopped, for longer than the thread waits for its end. */
static void stopped_before_its_end(void)
{
	pid_t pid = fork_settled();
	int status;

	if (!pid)
		end_after_a_stop();
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	if (WIFSTOPPED(status)) {
		usleep(1200000);
		CHECK_EQ(kill(pid, SIGCONT), 0);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
	}
	CHECK_EQ(status, 0);
}

/* The events of an id move with it, to the end of the other channel. */
static void migrated(struct rdma_event_channel *ch)
{
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct rdma_cm_id *a = world_id(ch, RDMA_PS_TCP), *b = world_id(to, RDMA_PS_TCP);
	static const uint64_t wanted[] = { 2, 1, 3 };

	own_event(a, 1);
	own_event(b, 2);
	own_event(a, 3);
	CHECK_EQ(rdma_migrate_id(a, to), 0);
	CHECK(a->channel == to);
	world_no_event(ch);
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_event *e = world_event(to, RDMA_CM_EVENT_USER, 7);

		CHECK_EQ(e->param.arg, wanted[i]);
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	/* To the channel that it has: they stay. */
	own_event(a, 4);
	own_event(a, 5);
	CHECK_EQ(rdma_migrate_id(a, to), 0);
	for (uint64_t n = 4; n <= 5; n++) {
		struct rdma_cm_event *e = world_event(to, RDMA_CM_EVENT_USER, 7);

		CHECK_EQ(e->param.arg, n);
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	world_no_event(to);
	/* To a channel of its own, and back. */
	CHECK_EQ(rdma_migrate_id(a, NULL), 0);
	CHECK(a->channel && a->channel != to);
	CHECK_FAILS(rdma_migrate_id(a, NULL), EINVAL);
	CHECK_EQ(rdma_migrate_id(a, ch), 0);
	CHECK(a->channel == ch);
	CHECK_EQ(rdma_destroy_id(a), 0);
	CHECK_EQ(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(to);
}

struct migration {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to;
};

static void *migrate(void *arg)
{
	const struct migration *m = arg;

	CHECK_EQ(rdma_migrate_id(m->id, m->to), 0);
	return NULL;
}

/*
 * The call waits for the acknowledgement of what was fetched from the old channel, and not of what
 * another thread has fetched from the new one meanwhile.
 */
static void migrated_unacknowledged(struct rdma_event_channel *ch)
{
	struct migration m = { world_id(ch, RDMA_PS_TCP), rdma_create_event_channel() };
	struct rdma_cm_event *before, *after;
	struct timespec end;
	pthread_t thread;

	own_event(m.id, 1);
	before = world_event(ch, RDMA_CM_EVENT_USER, 7);
	CHECK_EQ(pthread_create(&thread, NULL, migrate, &m), 0);
	own_event(m.id, 2);
	after = world_event(m.to, RDMA_CM_EVENT_USER, 7);
	CHECK_EQ(pthread_tryjoin_np(thread, NULL), EBUSY);
	CHECK_EQ(rdma_ack_cm_event(before), 0);
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &end), 0);
	end.tv_sec += WORLD_LIMIT_S;
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &end), 0);
	CHECK_EQ(rdma_ack_cm_event(after), 0);
	CHECK_EQ(rdma_destroy_id(m.id), 0);
	rdma_destroy_event_channel(m.to);
}

/* An id whose channel was destroyed gets no event, so calls for one fail. */
static void without_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	rdma_destroy_event_channel(ch);
	CHECK_FAILS(rdma_migrate_id(id, to), EINVAL);
	CHECK_FAILS(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 7, 1), EINVAL);
	CHECK_FAILS(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), EINVAL);
	world_no_event(to);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(to);
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	CHECK(ch);
	names();
	order(ch);
	not_waiting(ch);
	interrupted(ch);
	if (WITH_TSAN)
		left_out(1, "ThreadSanitizer may delay a signal until a system call returns");
	else
		restarted(ch);
	restarted_with_region(ch);
	dropped(ch);
	destroy_waits(ch);
	migrated(ch);
	migrated_unacknowledged(ch);
	without_channel();
	rdma_destroy_event_channel(ch);
	destroyed_before_waiting();
	if (WITH_TSAN)
		left_out(1, "ThreadSanitizer lets no forked child start a thread");
	else
		stopped_before_its_end();
	destroyed_while_waiting();
	return 0;
}
