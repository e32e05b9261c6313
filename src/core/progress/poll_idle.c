/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/poll_idle.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/progress/cpu_contention.h"
#include "core/progress/cpu_share.h"
#include "core/tx/transmit.h"
#include "run/clock.h"
#include "run/progress.h"
#include "run/thread_use.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/poll_fds.h"
#include "util/tuning.h"
#include "wire/wire.h"

static struct yield_pause yield_pause;

static __thread struct {
	uint64_t begin;		/* of the run */
	struct cpu_share share;
	struct cpu_contention contention;
} idle static_tls;

/*
 * The progress thread waits for no lock of the program: it is not one of the others. Often it is
 * the one that runs between two of these system calls.
 */
static struct thread_use use_now(void)
{
	enum { TRIES = 3 };
	uint64_t before, own = progress_cpu_time(vrb.progress);
	struct thread_use use;

	for (int i = 0; i < TRIES; i++) {
		before = own;
		use = thread_use_now();
		own = progress_cpu_time(vrb.progress);
		if (own == before)
			break;
	}
	use.others = time_since(own, use.others);
	return use;
}

void vrb_idle_begin(uint64_t now)
{
	if (cpu_contention_begin(&idle.contention, now))
		idle.contention.begin = use_now();
}

/* ---- Yielding ---- */

/* Returns when the thread runs again. */
static uint64_t yield_cpu(uint64_t now)
{
	bool measures = yield_is_measured(&yield_pause, now);
	uint64_t end, took, own = measures ? use_now().others : 0;

	sched_yield();
	end = clock_now();
	took = time_since(now, end);
	if (measures) {
		own = time_since(own, use_now().others);
		cpu_contention_yielded(&idle.contention, took, own, end);
	}
	yield_pause_yielded(&yield_pause, now, end, own);
	return end;
}

static bool yield_if_shared(uint64_t now)
{
	if (!cpu_share_wants_yield(&idle.share, idle.begin, now))
		return false;
	cpu_share_yielded(&idle.share, now, yield_cpu(now));
	return true;
}

/* ---- Sleeping ---- */

static unsigned int add_sockets(const struct vrb_rx_queue *r, struct pollfd *pfd)
{
	int fds[WIRE_FDS];
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	return n;
}

/* The sockets of the main RX queue and of those of the shards. */
static unsigned int fill(struct pollfd *pfd, unsigned int shards)
{
	unsigned int n = add_sockets(vrb_main_rx_queue, pfd);

	if (!load_acquire(&vrb_extra_rx_queues))
		return n;
	for (unsigned int rest = shards >> 1; rest; rest &= rest - 1) {
		unsigned int shard = 1 + (unsigned int)__builtin_ctz(rest);
		const struct vrb_rx_queue *r = vrb_rx_queue_of_shard(shard);

		if (r != vrb_main_rx_queue)
			n += add_sockets(r, pfd + n);
	}
	return n;
}

/*
 * Until a packet comes or the time has passed. What comes by lanes waits for that: its senders take
 * the thread for one that polls.
 */
static void sleep_a_moment(unsigned int shards)
{
	const struct timespec limit = { .tv_nsec = TUNE_POLL_SLEEP };
	struct pollfd pfd[WIRE_FDS * (1 + VRB_RX_QUEUES)];
	unsigned int n = fill(pfd, shards);
	int cancel = cancel_off();

	poll_fds(pfd, n, &limit);
	cancel_on(cancel);
}

/* A thread sleeps only if a packet can wake it up: lanes wake nobody. */
static bool sleeps(bool wire, uint64_t now)
{
	if (!wire)
		return false;
	if (cpu_contention_ran(&idle.contention, idle.begin, now))
		cpu_contention_used(&idle.contention, idle.begin, now, use_now());
	return cpu_is_contended(&idle.contention, now) &&
	       cpu_contention_sleeps(&idle.contention, now, use_now().others);
}

bool vrb_idle_rest(unsigned int shards, uint64_t begin)
{
	bool wire = vrb_any_uses_wire();
	uint64_t now = clock_now();

	idle.begin = begin;
	if (sleeps(wire, now)) {
		sleep_a_moment(shards);
		return true;
	}
	if (yield_is_paused(&yield_pause, now))
		return false;
	if (!wire)
		return yield_if_shared(now);
	yield_cpu(now);
	return true;
}

bool vrb_idle_wants_brief_polls(uint64_t now)
{
	return cpu_is_contended_within(&idle.contention, now);
}
