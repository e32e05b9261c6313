/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rounds that move everything.
 *
 *	wire, inbox, lanes -> arrive.c -> engine      a burst at a time, marking the QPs it touched
 *	touched QPs -> answer.c -> output.c           so that one ACK answers a burst
 *	timers that are due -> engine -> output.c
 *
 * vrb.drive is held by whoever takes packets or expires timers, and while the table changes; so a QP found in the table lives until
 * vrb.drive is dropped.  Below it qp->lock, one QP at a time.  Output needs only qp->lock: each thread has a batch of its own.
 */
#include "core/drive.h"

#include <errno.h>
#include <sched.h>

#include "core/answer.h"
#include "core/arrive.h"
#include "core/burst.h"
#include "core/context.h"
#include "core/cq.h"
#include "core/mcast.h"
#include "core/near.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/raw_port.h"
#include "core/raw_send.h"
#include "core/srq.h"
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
	BURSTS = 4,		/* a round takes this many bursts at most */
	TIMERS = 256,		/* and expires this many timers */
	INBOX = 64,		/* and this many messages from other processes */
	LANE_BURST = 64,	/* and this many packets of neighbours */
	POLLS_PER_YIELD = 256,	/* about as many microseconds as a hand-over takes, tenfold */
	CLAIM_POLLS = 64,	/* polls without waiting for an event that make a program one that polls, */
	STEADY_POLLS = 4096,	/* even if it has left work to the progress thread before */
	WIRE_EVERY_US = 20,	/* pollers look at a wire that nobody seems to use */
	STREAM = 8,		/* packets taken and sent that are a stream, of which the next are awaited */
};

/* The progress thread awaits the next of a stream for so long before it sleeps: waking it costs more. */
#define LINGER (30 * VRB_USEC)

struct drive_stats vrb_drive_stats;

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
	lock_acquire(&vrb.drive);
	vrb_answer_owed(clock_now());
	vrb_qptab_remove(qp);
	timers_remove(vrb.timers, &qp->timer.timer);
	list_del(&qp->touched);
	list_del(&qp->raw.node);
	vrb_output_note_far(qp, false);
	vrb_steer_qp_removed(qp->wq.qpn);
	vrb_counters_add(&qp->ctx->dev->retired, roce_qp_counters(&qp->roce));
	lock_release(&vrb.drive);
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
	lock_acquire(&vrb.drive);
	vrb_qptab_for_each(remove_orphan, ctx);
	lock_release(&vrb.drive);
}

/* Input by memory */

/* Must hold vrb.drive. */
static bool take_lanes(uint64_t now, bool poller)
{
	struct lane_arrivals a = { .now = now };
	unsigned int n;

	if (!vrb.local)
		return false;
	list_init(&a.touched);
	n = local_recv(vrb.local, LANE_BURST, vrb_arrive_by_lane, &a);
	if (poller && n)
		vrb_answer_or_owe(&a.touched, n, true, now);
	else if (n || vrb_answer_due() != VRB_NEVER)
		vrb_answer(&a.touched, now);
	return n > 0;
}

/* Returns how many. Must hold vrb.drive. */
static unsigned int take_packets(uint64_t now, bool poller)
{
	static struct wire_pkt in[WIRE_BURST];
	struct list touched = { &touched, &touched };
	unsigned int n = WIRE_BURST, sum = 0;

	if (!vrb.wire)
		return 0;
	for (unsigned int i = 0; (i < BURSTS && n == WIRE_BURST) || vrb.wire->held; i++) {
		n = wire_recv(vrb.wire, in, WIRE_BURST);
		for (const struct wire_pkt *p = in; p < in + n; p++)
			vrb_arrive(&(struct arrival){ .path = &p->path,
						  .data = p->data,
						  .len = p->len,
						  .id_known = p->id_known,
						  .ip_id = p->ip_id },
			       &touched, now);
		sum += n;
		if (!n)
			break;
		vrb_answer_or_owe(&touched, n, poller, now);
	}
	if (!sum)
		vrb_answer_owed(now);
	vrb_steer_packets_seen();
	return sum;
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
	struct list touched = { &touched, &touched };
	struct net_path path;
	enum host_msg msg;
	size_t len;
	unsigned int packets = 0, messages = 0, i;

	for (i = 0; i < INBOX; i++) {
		msg = host_inbox_recv(vrb.host, &path, buf, &len);
		if (msg == HOST_NOTHING)
			break;
		if (msg == HOST_MESSAGE) {
			messages++;
			xrc_receive(buf, len, &touched, now);
		}
		if (msg != HOST_PACKET)
			continue;
		packets++;
		vrb_arrive(&(struct arrival){ .path = &path, .data = buf, .len = len, .handed = true },
		       &touched, now);
	}
	if (packets + messages) {
		inbox_busy_until = now + INBOX_LINGER;
		vrb_answer(&touched, now);
	}
	if (packets)
		vrb_steer_misled(packets, now);
	return i > 0;
}

/* Timers */

static void fail_user(struct vrb_qp *qp, void *arg)
{
	struct vrb_cq *cq = arg;

	if (qp->send_cq != cq && qp->recv_cq != cq && !(qp->srq && qp->srq->cq == cq) &&
	    !vrb_xrcd_uses_cq(qp->domain, cq))
		return;
	lock_acquire(&qp->lock);
	if (qp->wq.state != IBV_QPS_RESET && qp->wq.state != IBV_QPS_ERR) {
		qp->now = clock_now();
		roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
		vrb_qp_raise(qp, IBV_EVENT_QP_FATAL);
		vrb_output(qp, qp->now);
	}
	lock_release(&qp->lock);
}

static enum reason what_network_said(const struct net_addr *peer, uint64_t now)
{
	switch (trouble_about(&vrb.wire->trouble, peer, now)) {
	case 0:
		return REASON_NONE;
	case EMSGSIZE:
		return REASON_PATH_MTU;
	case ECONNREFUSED:
		return REASON_PATH_CLOSED;
	default:
		return REASON_PATH_REFUSED;
	}
}

static void expire_qp(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	lock_acquire(&qp->lock);
	qp->now = now;
	if (unlikely(roce_ack_overdue(&qp->roce, now)) && vrb_near_starves(qp, now))
		roce_ack_excuse(&qp->roce, now);
	if (time_reached(roce_next_timeout(&qp->roce), now)) {
		qp->wq.unreached = vrb.wire ? what_network_said(&qp->wq.path.dst, now) : REASON_NONE;
		roce_timeout(&qp->roce, now);
	}
	vrb_output_collect(qp, b, now);
	lock_release(&qp->lock);
}

/* Must hold vrb.drive. */
static bool run_timers(uint64_t now)
{
	struct vrb_burst *b;
	struct timer *t;
	bool any = false;

	if (likely(timers_next(vrb.timers) > now))
		return false;
	b = vrb_burst_own();
	if (!b)
		return false;
	for (unsigned int i = 0; i < TIMERS && (t = timers_pop(vrb.timers, now)); i++) {
		struct drive_timer *d = container_of(t, struct drive_timer, timer);
		struct vrb_cq *cq = container_of(d, struct vrb_cq, timer);

		any = true;
		if (!d->of_cq)
			expire_qp(container_of(d, struct vrb_qp, timer), b, now);
		else if (vrb_cq_timeout(cq, now)) {
			vrb_cq_fail_srqs(cq);
			vrb_qptab_for_each(fail_user, cq);
			vrb_deputy_fail_users(cq, now);
		}
	}
	vrb_burst_flush(b);
	return any;
}

int vrb_drive_add_cq(struct vrb_cq *cq)
{
	cq->timer.of_cq = true;
	return timers_add(vrb.timers, &cq->timer.timer);
}

void vrb_drive_defer(struct vrb_cq *cq, uint64_t due)
{
	if (timers_arm(vrb.timers, &cq->timer.timer, due))
		progress_hurry(vrb.progress, due);
}

void vrb_drive_forget(struct vrb_cq *cq)
{
	lock_acquire(&vrb.drive);
	timers_remove(vrb.timers, &cq->timer.timer);
	lock_release(&vrb.drive);
}

/* Who calls */

static unsigned int polls;	/* atomic hint: since the program last waited for an event */
static uint64_t wire_seen;	/* vrb.drive: when pollers looked at the wire last */

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
	if (n < CLAIM_POLLS || (n % STEADY_POLLS != 0 && progress_needed(vrb.progress)))
		return;
	/* In this order: the thread comes round once more, and looks at the lanes before it sleeps. */
	if (vrb.local)
		local_wake(vrb.local);
	progress_stand_back(vrb.progress);
}

void vrb_drive_blocks(void)
{
	store_relaxed(&polls, 0);
	vrb_answer_try_owed();
	if (vrb.local && !local_sleeps(vrb.local))
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
	if (neighbours == far && now - wire_seen < WIRE_EVERY_US * VRB_USEC)
		return false;
	wire_seen = now;
	if (!take_packets(now, true))
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

bool vrb_drive_poll(void)
{
	uint64_t now;
	bool any;

	progress_polled(vrb.progress);
	claim();
	if (!lock_try(&vrb.drive))
		return yielded(false);
	now = clock_now();
	vrb_answer_polled(now);
	any = take_lanes(now, true);
	any |= look_at_wire(now, any);
	if (unlikely(now < inbox_busy_until))
		any |= take_inbox(now);
	any |= vrb_raw_poll(now);
	any |= run_timers(now);
	lock_release(&vrb.drive);
	return yielded(any);
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

static bool on_wire(void *arg, int fd)
{
	uint64_t sent = load_relaxed(&vrb_drive_stats.sent_pkts);
	unsigned int packets;

	lock_acquire(&vrb.drive);
	wire_readable(vrb.wire, fd);
	packets = take_packets(clock_now(), false);
	lock_release(&vrb.drive);
	if (packets + load_relaxed(&vrb_drive_stats.sent_pkts) - sent >= STREAM)
		progress_linger(vrb.progress, clock_now() + LINGER);
	return packets;
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

/* What lies in the lanes comes first: an answer that is here already has not failed to come in time. */
static void on_deadline(void *arg, uint64_t now)
{
	lock_acquire(&vrb.drive);
	take_lanes(now, false);
	run_timers(now);
	if (time_reached(vrb_answer_due(), now))
		vrb_answer_owed(now);
	lock_release(&vrb.drive);
}

const struct progress_ops vrb_drive_progress_ops = {
	.rest = on_rest,
	.deadline = next_deadline,
	.expire = on_deadline,
};

static int watch(int fd, enum progress_kind kind, progress_ready_fn ready)
{
	return fd < 0 ? 0 : progress_watch(vrb.progress, fd, kind, ready, NULL);
}

int vrb_drive_start(void)
{
	int fds[WIRE_FDS];
	unsigned int n = vrb.wire ? wire_fds(vrb.wire, fds) : 0;
	int ret = watch(host_inbox_fd(vrb.host), PROGRESS_OWN, on_inbox);

	lock_acquire(&vrb.drive);
	vrb_steer_start();
	take_packets(clock_now(), false);	/* over loopback the probes are back already */
	lock_release(&vrb.drive);
	for (unsigned int i = 0; i < n && !ret; i++)
		ret = watch(fds[i], PROGRESS_SHARED, on_wire);
	if (ret)
		vrb_drive_stop();
	return ret;
}

void vrb_drive_stop(void)
{
	int fds[WIRE_FDS];
	unsigned int n = vrb.wire ? wire_fds(vrb.wire, fds) : 0;

	vrb_steer_stop();
	for (unsigned int i = 0; i < n; i++)
		progress_unwatch(vrb.progress, fds[i]);
	if (host_inbox_fd(vrb.host) >= 0)
		progress_unwatch(vrb.progress, host_inbox_fd(vrb.host));
	vrb_deputy_free_all();
	vrb_qptab_free();
}

/* The QPs of the parent stay in memory, unreachable; the timers and locks around them belong to threads that do not exist here. */
void vrb_drive_forget_all(void)
{
	vrb_qptab_forget();
	vrb_deputy_forget_all();
	vrb_afar_forget_all();
	vrb_xrcd_forget_all();
	vrb_answer_forget();
	vrb_burst_forget();
	vrb_raw_send_forget();
	vrb_mcast_forget();
}
