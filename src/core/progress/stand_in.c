/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parking needs no fence: a progress thread that parks too late shares the work for a round, and
 * one that misses the wake-up sleeps for STAND_IN_STAY.
 */
#include "core/progress/stand_in.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_queue.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/poll_fds.h"
#include "util/restart.h"
#include "wire/wire.h"

enum { PARKS = 8 };	/* in a row, before the progress thread serves its descriptors */

/* The descriptors of a wait. */
enum { EVENT, INBOX, SOCKETS, DESCRIPTORS = SOCKETS + WIRE_FDS };

static struct {
	bool taken;		/* atomic: a thread stands in */
	uint64_t until;		/* atomic: when the progress thread resumes unless one does again */
	uint32_t parked;	/* atomic: the progress thread sleeps on it while it is 1 */
} stand_in;

/* ---- The progress thread ---- */

static void futex(int op, const struct timespec *limit)
{
	syscall(SYS_futex, &stand_in.parked, op, 1, limit, NULL, 0);
}

bool vrb_stand_in_park(void)
{
	static const struct timespec limit = { 0, STAND_IN_STAY };
	static unsigned int parks;

	if (parks == PARKS || time_reached(load_relaxed(&stand_in.until), clock_now())) {
		parks = 0;
		return false;
	}
	store_relaxed(&stand_in.parked, 1);
	futex(FUTEX_WAIT_PRIVATE, &limit);
	store_relaxed(&stand_in.parked, 0);
	parks++;
	return true;
}

void vrb_stand_in_end(void)
{
	if (!load_relaxed(&stand_in.until))
		return;
	store_relaxed(&stand_in.until, 0);
	if (swap_acq_rel(&stand_in.parked, 0))
		futex(FUTEX_WAKE_PRIVATE, NULL);
}

void vrb_stand_in_forget(void)
{
	store_relaxed(&stand_in.taken, false);
	store_relaxed(&stand_in.until, 0);
}

/* ---- A thread that stands in ---- */

static unsigned int fill(struct pollfd fds[DESCRIPTORS], int eventfd)
{
	struct wire *wire = vrb_main_rx_queue->wire;
	int sockets[WIRE_FDS];
	unsigned int n = wire ? wire_fds(wire, sockets) : 0;

	fds[EVENT] = (struct pollfd){ .fd = eventfd, .events = POLLIN };
	fds[INBOX] = (struct pollfd){ .fd = host_inbox_fd(vrb.host), .events = POLLIN };
	for (unsigned int i = 0; i < n; i++)
		fds[SOCKETS + i] = (struct pollfd){ .fd = sockets[i], .events = POLLIN };
	return SOCKETS + n;
}

static bool serve_socket(int fd)
{
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	unsigned int packets;

	lock_acquire(r->lock);
	wire_look(r->wire, fd, true);
	packets = vrb_rx_queue_poll(r, clock_now(), false);
	lock_release(r->lock);
	return packets;
}

static bool serve(const struct pollfd *fds, unsigned int n)
{
	bool any = fds[INBOX].revents && vrb_poll_messages();

	for (unsigned int i = SOCKETS; i < n; i++)
		if (fds[i].revents)
			any |= serve_socket(fds[i].fd);
	return any;
}

/* Serves expired deadlines; returns the time to sleep until. */
static uint64_t run_deadlines(uint64_t now, uint64_t end)
{
	uint64_t next = vrb_progress_ops.deadline(NULL);

	if (time_reached(next, now)) {
		vrb_progress_ops.expire(NULL, now);
		next = vrb_progress_ops.deadline(NULL);
	}
	/* Still passed: another thread serves it. */
	return time_reached(next, now) ? end : time_earlier(next, end);
}

static bool read_now(int eventfd, uint64_t *count)
{
	struct iovec iov = { count, sizeof(*count) };

	return sys_preadv2_here(eventfd, &iov, 1, RWF_NOWAIT) >= 0;
}

static int wait_until(uint64_t end, int eventfd, uint64_t *count)
{
	struct pollfd fds[DESCRIPTORS];
	unsigned int n = fill(fds, eventfd);
	uint64_t now;

	while ((now = clock_now()) < end) {
		uint64_t until = run_deadlines(now, end);
		struct timespec ts = { 0, (long)(until - now) };
		enum progress_rest rest = vrb_progress_rest();
		bool any = rest == PROGRESS_WORKED;

		if (rest == PROGRESS_BUSY)
			break;
		if (rest == PROGRESS_SLEEP) {
			if (poll_fds(fds, n, &ts) < 0)
				return errno == EINTR && restart_is_refused() ? EINTR : EAGAIN;
			any = serve(fds, n) || fds[EVENT].revents;
		}
		if (any && read_now(eventfd, count))
			return 0;
		if (fds[EVENT].revents)
			break;	/* another thread was faster, or there is no RWF_NOWAIT */
	}
	return EAGAIN;
}

int vrb_stand_in_read(int eventfd, uint64_t *count)
{
	uint64_t end = clock_now() + STAND_IN_STAY;
	int cancel, ret;

	if (load_relaxed(&vrb_extra_rx_queues) || swap_acq_rel(&stand_in.taken, true))
		return EAGAIN;
	cancel = cancel_off();
	store_relaxed(&stand_in.until, end + STAND_IN_STAY);
	ret = wait_until(end, eventfd, count);
	if (ret)
		vrb_stand_in_end();
	store_release(&stand_in.taken, false);
	cancel_on(cancel);
	return ret;
}
