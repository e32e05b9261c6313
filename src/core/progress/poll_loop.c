/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rounds of progress.
 *
 *	wire, inbox, lanes -> demux.c -> engine           a batch at a time, scheduling their QPs
 *	scheduled QPs -> tx_sched.c -> transmit.c         so that one ACK covers a batch
 *	timers that are due -> timeouts.c -> engine, transmit.c
 *
 * Packets are taken under the lock of their rx queue; that of the main one is vrb.poll_lock, which
 * covers everything else too. A QP found in the table lives until the lock is released
 * (base/rx_queues.h). Below it qp->lock, one QP at a time. Output needs only qp->lock: each thread
 * has its own batch.
 */
#include "core/progress/poll_loop.h"

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/xrc_ops.h"
#include "core/cq/round.h"
#include "core/local/peer_link.h"
#include "core/local/keepalive.h"
#include "core/local/peer_word.h"
#include "core/mad/gsi.h"
#include "core/progress/poll_idle.h"
#include "core/progress/rx_queue.h"
#include "core/progress/rx_steering.h"
#include "core/progress/stand_in.h"
#include "core/progress/timeouts.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/raw/raw_port.h"
#include "core/raw/raw_tx.h"
#include "core/rx/demux.h"
#include "core/rx/subscriptions.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "core/tx/tx_sched.h"
#include "host/host.h"
#include "host/steer.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"
#include "wire/wire.h"

enum {
	INBOX = 64,		/* messages from other processes per round */
	LANE_BURST = 64,	/* packets from processes of this host per round */
};

#define LANE_RETRY (10 * VRB_MSEC)	/* between attempts to get memory for a lane */

/* Input through memory */

/* Must hold vrb.poll_lock. */
static bool take_lanes(uint64_t now, bool poller)
{
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	struct vrb_round round;
	unsigned int n, words;

	if (!vrb.local)
		return false;
	vrb_round_begin(&round, now);
	n = local_recv(vrb.local, LANE_BURST, &vrb_rx_local, &now);
	words = !poller || word_looks_due(&vrb_word_looks, now) ? vrb_rx_words(now) : 0;
	if (words)
		word_looks_found(&vrb_word_looks);
	if (poller && n)
		vrb_tx_flush_or_delay(r, n, true, now);
	else if (n || !list_empty(&r->scheduled) ||
		 load_relaxed(&r->delayed_deadline) != VRB_NEVER)
		vrb_tx_flush(r, now);
	vrb_round_end(&round);
	return n || words;
}

/*
 * The progress thread serves the inbox; while packets arrive there, pollers check it too, which is
 * faster.
 */
static uint64_t inbox_busy_until;	/* vrb.poll_lock */

/*
 * Answers keepalives: the sender has transmitted before and got no reply. Must hold vrb.poll_lock.
 */
static void reply_to_keepalives(uint64_t now)
{
	if (likely(!vrb_keepalive_asked()))
		return;
	vrb_rx_queue_take_all(vrb_main_rx_queue, now, false);
	vrb_tx_flush(vrb_main_rx_queue, now);
	vrb_keepalive_reply();
	vrb_steer_doubt(now);
}

/*
 * Returns true if it came by the wire, and steering should have led it here. Must hold
 * vrb.poll_lock, as must the next.
 */
static bool take_message(struct host_datagram *m, struct vrb_rx_queue *r, uint64_t now)
{
	struct rx_packet packet = {
		.path = &m->path, .data = m->data, .len = m->len, .handed = true
	};

	switch (m->kind) {
	case HOST_XRC:
		vrb.xrc->message(m->data, m->len, r, now);
		break;
	case HOST_MAD:
		return !vrb_subscriptions_mad(&m->path, m->data, m->len, true, now) &&
		       vrb_gsi_handed(&m->path, m->data, m->len, now);
	case HOST_REQUEST:
		vrb_gsi_relayed(&m->path, m->data, now);
		break;
	case HOST_KEEPALIVE:
		vrb_keepalive_receive(m->data, now);
		break;
	case HOST_PACKET:
		vrb_rx_packet(&packet, r, now);
		return true;
	case HOST_DOORBELL:
		if (vrb.local)
			local_unmap_ended(vrb.local);
		break;
	case HOST_MOVE:
		vrb_steer_moved(m->data);
		break;
	default:
		break;
	}
	return false;
}

/* Must hold vrb.poll_lock. */
static void empty_lanes(uint64_t now, bool poller)
{
	for (unsigned int k = 0; k < LIMIT_POLL_LATE_ROUNDS && take_lanes(now, poller); k++)
		;
}

/*
 * What a process of this host did before it sent a message comes before the message, or a
 * connection's end would overtake the ACK of the last request. A batch that is not full has emptied
 * the inbox: no call is needed to find that out.
 */
static bool take_inbox(uint64_t now)
{
	static struct host_datagram m[HOST_INBOX_BATCH];
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	unsigned int work = 0, misled = 0, total = 0, n;
	struct vrb_round round;

	do {
		n = host_inbox_recv_batch(vrb.host, m, HOST_INBOX_BATCH);
		if (n)
			empty_lanes(now, false);
		vrb_round_begin(&round, now);
		for (unsigned int i = 0; i < n; i++) {
			work += m[i].kind == HOST_PACKET || m[i].kind == HOST_XRC ||
				m[i].kind == HOST_MAD || m[i].kind == HOST_REQUEST;
			misled += take_message(&m[i], r, now);
		}
		if (work) {
			inbox_busy_until = now + LIMIT_INBOX_LINGER;
			vrb_tx_flush(r, now);
		}
		vrb_round_end(&round);
		total += n;
	} while (n == HOST_INBOX_BATCH && total < INBOX);
	if (misled)
		vrb_steer_misled(misled, now);
	reply_to_keepalives(now);
	return total > 0;
}

/*
 * Packets that have arrived are not late, even if no thread had a CPU to take them: those of the
 * other rx queues. One that another thread holds is waited for, if a reply is overdue (timeouts.c).
 * Must hold no lock of level 3 or below.
 */
static void take_late(uint64_t now, bool poller)
{
	vrb_for_each_rx_queue (r) {
		if (r == vrb_main_rx_queue || !lock_try(r->lock))
			continue;
		vrb_rx_queue_take_all(r, now, poller);
		lock_release(r->lock);
	}
}

/*
 * Only when a timer waits for them: most timers that are due wait for a reply that has come, and
 * the queues' own threads read them meanwhile.
 */
static void take_unserved(uint64_t now, bool poller)
{
	if (unlikely(vrb_timers_unserved()))
		take_late(now, poller);
}

/* The main rx queue's part of take_late(). Must hold vrb.poll_lock. */
static void take_main(uint64_t now, bool poller)
{
	empty_lanes(now, poller);
	take_inbox(now);
	vrb_rx_queue_take_all(vrb_main_rx_queue, now, poller);
}

/* Must hold vrb.poll_lock. */
static bool run_timers(uint64_t now, bool poller)
{
	bool any;

	if (likely(timers_next(vrb.timers) > now))
		return false;
	any = vrb_timers_expire(now, take_main, poller);
	if (vrb_gsi_unanswered())
		vrb_steer_doubt(now);
	return any;
}

/* Pollers and the progress thread */

/* atomic hint: polls since the program last waited for an event, or while the thread waits */
static unsigned int polls;
/* atomic hint: pollers of other rx queues found work at the main one */
static bool main_busy;

/* True if the progress thread waits for lane or wire input. */
static bool thread_sleeps(void)
{
	return vrb.local ? local_sleeps(vrb.local) : !progress_away(vrb.progress);
}

/*
 * A program that polls steadily takes over from the progress thread: local peers need not ring the
 * doorbell, and the two threads do not compete for a CPU. The thread resumes once the polling has
 * stopped.
 */
static void thread_handoff(void)
{
	unsigned int n;

	if (likely(!thread_sleeps()))
		return;
	n = fetch_add_relaxed(&polls, 1);
	if (n < TUNE_POLL_HANDOFF)
		return;
	/* Order matters: the thread runs one more round, and checks the lanes before it sleeps. */
	if (vrb.local)
		local_wake(vrb.local);
	progress_stand_back(vrb.progress);
	store_relaxed(&polls, 0);
}

void vrb_prepare_sleep(void)
{
	store_relaxed(&polls, 0);
	vrb_tx_try_flush_delayed();
	if (!thread_sleeps())
		progress_wake(vrb.progress);
	vrb_stand_in_end();
}

static bool has_thread;		/* VERBENA_PROGRESS; set before there is a context */

/*
 * Do pollers leave the sockets to the progress thread? While no QP expects packets from the wire,
 * they are rare, and an empty poll need not make a system call; one that comes all the same is
 * followed by others.
 */
static bool leaves_wire(uint64_t now)
{
	return !vrb_any_uses_wire() && now >= load_relaxed(&vrb_wire_busy_until) && has_thread;
}

static bool pollers_read(void *arg)
{
	return !leaves_wire(clock_now());
}

/* A QP expects packets from the wire, and polls may take as long as a system call. */
static bool polls_wire(uint64_t now)
{
	return vrb_any_uses_wire() && !vrb_idle_wants_brief_polls(now);
}

/*
 * Reading the sockets costs a system call. If a QP expects packets from them, each poll reads them
 * unless polls must be brief or lanes have just had some. local: this poll took packets from lanes.
 */
static bool may_look_at_wire(const struct vrb_rx_queue *r, uint64_t now, bool local)
{
	uint64_t pause = TUNE_POLL_WIRE_US * VRB_USEC;

	if (leaves_wire(now))
		return false;
	if (!vrb_any_uses_wire()) {
		if (local)
			return false;
	} else if (!local) {
		pause = vrb_idle_wants_brief_polls(now) ? TUNE_POLL_BRIEF_US * VRB_USEC : 0;
	}
	return time_since(r->looked_at, now) >= pause;
}

/* Must hold vrb.poll_lock. */
static bool look_at_wire(uint64_t now, bool local)
{
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	bool found;

	if (!may_look_at_wire(r, now, local))
		return false;
	found = vrb_rx_queue_poll(r, now, true);
	if (found)
		progress_taken(vrb.progress);
	return found;
}

/* Empty polls of the thread. */
static __thread struct {
	unsigned int polls;
	uint64_t begin;
} run static_tls;

/* After a poll: does it end a run of empty ones? */
static bool ends_run(bool any, uint64_t now)
{
	if (any) {
		run.polls = 0;
		return false;
	}
	if (!run.polls) {
		run.begin = now;
		if (vrb_any_uses_wire())
			vrb_idle_begin(now);
	}
	/* Where polls make system calls, one more matters little. */
	run.polls += polls_wire(now) ? TUNE_POLL_YIELD_WIRE : 1;
	if (run.polls < TUNE_POLL_YIELD)
		return false;
	run.polls = 0;
	return true;
}

/* The inbox is the progress thread's; without it, packets that are handed over wait here. */
static void serve_inbox(uint64_t now)
{
	if (!lock_try(&vrb.poll_lock))
		return;
	take_inbox(now);
	lock_release(&vrb.poll_lock);
}

/* Polls the main rx queue and everything that belongs to it. Must hold vrb.poll_lock. */
static bool poll_main(uint64_t now)
{
	bool any;

	store_relaxed(&vrb_main_rx_queue->polled_at, now);
	if (likely(vrb.local != NULL))
		local_polled(vrb.local);
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

	if (!lock_try(&vrb.poll_lock))
		return false;
	any = poll_main(now);
	lock_release(&vrb.poll_lock);
	if (load_relaxed(&main_busy) != any)
		store_relaxed(&main_busy, any);
	return any;
}

static bool try_rx_queue(struct vrb_rx_queue *r, uint64_t now)
{
	unsigned int packets = 0;

	if (!lock_try(r->lock))
		return false;
	store_relaxed(&r->polled_at, now);
	if (may_look_at_wire(r, now, false))
		packets = vrb_rx_queue_poll(r, now, true);
	lock_release(r->lock);
	if (packets)
		progress_taken(vrb.progress);
	return packets;
}

/* The rx queues of a CQ's QPs, in turn; usually there is only one. */
static struct vrb_rx_queue *own_rx_queue(unsigned int shards, unsigned int turn)
{
	unsigned int rest = shards >> 1;

	if (!rest)
		return vrb_main_rx_queue;
	for (turn %= (unsigned int)__builtin_popcount(rest); turn; turn--)
		rest &= rest - 1;
	return vrb_rx_queue_of_shard(1 + (unsigned int)__builtin_ctz(rest));
}

static bool is_unpolled(const struct vrb_rx_queue *r, uint64_t now)
{
	return time_since(load_relaxed(&r->polled_at), now) >= TUNE_POLL_UNPOLLED_US * VRB_USEC;
}

/* If no other thread polls, each poller checks everything in turn. */
static bool poll_in_turn(unsigned int shards, uint64_t now)
{
	static __thread unsigned int turn static_tls;
	unsigned int n = load_acquire(&vrb_extra_rx_queues);
	struct vrb_rx_queue *own = own_rx_queue(shards, ++turn), *other;
	bool others = turn % TUNE_POLL_OTHERS == 0, any = false;

	if (own != vrb_main_rx_queue)
		any = try_rx_queue(own, now);
	if (unlikely(timers_next(vrb.timers) <= now)) {
		any |= try_main(now);
		take_unserved(now, true);
	} else if ((shards & 1) || own == vrb_main_rx_queue || load_relaxed(&main_busy) ||
		   (others && is_unpolled(vrb_main_rx_queue, now))) {
		any |= try_main(now);
	}
	other = &vrb_rx_queues[1 + turn / TUNE_POLL_OTHERS % n];
	if (others && other != own && is_unpolled(other, now))
		any |= try_rx_queue(other, now);
	return any;
}

/* Detects that several threads poll at once: each finds the lock held by another. */
static void rx_contention(void)
{
	static __thread char self static_tls;
	static char *last;		/* atomic hints */
	static unsigned int turns;

	if (load_relaxed(&last) == &self)
		return;
	store_relaxed(&last, &self);
	if (fetch_add_relaxed(&turns, 1) >= TUNE_POLL_CONTENDED && vrb_any_uses_wire())
		vrb_rx_queues_open();
}

static bool look(unsigned int shards, uint64_t now)
{
	bool any;

	if (unlikely(load_relaxed(&vrb_extra_rx_queues)))
		return poll_in_turn(shards, now);
	if (!lock_try(&vrb.poll_lock)) {
		rx_contention();
		return false;
	}
	any = poll_main(now);
	lock_release(&vrb.poll_lock);
	return any;
}

/*
 * The peer that had the CPU meanwhile has sent something, and perhaps ended the connection after
 * it. A program that finds nothing here and then that end looks no more.
 */
bool vrb_poll_once(unsigned int shards)
{
	uint64_t now;
	bool any;

	progress_polled(vrb.progress);
	thread_handoff();
	now = clock_now();
	any = look(shards, now);
	if (likely(!ends_run(any, now)))
		return any;
	if (unlikely(!has_thread))
		serve_inbox(now);
	return vrb_idle_rest(shards, run.begin) && look(shards, clock_now());
}

bool vrb_loopback_begin(void)
{
	return vrb.local && lock_try(&vrb.poll_lock);
}

void vrb_loopback_end(void)
{
	/* What is left was sent without a doorbell. */
	if (local_sleeps(vrb.local) && unlikely(local_input_waits(vrb.local))) {
		progress_wake(vrb.progress);
		vrb_stand_in_end();
	}
	lock_release(&vrb.poll_lock);
}

/* Waits for the thread that has the lock, if that does not wait for vrb.poll_lock. */
static bool loopback_lock(struct vrb_rx_queue *r, bool begun)
{
	if (lock_try(r->lock))
		return true;
	if (begun)
		return false;
	rx_contention();
	lock_acquire(r->lock);
	return true;
}

static void loopback_round(unsigned int shard, bool begun, bool by_lane, bool signaled,
			   uint64_t now)
{
	struct vrb_rx_queue *r = by_lane ? vrb_main_rx_queue : vrb_rx_queue_of_shard(shard);
	bool held = begun && r == vrb_main_rx_queue;

	if (!held && !loopback_lock(r, begun))
		return;
	if (by_lane)
		take_lanes(now, !signaled);
	else
		vrb_rx_queue_poll(r, now, false);
	if (!held)
		lock_release(r->lock);
}

/*
 * Its completions keep the CQs of a program from being empty, so that it might never poll. By the
 * wire, each of its packets would then wake the progress thread, too.
 */
void vrb_loopback_run(const struct vrb_qp *qp, bool begun, bool by_lane, bool signaled)
{
	static __thread unsigned int turn static_tls;
	uint64_t now = clock_now();

	loopback_round(load_relaxed(&qp->post.peer_shard), begun, by_lane, signaled, now);
	if (signaled)
		loopback_round(qp->config.shard, begun, by_lane, signaled, now);
	if (!begun && !by_lane && ++turn % TUNE_LOOPBACK_POLL == 0)
		vrb_poll_once(1u << qp->config.shard);
}

void vrb_poll_arrived(void)
{
	uint64_t now = clock_now();

	vrb_for_each_rx_queue (r) {
		lock_acquire(r->lock);
		if (r == vrb_main_rx_queue)
			take_main(now, false);
		else
			vrb_rx_queue_take_all(r, now, false);
		lock_release(r->lock);
	}
}

void vrb_poll_wire_in_round(uint64_t now)
{
	struct vrb_round *round = vrb_round;

	vrb_tx_flush(vrb_main_rx_queue, now);
	vrb_round_end(round);
	vrb_rx_queue_take_all(vrb_main_rx_queue, now, false);
	vrb_round_begin(round, now);
}

bool vrb_poll_messages(void)
{
	uint64_t now = clock_now();
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = take_lanes(now, false);
	any |= take_inbox(now);
	lock_release(&vrb.poll_lock);
	return any;
}

static void on_begin(void *arg)
{
	if (vrb.local)
		local_keep(vrb.local);
}

enum progress_rest vrb_progress_rest(void)
{
	enum progress_rest rest = PROGRESS_SLEEP;
	unsigned int one_sided;

	if (!vrb.local)
		return PROGRESS_SLEEP;
	if (!lock_try(&vrb.poll_lock))
		return PROGRESS_BUSY;
	one_sided = vrb_main_rx_queue->onesided_pkts;
	if (take_lanes(clock_now(), false) || !local_sleep(vrb.local))
		rest = PROGRESS_WORKED;
	if (vrb_main_rx_queue->onesided_pkts != one_sided)
		progress_missed(vrb.progress);
	lock_release(&vrb.poll_lock);
	return rest;
}

static enum progress_rest on_rest(void *arg)
{
	return vrb_stand_in_park() ? PROGRESS_WORKED : vrb_progress_rest();
}

static bool on_inbox(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = take_inbox(clock_now());
	lock_release(&vrb.poll_lock);
	return any;
}

static uint64_t next_deadline(void *arg)
{
	uint64_t at = time_earlier(timers_next(vrb.timers), vrb_delayed_tx_deadline());

	if (unlikely(vrb.local && local_lacks_memory(vrb.local)))
		at = time_earlier(at, time_after(clock_now(), LANE_RETRY));
	return at;
}

static void on_deadline(void *arg, uint64_t now)
{
	lock_acquire(&vrb.poll_lock);
	run_timers(now, false);
	lock_release(&vrb.poll_lock);
	take_unserved(now, false);
	vrb_tx_flush_expired(now);
}

const struct progress_ops vrb_progress_ops = {
	.begin = on_begin,
	.rest = on_rest,
	.pollers_read = pollers_read,
	.deadline = next_deadline,
	.expire = on_deadline,
};

int vrb_progress_start(void)
{
	int inbox = host_inbox_fd(vrb.host);
	int ret = inbox < 0 ? 0 : progress_watch(vrb.progress, inbox, PROGRESS_OWN, on_inbox, NULL);

	has_thread = config_get()->progress_thread;
	store_relaxed(&vrb.leaves, false);
	if (!ret)
		ret = vrb_gsi_start();
	if (!ret)
		ret = vrb_rx_queues_start();
	if (ret)
		vrb_progress_stop();
	return ret;
}

/* Skips locked queues: the thread that has the lock empties it, or exit has stopped it. */
static void finish(void)
{
	vrb_tx_flush_at_exit();
	vrb_for_each_rx_queue (r) {
		if (!lock_try_at_exit(r->lock))
			continue;
		vrb_rx_queue_take_all(r, clock_now(), false);
		vrb_steer_leave_at_exit(r);
		lock_release(r->lock);
	}
}

/* As vrb_rx_queues_end() does, for a program that exits with its devices open; and flushes ACKs. */
static __attribute__((destructor)) void finish_at_exit(void)
{
	store_relaxed(&vrb.leaves, true);
	progress_at_exit(vrb.progress, finish);
}

void vrb_progress_stop(void)
{
	vrb_rx_queues_end();
	if (host_inbox_fd(vrb.host) >= 0)
		progress_unwatch(vrb.progress, host_inbox_fd(vrb.host));
	vrb_gsi_stop();
	vrb_qp_table_free();
}
