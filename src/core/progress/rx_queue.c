/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/rx_queue.h"

#include <sched.h>
#include <unistd.h>

#include "core/base/state.h"
#include "core/cq/round.h"
#include "core/progress/request_wait.h"
#include "core/progress/rx_steering.h"
#include "core/rx/demux.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_pending.h"
#include "core/tx/tx_sched.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "run/progress.h"
#include "run/slowdown.h"
#include "util/cancel.h"
#include "util/tuning.h"
#include "wire/udp.h"

enum {
	BURSTS = 4,		/* rounds at a time, while bursts are full */
	ROUND_PACKETS = 2 * WIRE_BURST,	/* half a window of packets of 1 KiB */
	MISSTEERED_MAX = 32,		/* missteered packets that are worth a system call */
};

/* Reception */

static void report_missteered(struct vrb_rx_queue *r, uint64_t now)
{
	if (r != vrb_main_rx_queue)
		lock_acquire(&vrb.poll_lock);
	vrb_steer_misled(r->missteered, now);
	if (r != vrb_main_rx_queue)
		lock_release(&vrb.poll_lock);
	r->missteered = 0;
}

static bool answers_us(const struct wire_pkt *p)
{
	return p->len && !roce_is_request(roce_opcode_info(roce_opcode_of(p->data)));
}

/* How many packets follow it in its message, as long as itself, that may be of its run? */
static unsigned int followers(const struct wire_pkt *p, const struct wire_pkt *end)
{
	unsigned int n = 0;

	if (!p->len || !roce_forms_runs(roce_opcode_info(roce_opcode_of(p->data))))
		return 0;
	while (p + n + 1 < end && p[n + 1].ip_id == p->ip_id + n + 1 && p[n + 1].len == p->len)
		n++;
	return n;
}

/* Returns how many packets it has processed. */
static unsigned int arrive(struct vrb_rx_queue *r, const struct wire_pkt *p, unsigned int more,
			   uint64_t now)
{
	return vrb_rx_packet(&(struct rx_packet){ .path = &p->path,
						  .data = p->data,
						  .len = p->len,
						  .id_known = p->id_known,
						  .ip_id = p->ip_id,
						  .more = more },
			     r, now);
}

/* Runs the packets of a burst that answer us, the others, or both. */
static void run_some(struct vrb_rx_queue *r, unsigned int n, bool answers, bool requests,
		     uint64_t now)
{
	const struct wire_pkt *end = r->in + n, *alike = r->in;

	for (const struct wire_pkt *p = r->in; p < end;) {
		if (!(answers_us(p) ? answers : requests)) {
			p++;
			continue;
		}
		if (p >= alike)
			alike = p + 1 + followers(p, end);
		p += arrive(r, p, (unsigned int)(alike - p - 1), now);
	}
}

/*
 * Runs ACKs before requests: an ACK may travel after the peer's next request, as the last of a run
 * (tx_batch.c), but the program must not see that request before its own has completed.
 */
static void run_burst(struct vrb_rx_queue *r, unsigned int n, uint64_t now)
{
	run_some(r, n, true, n == 1, now);
	if (n > 1)
		run_some(r, n, false, true, now);
}

/*
 * One round, answered by one ACK: a burst, and those that the same call received, up to
 * ROUND_PACKETS. *n: packets of the last burst. Returns those of all.
 */
static unsigned int run_round(struct vrb_rx_queue *r, unsigned int *n, uint64_t now, bool poller)
{
	unsigned int sum = 0;
	struct vrb_round round;

	*n = wire_recv(r->wire, r->in, WIRE_BURST);
	if (!*n)
		return 0;
	vrb_round_begin(&round, now);
	do {
		vrb_rx_complete_before(r, now);
		run_burst(r, *n, now);
		sum += *n;
	} while (r->wire->held && sum < ROUND_PACKETS &&
		 (*n = wire_recv(r->wire, r->in, WIRE_BURST)));
	vrb_tx_flush_or_delay(r, sum, poller, now);
	vrb_round_end(&round);
	return sum;
}

uint64_t vrb_wire_busy_until;

unsigned int vrb_rx_queue_poll(struct vrb_rx_queue *r, uint64_t now, bool poller)
{
	unsigned int n = WIRE_BURST, sum = 0;

	if (!r->wire)
		return 0;
	r->looked_at = now;
	for (unsigned int i = 0; (i < BURSTS && n == WIRE_BURST) || r->wire->held; i++) {
		sum += run_round(r, &n, now, poller);
		if (!n)
			break;
	}
	if (!sum)
		vrb_tx_flush(r, now);
	else if (!vrb_any_uses_wire())
		store_relaxed(&vrb_wire_busy_until, now + LIMIT_INBOX_LINGER);
	/*
	 * Release: the effects of the packets on their QPs come first. Pairs with
	 * is_served_since().
	 */
	store_release(&r->served_at, now);
	vrb_steer_packets_seen(r);
	if (unlikely(r->missteered >= MISSTEERED_MAX))
		report_missteered(r, now);
	return sum;
}

void vrb_rx_queue_take_all(struct vrb_rx_queue *r, uint64_t now, bool poller)
{
	int fds[WIRE_FDS];
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n; i++) {
		wire_look(r->wire, fds[i], false);
		for (unsigned int k = 0;
		     k < LIMIT_POLL_LATE_ROUNDS && vrb_rx_queue_poll(r, now, poller); k++)
			;
	}
}

struct served {
	unsigned int packets;		/* received and sent; many are a stream */
	bool any;			/* some were received */
	bool one_sided;
};

/* fd: a descriptor reported readable, or -1. */
static struct served serve(struct vrb_rx_queue *r, int fd, uint64_t now)
{
	uint64_t sent = load_relaxed(&r->stats.sent_pkts);
	unsigned int one_sided, n;
	struct served s;

	lock_acquire(r->lock);
	if (fd >= 0)
		wire_look(r->wire, fd, true);
	one_sided = r->onesided_pkts;
	n = vrb_rx_queue_poll(r, now, false);
	s.one_sided = r->onesided_pkts != one_sided;
	if (s.one_sided)
		progress_missed(vrb.progress);
	lock_release(r->lock);
	s.any = n > 0;
	s.packets = n + (unsigned int)(load_relaxed(&r->stats.sent_pkts) - sent);
	return s;
}

static struct request_wait request_wait;	/* the progress thread's own */

static bool program_polls(uint64_t now)
{
	return time_since(load_relaxed(&vrb_main_rx_queue->polled_at), now) <
	       LIMIT_REQUEST_PASSIVE;
}

/* Returns until when more is expected soon, and checked for; 0: not. */
static uint64_t expects_more(const struct served *s, uint64_t now)
{
	if (s->packets >= TUNE_LINGER_STREAM)
		return now + TUNE_LINGER;
	if (s->one_sided && !program_polls(now))
		return request_wait_arrived(&request_wait, now);
	return 0;
}

/* With a single rx queue, its socket shows as fast as ppoll(2) whether more arrives. */
static bool on_wire(void *arg, int fd)
{
	struct vrb_rx_queue *r = arg;
	uint64_t now = clock_now(), until = 0, end = now + LIMIT_LINGER_MAX;
	struct served s = serve(r, fd, now);
	bool any = s.any;

	for (;;) {
		until = max(until, expects_more(&s, now));
		now = clock_now();
		if (now >= until || now >= end || progress_away(vrb.progress) ||
		    load_relaxed(&vrb_extra_rx_queues))
			break;
		s = serve(r, -1, now);
		any |= s.any;
	}
	if (until)
		progress_linger(vrb.progress, until);
	return any;
}

static int watch(struct vrb_rx_queue *r)
{
	int fds[WIRE_FDS], ret = 0;
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n && !ret; i++)
		ret = progress_watch(vrb.progress, fds[i], PROGRESS_AT_TIMES, on_wire, r);
	return ret;
}

static void unwatch(struct vrb_rx_queue *r)
{
	int fds[WIRE_FDS];
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n; i++)
		progress_unwatch(vrb.progress, fds[i]);
}

/* Opening and closing rx queues */

static bool opening;	/* atomic: rx queues are open or being opened */

static void clear(struct vrb_rx_queue *r)
{
	list_init(&r->scheduled);
	list_init(&r->delayed);
	r->delayed_deadline = VRB_NEVER;
	r->pending.deadline = VRB_NEVER;
	r->missteered = 0;
	r->looked_at = 0;
	store_relaxed(&r->served_at, 0);
}

static unsigned int power_of_two(unsigned int n)
{
	unsigned int p = 1;

	while (p < n && p < VRB_RX_QUEUES - 1)
		p *= 2;
	return p;
}

/*
 * CPUs of the machine, because each thread may be bound to one. One CPU does not need several rx
 * queues.
 */
static unsigned int processors(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned int)n : 1;
}

/* Closes all wires except the main one, vrb.wire. */
static void close_wires(void)
{
	for (unsigned int i = 1; i < VRB_RX_QUEUES; i++) {
		struct vrb_rx_queue *r = &vrb_rx_queues[i];

		if (r->wire)
			wire_close(r->wire);
		r->wire = NULL;
	}
}

/* Opens n wires, or none. */
static bool open_wires(unsigned int n)
{
	for (unsigned int i = 1; i <= n; i++) {
		struct vrb_rx_queue *r = &vrb_rx_queues[i];

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
	/* Without the host table, other processes cannot learn the positions. */
	if (n < 2 || !vrb_steers() || swap_acq_rel(&opening, true))
		return;
	if (!open_wires(n))
		return;
	lock_acquire(&vrb.poll_lock);
	store_release(&vrb_extra_rx_queues, n);
	vrb_steer_probe();
	lock_release(&vrb.poll_lock);
	for (unsigned int i = 1; i <= n; i++) {
		struct vrb_rx_queue *r = &vrb_rx_queues[i];

		lock_acquire(r->lock);
		/* on loopback the probes have arrived already */
		vrb_rx_queue_poll(r, clock_now(), false);
		lock_release(r->lock);
		if (watch(r))
			log_warn(LOG_CORE,
				 "the progress thread cannot watch the socket of an RX queue");
	}
	log_debug(LOG_CORE, "opened %u more RX queues", n);
}

void vrb_rx_queues_open(void)
{
	int cancel;

	if (load_relaxed(&opening) || config_get()->receivers)
		return;
	cancel = cancel_off();
	open_receivers(power_of_two(processors()));
	cancel_on(cancel);
}

int vrb_rx_queues_start(void)
{
	struct vrb_rx_queue *r = vrb_main_rx_queue;

	request_wait_init(&request_wait, slowdown());
	lock_acquire(r->lock);
	r->wire = vrb.wire;
	vrb_steer_start();
	vrb_rx_queue_poll(r, clock_now(), false);
	lock_release(r->lock);
	open_receivers(power_of_two(config_get()->receivers));
	return watch(r);
}

/*
 * Packets for other processes, even our last ACKs to them, may wait in our sockets and end with
 * them: hands them over. Nobody repeats an ACK whose QP is gone.
 */
static void leave(struct vrb_rx_queue *r)
{
	lock_acquire(r->lock);
	vrb_rx_queue_take_all(r, clock_now(), false);
	vrb_steer_leave(r);
	vrb_tx_pending_free(r);
	lock_release(r->lock);
}

void vrb_rx_queues_end(void)
{
	store_relaxed(&vrb.leaves, true);
	vrb_for_each_rx_queue (r) {
		unwatch(r);
		if (r != vrb_main_rx_queue)
			leave(r);
	}
	leave(vrb_main_rx_queue);
	vrb_steer_stop();
	close_wires();
	vrb_main_rx_queue->wire = NULL;
	store_relaxed(&vrb_extra_rx_queues, 0);
	store_relaxed(&opening, false);
}

/*
 * In a forked child: closes the wires on this side only, also those that another thread of the
 * parent was opening.
 */
void vrb_rx_queues_forget(void)
{
	close_wires();
	vrb_main_rx_queue->wire = NULL;
	lock_renew(&vrb.poll_lock);
	for (unsigned int i = 1; i < VRB_RX_QUEUES; i++)
		lock_renew(&vrb_rx_queues[i].own_lock);
	for (unsigned int i = 0; i < VRB_RX_QUEUES; i++)
		vrb_tx_pending_forget(&vrb_rx_queues[i]);
	clear(vrb_main_rx_queue);
	store_relaxed(&vrb_extra_rx_queues, 0);
	store_relaxed(&opening, false);
}
