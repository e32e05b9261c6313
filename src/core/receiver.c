/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/receiver.h"

#include <unistd.h>

#include "core/answer.h"
#include "core/arrive.h"
#include "core/process.h"
#include "core/round.h"
#include "core/steer.h"
#include "roce/opcode.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/cancel.h"
#include "wire/udp.h"

enum {
	BURSTS = 4,		/* a round takes this many bursts at most */
	STREAM = 8,		/* packets taken and sent that are a stream, of which the next are awaited */
	STRAYS = 32,		/* are worth a word to the kernel */
};

/* The progress thread awaits the next of a stream for so long before it sleeps: waking it costs more. */
#define LINGER (30 * VRB_USEC)
#define LINGER_MOST (10 * LINGER)	/* in one go, for deadlines want their turn */

struct vrb_receiver vrb_receivers[VRB_RECEIVERS] = {
	[0] = {
		.lock = &vrb.drive,
		.touched = { &vrb_main_receiver->touched, &vrb_main_receiver->touched },
		.owed = { &vrb_main_receiver->owed, &vrb_main_receiver->owed },
		.owed_due = VRB_NEVER,
	},
};

unsigned int vrb_extra_receivers;

/* There may be more of them by the time that vrb.drive is had, but none after that. */
void vrb_receivers_stop(void)
{
	unsigned int n;

	for (;;) {
		n = load_acquire(&vrb_extra_receivers);
		for (unsigned int i = 1; i <= n; i++)
			lock_acquire(vrb_receivers[i].lock);
		lock_acquire(&vrb.drive);
		if (likely(n == load_relaxed(&vrb_extra_receivers)))
			return;
		lock_release(&vrb.drive);
		for (unsigned int i = n; i; i--)
			lock_release(vrb_receivers[i].lock);
	}
}

/* Once vrb.drive is free there may be more, whose locks are not ours. */
void vrb_receivers_go_on(void)
{
	unsigned int n = load_relaxed(&vrb_extra_receivers);

	lock_release(&vrb.drive);
	for (unsigned int i = n; i; i--)
		lock_release(vrb_receivers[i].lock);
}

/* Packets come */

static void report_strays(struct vrb_receiver *r, uint64_t now)
{
	if (r != vrb_main_receiver)
		lock_acquire(&vrb.drive);
	vrb_steer_misled(r->strays, now);
	if (r != vrb_main_receiver)
		lock_release(&vrb.drive);
	r->strays = 0;
}

static bool answers_us(const struct wire_pkt *p)
{
	return p->len && !roce_is_request(roce_opcode_info(p->data[0]));
}

static void arrive(struct vrb_receiver *r, const struct wire_pkt *p, uint64_t now)
{
	vrb_arrive(&(struct arrival){ .path = &p->path,
				      .data = p->data,
				      .len = p->len,
				      .id_known = p->id_known,
				      .ip_id = p->ip_id },
		   r, now);
}

/*
 * ACKs before requests: a peer's ACK may travel behind its next request, as the last of a run (burst.c), and the program shall not see the
 * request before its own is complete.
 */
static void run_burst(struct vrb_receiver *r, unsigned int n, uint64_t now)
{
	for (const struct wire_pkt *p = r->in; p < r->in + n; p++)
		if (n == 1 || answers_us(p))
			arrive(r, p, now);
	for (const struct wire_pkt *p = r->in; p < r->in + n && n > 1; p++)
		if (!answers_us(p))
			arrive(r, p, now);
}

unsigned int vrb_receiver_take(struct vrb_receiver *r, uint64_t now, bool poller)
{
	unsigned int n = WIRE_BURST, sum = 0;
	struct vrb_round round;

	if (!r->wire)
		return 0;
	r->looked_at = now;
	for (unsigned int i = 0; (i < BURSTS && n == WIRE_BURST) || r->wire->held; i++) {
		n = wire_recv(r->wire, r->in, WIRE_BURST);
		sum += n;
		if (!n)
			break;
		vrb_round_begin(&round, now);
		run_burst(r, n, now);
		vrb_answer_or_owe(r, n, poller, now);
		vrb_round_end(&round);
	}
	if (!sum)
		vrb_answer(r, now);
	vrb_steer_packets_seen(r);
	if (unlikely(r->strays >= STRAYS))
		report_strays(r, now);
	return sum;
}

/* Returns how many packets came and left: of a stream, if they are many.  fd: that was seen to be readable, or -1. */
static unsigned int serve(struct vrb_receiver *r, int fd, uint64_t now, bool *any)
{
	uint64_t sent = load_relaxed(&vrb_drive_stats.sent_pkts);
	unsigned int packets, one_sided;

	lock_acquire(r->lock);
	if (fd >= 0)
		wire_readable(r->wire, fd);
	one_sided = r->one_sided;
	packets = vrb_receiver_take(r, now, false);
	if (r->one_sided != one_sided)
		progress_missed(vrb.progress);
	lock_release(r->lock);
	*any |= packets > 0;
	return packets + (unsigned int)(load_relaxed(&vrb_drive_stats.sent_pkts) - sent);
}

/* A lone receiver's socket tells whether a stream goes on as fast as ppoll(2) would. */
static bool on_wire(void *arg, int fd)
{
	struct vrb_receiver *r = arg;
	uint64_t now = clock_now(), until = 0, end = now + LINGER_MOST;
	bool any = false;
	unsigned int packets = serve(r, fd, now, &any);

	for (;;) {
		if (packets >= STREAM)
			until = now + LINGER;
		now = clock_now();
		if (now >= until || now >= end || progress_away(vrb.progress) ||
		    load_relaxed(&vrb_extra_receivers))
			break;
		packets = serve(r, -1, now, &any);
	}
	if (until)
		progress_linger(vrb.progress, until);
	return any;
}

static int watch(struct vrb_receiver *r)
{
	int fds[WIRE_FDS], ret = 0;
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n && !ret; i++)
		ret = progress_watch(vrb.progress, fds[i], PROGRESS_SHARED, on_wire, r);
	return ret;
}

static void unwatch(struct vrb_receiver *r)
{
	int fds[WIRE_FDS];
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n; i++)
		progress_unwatch(vrb.progress, fds[i]);
}

/* Receivers come and go */

static bool opening;	/* atomic: somebody has, or tries to */

static void clear(struct vrb_receiver *r)
{
	list_init(&r->touched);
	list_init(&r->owed);
	r->owed_due = VRB_NEVER;
	r->strays = 0;
	r->looked_at = 0;
}

static unsigned int power_of_two(unsigned int n)
{
	unsigned int p = 1;

	while (p < n && p < VRB_RECEIVERS - 1)
		p *= 2;
	return p;
}

/* One processor has no use for several. Of the machine: each thread may be bound to one. */
static unsigned int processors(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned int)n : 1;
}

/* All but the main one's, which is vrb.wire. */
static void close_wires(void)
{
	for (unsigned int i = 1; i < VRB_RECEIVERS; i++) {
		struct vrb_receiver *r = &vrb_receivers[i];

		if (r->wire)
			wire_close(r->wire);
		r->wire = NULL;
	}
}

/* All of them or none. */
static bool open_wires(unsigned int n)
{
	for (unsigned int i = 1; i <= n; i++) {
		struct vrb_receiver *r = &vrb_receivers[i];

		if (udp_open_beside(vrb.wire, &r->wire)) {
			close_wires();
			return false;
		}
		r->lock = &r->own_lock;
		lock_init(r->lock);
		clear(r);
	}
	return true;
}

static void open_receivers(unsigned int n)
{
	/* Without the table nobody could be told who is where. */
	if (!vrb.wire || !host_shared(vrb.host) || n < 2 || swap_acq_rel(&opening, true))
		return;
	if (!open_wires(n))
		return;
	lock_acquire(&vrb.drive);
	store_release(&vrb_extra_receivers, n);
	vrb_steer_probe();
	lock_release(&vrb.drive);
	for (unsigned int i = 1; i <= n; i++) {
		struct vrb_receiver *r = &vrb_receivers[i];

		lock_acquire(r->lock);
		vrb_receiver_take(r, clock_now(), false);	/* over loopback the probes are back already */
		lock_release(r->lock);
		if (watch(r))
			log_warn(LOG_CORE, "the progress thread cannot watch all sockets");
	}
	log_debug(LOG_CORE, "%u more receivers", n);
}

void vrb_receivers_open(void)
{
	int cancel;

	if (load_relaxed(&opening) || config_get()->receivers)
		return;
	cancel = cancel_off();
	open_receivers(power_of_two(processors()));
	cancel_on(cancel);
}

int vrb_receivers_start(void)
{
	struct vrb_receiver *r = vrb_main_receiver;

	lock_acquire(r->lock);
	r->wire = vrb.wire;
	vrb_steer_start();
	vrb_receiver_take(r, clock_now(), false);
	lock_release(r->lock);
	open_receivers(power_of_two(config_get()->receivers));
	return watch(r);
}

void vrb_receivers_end(void)
{
	vrb_for_each_receiver (r)
		unwatch(r);
	close_wires();
	vrb_main_receiver->wire = NULL;
	store_relaxed(&vrb_extra_receivers, 0);
	store_relaxed(&opening, false);
}

/* The wires are closed on this side only; also those of receivers that a thread of the parent was just opening. */
void vrb_receivers_forget(void)
{
	close_wires();
	vrb_main_receiver->wire = NULL;
	lock_init(&vrb.drive);
	clear(vrb_main_receiver);
	store_relaxed(&vrb_extra_receivers, 0);
	store_relaxed(&opening, false);
}
