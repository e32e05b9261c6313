/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rounds that move everything.
 *
 *	wire, inbox, lanes -> arrive.c -> engine      a burst at a time, marking the QPs it touched
 *	touched QPs -> answer.c -> output.c           so that one ACK answers a burst
 *	timers that are due -> deadline.c -> engine, output.c
 *
 * Packets are taken under the lock of their receiver, which for the main one is vrb.drive; everything else is done under that.  A QP found in
 * the table lives until the lock is dropped (receiver.h).  Below it qp->lock, one QP at a time.  Output needs only qp->lock: each thread has a
 * batch of its own.
 */
#include "core/drive.h"

#include <assert.h>
#include <sched.h>

#include "core/answer.h"
#include "core/arrive.h"
#include "core/burst.h"
#include "core/context.h"
#include "core/deadline.h"
#include "core/gsi.h"
#include "core/mcast.h"
#include "core/near.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/raw_port.h"
#include "core/raw_send.h"
#include "core/receiver.h"
#include "core/round.h"
#include "core/steer.h"
#include "core/xrc/afar.h"
#include "core/xrc/deputy.h"
#include "core/xrc/loan.h"
#include "core/xrc/opener.h"
#include "core/xrc/xrcd.h"
#include "core/xrc/xrcmsg.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "wire/wire.h"

enum {
	INBOX = 64,		/* and this many messages from other processes */
	LANE_BURST = 64,	/* and this many packets of neighbours */
	LATE_ROUNDS = 64,	/* for a socket, and for lanes, before deadlines are held to be missed */
	POLLS_PER_YIELD = 256,	/* about as many microseconds as a hand-over takes, tenfold */
	CLAIM_POLLS = 64,	/* polls without waiting for an event that make a program one that polls, */
	STEADY_POLLS = 4096,	/* even if it has left work to the progress thread before */
	WIRE_EVERY_US = 20,	/* pollers look at a wire that nobody seems to use */
	OTHERS_EVERY = 8,	/* so many times a poller looks at its own receiver, then whether another one is looked after */
	NEGLECT_US = 50,	/* it is, if somebody has polled it so lately */
	WITHIN_ROUNDS = 3,	/* a message, its ACK, and a look whether something is left */
	CROWD = 64,		/* turns that pollers take in finding another one at it, before each gets its own receiver */
};

struct drive_stats vrb_drive_stats;

static void add_stats(struct drive_stats *sum, const struct drive_stats *s)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	static_assert(sizeof(*sum) % sizeof(uint64_t) == 0, "counters are all 64 bits wide");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += load_relaxed(&from[i]);
}

void vrb_drive_stats_sum(struct drive_stats *sum)
{
	*sum = (struct drive_stats){ 0 };
	add_stats(sum, &vrb_drive_stats);
	vrb_for_each_receiver (r)
		add_stats(sum, &r->stats);
}

/* Queue pairs come and go */

int vrb_drive_insert_locked(struct vrb_qp *qp)
{
	int ret = timers_add(vrb.timers, &qp->timer.timer);

	if (ret)
		return ret;
	ret = vrb_qptab_add(qp);
	if (!ret && qp->wq.type == IBV_QPT_RAW_PACKET)
		vrb_raw_add(qp);
	if (!ret)
		vrb_steer_qp_added(qp->wq.qpn);
	else
		timers_remove(vrb.timers, &qp->timer.timer);
	return ret;
}

int vrb_drive_insert(struct vrb_qp *qp)
{
	int ret;

	lock_acquire(&vrb.drive);
	ret = vrb_drive_insert_locked(qp);
	lock_release(&vrb.drive);
	return ret;
}

void vrb_drive_remove(struct vrb_qp *qp)
{
	vrb_receivers_stop();
	vrb_for_each_receiver (r)
		vrb_answer(r, clock_now());
	vrb_qptab_remove(qp);
	timers_remove(vrb.timers, &qp->timer.timer);
	list_del(&qp->touched);
	list_del(&qp->raw.node);
	vrb_output_note_far(qp, false);
	vrb_steer_qp_removed(qp->wq.qpn);
	vrb_counters_add(&qp->ctx->dev->retired, roce_qp_counters(&qp->roce));
	vrb_receivers_go_on();
}

static void remove_orphan(struct vrb_qp *qp, void *arg)
{
	if (qp->ctx != arg)
		return;
	vrb_qptab_remove(qp);
	timers_remove(vrb.timers, &qp->timer.timer);
	list_del(&qp->touched);
	list_del(&qp->raw.node);
	lock_acquire(&qp->lock);
	vrb_output_note_far(qp, false);
	vrb_loan_drop(qp);
	vrb_opener_drop(qp);
	vrb_near_drop(qp);
	lock_release(&qp->lock);
	host_qpn_free(vrb.host, qp->wq.qpn);
}

void vrb_drive_remove_context(struct vrb_context *ctx)
{
	vrb_receivers_stop();
	vrb_qptab_for_each(remove_orphan, ctx);
	vrb_receivers_go_on();
}

/* Input by memory */

/* Must hold vrb.drive. */
static bool take_lanes(uint64_t now, bool poller)
{
	struct vrb_receiver *r = vrb_main_receiver;
	struct vrb_round round;
	unsigned int n;

	if (!vrb.local)
		return false;
	vrb_round_begin(&round, now);
	n = local_recv(vrb.local, LANE_BURST, vrb_arrive_by_lane, &now);
	if (poller && n)
		vrb_answer_or_owe(r, n, true, now);
	else if (n || load_relaxed(&r->owed_due) != VRB_NEVER)
		vrb_answer(r, now);
	vrb_round_end(&round);
	return n > 0;
}

/*
 * The inbox is the progress thread's, but while packets come that way pollers look, too: they are sooner there.
 */
#define INBOX_LINGER (50 * VRB_MSEC)

static uint64_t inbox_busy_until;	/* vrb.drive */

/* Must hold vrb.drive. */
static bool take_inbox(uint64_t now)
{
	static uint8_t buf[HOST_PACKET_MAX];
	struct vrb_receiver *r = vrb_main_receiver;
	struct net_path path;
	struct vrb_round round;
	enum host_msg msg;
	size_t len;
	unsigned int packets = 0, messages = 0, i;

	vrb_round_begin(&round, now);
	for (i = 0; i < INBOX; i++) {
		msg = host_inbox_recv(vrb.host, &path, buf, &len);
		if (msg == HOST_NOTHING)
			break;
		if (msg == HOST_MESSAGE) {
			messages++;
			xrc_receive(buf, len, r, now);
		}
		if (msg == HOST_MAD) {
			messages++;
			vrb_gsi_handed(&path, buf, len, now);
		}
		if (msg != HOST_PACKET)
			continue;
		packets++;
		vrb_arrive(&(struct arrival){ .path = &path, .data = buf, .len = len, .handed = true }, r, now);
	}
	if (packets + messages) {
		inbox_busy_until = now + INBOX_LINGER;
		vrb_answer(r, now);
	}
	vrb_round_end(&round);
	if (packets)
		vrb_steer_misled(packets, now);
	return i > 0;
}

static void take_all_packets(struct vrb_receiver *r, uint64_t now, bool poller)
{
	int fds[WIRE_FDS];
	unsigned int n = r->wire ? wire_fds(r->wire, fds) : 0;

	for (unsigned int i = 0; i < n; i++) {
		wire_readable(r->wire, fds[i]);
		for (unsigned int k = 0; k < LATE_ROUNDS && vrb_receiver_take(r, now, poller); k++)
			;
	}
}

/*
 * What is here already has not failed to come in time, though nobody had a processor to look for it: so it is looked for before deadlines expire.
 * First what other receivers have; one that is busy looks itself.  Must hold no lock of level 3 or below.
 */
static void take_late(uint64_t now, bool poller)
{
	vrb_for_each_receiver (r) {
		if (r == vrb_main_receiver || !lock_try(r->lock))
			continue;
		take_all_packets(r, now, poller);
		lock_release(r->lock);
	}
}

/* The main receiver's part. Must hold vrb.drive. */
static void take_main(uint64_t now, bool poller)
{
	for (unsigned int k = 0; k < LATE_ROUNDS && take_lanes(now, poller); k++)
		;
	take_inbox(now);
	take_all_packets(vrb_main_receiver, now, poller);
}

/* Must hold vrb.drive. */
static bool run_timers(uint64_t now, bool poller)
{
	return unlikely(timers_next(vrb.timers) <= now) && vrb_deadlines_expire(now, take_main, poller);
}

/* Who calls */

static unsigned int polls;	/* atomic hint: while the thread waits, too; since the program last waited for an event */
static bool main_busy;		/* atomic hint: pollers of other receivers found work at the main one */

/* Does the progress thread wait for what comes, by memory or by the wire? */
static bool thread_waits(void)
{
	return vrb.local ? local_sleeps(vrb.local) : !progress_away(vrb.progress);
}

/*
 * A program that polls steadily takes over from the progress thread: neighbours need not wake us any more, and packets from the wire do
 * not make the two threads fight for a processor.  The thread stands back, and waits again once the polling has stopped.
 */
static void claim(void)
{
	unsigned int n;

	if (likely(!thread_waits()))
		return;
	n = fetch_add_relaxed(&polls, 1);
	if (n < (progress_needed(vrb.progress) ? STEADY_POLLS : CLAIM_POLLS))
		return;
	/* In this order: the thread comes round once more, and looks at the lanes before it sleeps. */
	if (vrb.local)
		local_wake(vrb.local);
	progress_stand_back(vrb.progress);
	store_relaxed(&polls, 0);
}

void vrb_drive_blocks(void)
{
	store_relaxed(&polls, 0);
	vrb_answer_try_owed();
	if (!thread_waits())
		progress_wake(vrb.progress);
}

/*
 * At each poll, while packets are expected from there; only now and then where nobody seems to use the wire, and where neighbours had
 * something: they may have so at every poll.  Must hold vrb.drive.
 */
static bool look_at_wire(uint64_t now, bool neighbours)
{
	bool far = vrb_output_any_far();

	if (neighbours && !far)
		return false;
	if (neighbours == far && time_since(vrb_main_receiver->looked_at, now) < WIRE_EVERY_US * VRB_USEC)
		return false;
	if (!vrb_receiver_take(vrb_main_receiver, now, true))
		return false;
	progress_taken(vrb.progress);
	return true;
}

/*
 * Where more programs poll than there are processors, the one that has what we wait for may be waiting for our processor: a thread that
 * has polled in vain for some time offers it.
 */
static bool yielded(bool any)
{
	static __thread unsigned int in_vain __attribute__((tls_model("initial-exec")));

	if (any)
		in_vain = 0;
	else if (++in_vain % POLLS_PER_YIELD == 0)
		sched_yield();
	return any;
}

/* What is the main receiver's. Must hold vrb.drive. */
static bool poll_main(uint64_t now)
{
	bool any;

	store_relaxed(&vrb_main_receiver->polled_at, now);
	any = take_lanes(now, true);
	any |= look_at_wire(now, any);
	if (unlikely(now < inbox_busy_until))
		any |= take_inbox(now);
	any |= vrb_raw_poll(now);
	any |= run_timers(now, true);
	return any;
}

static bool try_main(uint64_t now)
{
	bool any;

	if (!lock_try(&vrb.drive))
		return false;
	any = poll_main(now);
	lock_release(&vrb.drive);
	if (load_relaxed(&main_busy) != any)
		store_relaxed(&main_busy, any);
	return any;
}

static bool try_receiver(struct vrb_receiver *r, uint64_t now)
{
	unsigned int packets = 0;

	if (!lock_try(r->lock))
		return false;
	store_relaxed(&r->polled_at, now);
	if (vrb_output_any_far() || time_since(r->looked_at, now) >= WIRE_EVERY_US * VRB_USEC)
		packets = vrb_receiver_take(r, now, true);
	lock_release(r->lock);
	if (packets)
		progress_taken(vrb.progress);
	return packets;
}

/* The receivers of a CQ's QPs take turns; there is one as a rule. */
static struct vrb_receiver *own_receiver(unsigned int shards, unsigned int turn)
{
	unsigned int rest = shards >> 1;

	if (!rest)
		return vrb_main_receiver;
	for (turn %= (unsigned int)__builtin_popcount(rest); turn; turn--)
		rest &= rest - 1;
	return vrb_receiver_of_shard(1 + (unsigned int)__builtin_ctz(rest));
}

static bool neglected(const struct vrb_receiver *r, uint64_t now)
{
	return time_since(load_relaxed(&r->polled_at), now) >= NEGLECT_US * VRB_USEC;
}

/* Nobody else may poll, so everything is looked after. */
static bool poll_in_turn(unsigned int shards)
{
	static __thread unsigned int turn __attribute__((tls_model("initial-exec")));
	unsigned int n = load_acquire(&vrb_extra_receivers);
	struct vrb_receiver *own = own_receiver(shards, ++turn), *other;
	bool others = turn % OTHERS_EVERY == 0, any = false;
	uint64_t now = clock_now();

	if (own != vrb_main_receiver)
		any = try_receiver(own, now);
	if (unlikely(timers_next(vrb.timers) <= now)) {
		take_late(now, true);
		any |= try_main(now);
	} else if ((shards & 1) || own == vrb_main_receiver || load_relaxed(&main_busy) ||
		   (others && neglected(vrb_main_receiver, now))) {
		any |= try_main(now);
	}
	other = &vrb_receivers[1 + turn / OTHERS_EVERY % n];
	if (others && other != own && neglected(other, now))
		any |= try_receiver(other, now);
	return any;
}

/* Several threads poll at once if they find each other at it by turns. */
static void note_crowd(void)
{
	static __thread char self __attribute__((tls_model("initial-exec")));
	static char *last;		/* atomic hints */
	static unsigned int turns;

	if (load_relaxed(&last) == &self)
		return;
	store_relaxed(&last, &self);
	if (fetch_add_relaxed(&turns, 1) >= CROWD && vrb_output_any_far())
		vrb_receivers_open();
}

bool vrb_drive_poll(unsigned int shards)
{
	bool any;

	progress_polled(vrb.progress);
	claim();
	if (unlikely(load_relaxed(&vrb_extra_receivers)))
		return yielded(poll_in_turn(shards));
	if (!lock_try(&vrb.drive)) {
		note_crowd();
		return yielded(false);
	}
	any = poll_main(clock_now());
	lock_release(&vrb.drive);
	return yielded(any);
}

/*
 * What a QP sends to another of its process is there already.  Its round and that of the answer are run at once, as a device loops it back: nobody
 * may be about to poll.
 */
void vrb_drive_within(void)
{
	uint64_t now = clock_now();

	lock_acquire(&vrb.drive);
	for (int i = 0; i < WITHIN_ROUNDS; i++)
		if (!(take_lanes(now, false) || vrb_receiver_take(vrb_main_receiver, now, false)))
			break;
	lock_release(&vrb.drive);
}

void vrb_drive_take_arrived(void)
{
	uint64_t now = clock_now();

	take_late(now, false);
	lock_acquire(&vrb.drive);
	take_main(now, false);
	lock_release(&vrb.drive);
}

bool vrb_drive_messages(void)
{
	uint64_t now = clock_now();
	bool any;

	lock_acquire(&vrb.drive);
	any = take_lanes(now, false);
	any |= take_inbox(now);
	lock_release(&vrb.drive);
	return any;
}

static void on_begin(void *arg)
{
	if (vrb.local)
		local_keep(vrb.local);
}

static enum progress_rest on_rest(void *arg)
{
	enum progress_rest rest = PROGRESS_SLEEP;

	if (!vrb.local)
		return PROGRESS_SLEEP;
	if (!lock_try(&vrb.drive))
		return PROGRESS_BUSY;
	if (take_lanes(clock_now(), false) || !local_sleep(vrb.local))
		rest = PROGRESS_WORKED;
	lock_release(&vrb.drive);
	return rest;
}

static bool on_inbox(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.drive);
	any = take_inbox(clock_now());
	lock_release(&vrb.drive);
	return any;
}

static uint64_t next_deadline(void *arg)
{
	return time_earlier(timers_next(vrb.timers), vrb_answer_due());
}

static void on_deadline(void *arg, uint64_t now)
{
	take_late(now, false);
	lock_acquire(&vrb.drive);
	run_timers(now, false);
	lock_release(&vrb.drive);
	vrb_answer_overdue(now);
}

const struct progress_ops vrb_drive_progress_ops = {
	.begin = on_begin,
	.rest = on_rest,
	.deadline = next_deadline,
	.expire = on_deadline,
};

int vrb_drive_start(void)
{
	int inbox = host_inbox_fd(vrb.host);
	int ret = inbox < 0 ? 0 : progress_watch(vrb.progress, inbox, PROGRESS_OWN, on_inbox, NULL);

	if (!ret)
		ret = vrb_gsi_start();
	if (!ret)
		ret = vrb_receivers_start();
	if (ret)
		vrb_drive_stop();
	return ret;
}

void vrb_drive_stop(void)
{
	vrb_steer_stop();
	vrb_receivers_end();
	if (host_inbox_fd(vrb.host) >= 0)
		progress_unwatch(vrb.progress, host_inbox_fd(vrb.host));
	vrb_gsi_stop();
	vrb_deputy_free_all();
	vrb_qptab_free();
}

/* The QPs of the parent stay in memory, unreachable; the timers and locks around them belong to threads that do not exist here. */
void vrb_drive_forget_all(void)
{
	vrb_gsi_forget();
	vrb_qptab_forget();
	vrb_deputy_forget_all();
	vrb_afar_forget_all();
	vrb_xrcd_forget_all();
	vrb_burst_forget();
	vrb_raw_send_forget();
	vrb_mcast_forget();
}
