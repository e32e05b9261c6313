/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to queue pairs and back.
 *
 *	wire, inbox -> ICRC -> decode -> QP by number, path -> engine     a burst at a time, marking the QPs it touched
 *	touched QPs -> engine -> ICRC -> wire                             so that one ACK answers a burst
 *	timers that are due -> engine -> wire
 *
 * vrb.drive is held by whoever takes packets or expires timers, and while the table changes; so a QP found in the table lives until
 * vrb.drive is dropped.  Below it qp->lock, one QP at a time.  Output needs only qp->lock: each thread has a batch of its own.
 */
#include "core/drive.h"

#include <errno.h>
#include <sched.h>

#include "core/burst.h"
#include "core/context.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/mcast.h"
#include "core/near.h"
#include "core/port.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/steer.h"
#include "core/xrcd.h"
#include "host/host.h"
#include "roce/icrc.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"
#include "wire/wire.h"

enum {
	BURSTS = 4,		/* a round takes this many bursts at most */
	TIMERS = 256,		/* and expires this many timers */
	INBOX = 64,		/* and this many messages from other processes */
	LANE_BURST = 64,	/* and this many packets of neighbours */
	POLLS_PER_YIELD = 256,	/* about as many microseconds as a hand-over takes, tenfold */
	CLAIM_POLLS = 64,	/* polls without waiting for an event that make a program one that polls */
	WIRE_EVERY_US = 20,	/* pollers look at a wire that nobody seems to use */
	OWED_PACKETS = 4,	/* more at a time are a stream, whose sender waits for the ACK */
	GATHER = 32,		/* requests at most, */
	GATHER_LEN = 512,	/* not longer than this, */
	GATHER_MIN = 8,		/* once so many packets are in flight */
	OWED_POLLS = 4,		/* polls in a row that may put off an ACK */
	MIN_PACKET = 12 + ROCE_ICRC_LEN,
};

#define GATHER_POLLED (50 * VRB_USEC)
#define ACK_WAIT VRB_MSEC	/* an ACK is put off for this long at most */

struct drive_stats vrb_drive_stats;

static unsigned int far_qps;	/* atomic: QPs that expect packets from the wire */

static void count(uint64_t *counter, uint64_t n)
{
	fetch_add_relaxed(counter, n);
}

/* Output */

static void arm(struct vrb_qp *qp)
{
	uint64_t at = time_earlier(roce_next_timeout(&qp->roce), qp->near.retry);

	if (timers_arm(vrb.timers, &qp->timer.timer, at))
		progress_hurry(vrb.progress, at);
}

/* Pollers need not look at the wire while nobody uses it. Must hold qp->lock. */
static void note_far(struct vrb_qp *qp, bool far)
{
	if (likely(qp->far == far))
		return;
	qp->far = far;
	fetch_add_relaxed(&far_qps, far ? 1 : -1);
}

static void collect_far(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	bool datagrams = qp->wq.type == IBV_QPT_UD && vrb.local;
	const struct net_path *path;
	size_t len;

	note_far(qp, qp->wq.state >= IBV_QPS_RTR && qp->wq.state != IBV_QPS_ERR);
	while (!(datagrams && vrb_near_waits(qp, now)) &&
	       (len = roce_output(&qp->roce, vrb_burst_room(b), ROCE_MAX_PACKET, &path, now))) {
		if (!datagrams || !vrb_near_datagram(qp, path, vrb_burst_room(b), len, now))
			vrb_burst_seal(b, path, len, qp->wq.type != IBV_QPT_UD);
	}
}

/* Everything the QP has to say goes to its neighbour or into the batch. Must hold qp->lock. */
static void collect(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	qp->now = now;
	qp->gathers = false;
	if (vrb.local && vrb_near_collect(qp, now))
		note_far(qp, false);
	else
		collect_far(qp, b, now);
	qp->ibv.state = qp->wq.state;
	if (unlikely(vrb_near_stale(qp)))
		vrb_near_changed(qp);
	arm(qp);
}

void vrb_drive_output(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();

	if (!b) {
		log_limited(LOG_CORE, LOG_ERROR, "out of memory: QP 0x%x cannot send", qp->wq.qpn);
		return;
	}
	collect(qp, b, now);
	vrb_burst_flush(b);
}

/* Input */

/* A connected QP hears its peer only; a datagram must have come to an address of the QP's own port. Must hold qp->lock. */
static bool path_matches(struct vrb_qp *qp, const struct net_path *p)
{
	const struct wq_qp *wq = &qp->wq;

	if (wq->type == IBV_QPT_UD)
		return net_is_multicast(&p->dst) ||
		       vrb_port_find_gid(&qp->ctx->dev->port, &p->dst) >= 0;
	if (net_addr_equal(&p->src, &wq->path.dst) && net_addr_equal(&p->dst, &wq->path.src))
		return true;
	return net_addr_equal(&p->src, &wq->alt_path.dst) &&
	       net_addr_equal(&p->dst, &wq->alt_path.src);
}

/*
 * QPs whose ACK waits for a packet of their own to travel with: the answer to a request is often
 * another request, and a program that has just been given a completion shall not wait for our system
 * call.  They are answered at the next poll, by the progress thread after ACK_WAIT, or before
 * anything that would make that impossible.  Under vrb.drive.
 */
static struct list owed = { &owed, &owed };
static uint64_t owed_due = VRB_NEVER;	/* atomic; written under vrb.drive */
static unsigned int owed_polls;		/* for how many polls they have waited */

static void owe_until(uint64_t at)
{
	if (load_relaxed(&owed_due) != VRB_NEVER)
		return;
	store_relaxed(&owed_due, at);
	progress_hurry(vrb.progress, at);
}

static uint64_t polled_at;	/* atomic: the last poll */

/*
 * Does it pay to let requests gather?  If there is a stream of small ones and somebody polls, so that
 * they need not wait for long.  Must hold qp->lock.
 */
static bool may_gather(const struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t waiting = sq->head - sq->next;

	return qp->far && qp->wq.state == IBV_QPS_RTS && waiting && waiting < GATHER &&
	       sq_wqe(sq, sq->head - 1)->length <= GATHER_LEN &&
	       roce_in_flight(&qp->roce) >= GATHER_MIN &&
	       now - load_relaxed(&polled_at) < GATHER_POLLED;
}

/* The order of locks is against it, so the attempt may fail. Must hold qp->lock. */
static bool gather(struct vrb_qp *qp, uint64_t now)
{
	if (qp->gathers)
		return true;
	if (!lock_try(&vrb.drive))
		return false;
	qp->gathers = true;
	if (list_empty(&qp->touched))
		list_add_tail(&owed, &qp->touched);
	owe_until(now + ACK_WAIT);
	lock_release(&vrb.drive);
	return true;
}

void vrb_drive_posted(struct vrb_qp *qp, uint64_t now)
{
	if (!may_gather(qp, now) || !gather(qp, now))
		vrb_drive_output(qp, now);
}

/* Must hold qp->lock. */
static void deliver(struct vrb_qp *qp, const struct roce_pkt *pkt, struct list *touched,
		    uint64_t now)
{
	qp->now = now;
	if (path_matches(qp, &pkt->path)) {
		/* IBTA Annex A14: an XRC request acts in the protection domain of the SRQ it names. */
		if (qp->xrcd)
			qp->wq.pdn = vrb_xrcd_srq_pdn(qp->xrcd, pkt->xrc_srqn);
		roce_input(&qp->roce, pkt, now);
		if (list_empty(&qp->touched))
			list_add_tail(touched, &qp->touched);
	} else {
		count(&vrb_drive_stats.wrong_path, 1);
	}
}

/* The QP is another process's, or nobody's. */
static void hand_over(const struct roce_pkt *pkt, const uint8_t *data, size_t len)
{
	switch (host_hand(vrb.host, pkt->bth.dest_qpn, &pkt->path, data, len)) {
	case 0:
		count(&vrb_drive_stats.handed, 1);
		break;
	case ENOENT:
		count(&vrb_drive_stats.unknown_qp, 1);
		break;
	default:
		count(&vrb_drive_stats.hand_lost, 1);
	}
}

struct multicast {
	const struct roce_pkt *pkt;
	struct list *touched;
	uint64_t now;
};

/* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: datagrams of this process, sent from this port. Must hold vrb.drive. */
static bool own_echo(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	return (qp->init.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) &&
	       vrb_qptab_find(pkt->deth.src_qpn) &&
	       vrb_port_find_gid(&qp->ctx->dev->port, &pkt->path.src) >= 0;
}

static void deliver_copy(struct vrb_qp *qp, void *arg)
{
	const struct multicast *m = arg;

	if (own_echo(qp, m->pkt))
		return;
	lock_acquire(&qp->lock);
	deliver(qp, m->pkt, m->touched, m->now);
	lock_release(&qp->lock);
}

/* A datagram to a group: a copy for every QP attached to it. Each process gets its own from the kernel. */
static void deliver_multicast(const struct roce_pkt *pkt, struct list *touched, uint64_t now)
{
	struct multicast m = { pkt, touched, now };

	if (net_is_multicast(&pkt->path.dst))
		vrb_mcast_for_each(&pkt->path.dst, pkt->path.ifindex, deliver_copy, &m);
}

struct arrival {
	const struct net_path *path;
	const uint8_t *data;
	size_t len;
	bool id_known;
	uint16_t ip_id;
	bool handed;		/* by another process: goes no further */
};

static bool intact(const struct arrival *a)
{
	if (a->len < MIN_PACKET || a->len > WIRE_MAX_PACKET) {
		count(&vrb_drive_stats.malformed, 1);
		return false;
	}
	if (roce_icrc_check(a->path, a->id_known, a->ip_id, a->data, a->len) == ROCE_ICRC_BAD) {
		count(&vrb_drive_stats.icrc_errors, 1);
		return false;
	}
	return true;
}

static void arrive(const struct arrival *a, struct list *touched, uint64_t now)
{
	struct roce_pkt pkt;
	struct vrb_qp *qp;

	count(&vrb_drive_stats.rcvd_pkts, 1);
	if (!intact(a))
		return;
	if (roce_decode(&pkt, a->data, a->len) != ROCE_DECODED) {
		count(&vrb_drive_stats.malformed, 1);
		return;
	}
	pkt.path = *a->path;
	if (pkt.bth.dest_qpn == VRB_MCAST_QPN) {
		deliver_multicast(&pkt, touched, now);
		return;
	}
	qp = vrb_qptab_find(pkt.bth.dest_qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		deliver(qp, &pkt, touched, now);
		lock_release(&qp->lock);
	} else if (!a->handed) {
		hand_over(&pkt, a->data, a->len);
	} else {
		count(&vrb_drive_stats.unknown_qp, 1);
	}
}

/* Those of `touched`, and those that are owed. */
static void answer_all(struct list *touched, struct vrb_burst *b, uint64_t now)
{
	while (!list_empty(touched)) {
		struct vrb_qp *qp = list_entry(touched->next, struct vrb_qp, touched);

		list_del(&qp->touched);
		if (!b)
			continue;
		lock_acquire(&qp->lock);
		collect(qp, b, now);
		lock_release(&qp->lock);
	}
}

/* Lets the QPs answer that a burst has touched. Must hold vrb.drive. */
static void answer(struct list *touched, uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();

	answer_all(touched, b, now);
	answer_all(&owed, b, now);
	owed_polls = 0;
	if (load_relaxed(&owed_due) != VRB_NEVER)
		store_relaxed(&owed_due, VRB_NEVER);
	if (b)
		vrb_burst_flush(b);
}

static bool owes_ack_only(struct vrb_qp *qp)
{
	bool ret;

	lock_acquire(&qp->lock);
	ret = roce_owes_ack_only(&qp->roce);
	lock_release(&qp->lock);
	return ret;
}

/* May the answers to `packets` that a poller took wait for its next poll? Must hold vrb.drive. */
static bool may_owe(const struct list *touched, unsigned int packets)
{
	const struct list *pos;

	if (packets > OWED_PACKETS || owed_polls >= OWED_POLLS)
		return false;
	list_for_each(pos, touched)
		if (!owes_ack_only(list_entry(pos, struct vrb_qp, touched)))
			return false;
	return true;
}

static void owe(struct list *touched, uint64_t now)
{
	while (!list_empty(touched)) {
		struct list *node = touched->next;

		list_del(node);
		list_add_tail(&owed, node);
	}
	owed_polls++;
	owe_until(now + ACK_WAIT);
}

/* ACKs that wait leave now. Must hold vrb.drive. */
static void pay(uint64_t now)
{
	if (load_relaxed(&owed_due) != VRB_NEVER)
		answer(&owed, now);
}

/* The end of the process is the end of polls. A thread that drives right now pays, or was killed by exit. */
static __attribute__((destructor)) void pay_at_exit(void)
{
	if (load_relaxed(&owed_due) == VRB_NEVER || !lock_try(&vrb.drive))
		return;
	pay(clock_now());
	lock_release(&vrb.drive);
}

/* Queue pairs come and go */

int vrb_drive_insert(struct vrb_qp *qp)
{
	int ret = timers_add(vrb.timers, &qp->timer.timer);

	if (ret)
		return ret;
	lock_acquire(&vrb.drive);
	ret = vrb_qptab_add(qp);
	if (!ret)
		vrb_steer_qp_added(qp->wq.qpn);
	lock_release(&vrb.drive);
	if (ret)
		timers_remove(vrb.timers, &qp->timer.timer);
	return ret;
}

void vrb_drive_remove(struct vrb_qp *qp)
{
	lock_acquire(&vrb.drive);
	pay(clock_now());
	vrb_qptab_remove(qp);
	timers_remove(vrb.timers, &qp->timer.timer);
	list_del(&qp->touched);
	note_far(qp, false);
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
	lock_acquire(&qp->lock);
	note_far(qp, false);
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

struct lane_arrivals {
	struct list touched;
	uint64_t now;
};

/*
 * A connected QP's neighbour speaks for its address: the alternate one when it says that it has
 * migrated. A datagram brings its own. Must hold qp->lock.
 */
static bool fill_path(struct vrb_qp *qp, const struct local_pkt *in, struct roce_pkt *pkt)
{
	bool migrated = pkt->bth.mig_req && qp->wq.mig_state == IBV_MIG_ARMED;
	const struct net_path *own = migrated ? &qp->wq.alt_path : &qp->wq.path;

	if (in->path) {
		pkt->path = *in->path;
		return true;
	}
	pkt->path = *own;
	pkt->path.src = own->dst;
	pkt->path.dst = own->src;
	return vrb_near_believes(qp, in->slot);
}

static void arrive_by_lane(void *arg, const struct local_pkt *in)
{
	struct lane_arrivals *a = arg;
	struct roce_pkt pkt;
	struct vrb_qp *qp;

	count(&vrb_drive_stats.rcvd_pkts, 1);
	if (roce_decode(&pkt, in->data, in->len) != ROCE_DECODED) {
		count(&vrb_drive_stats.malformed, 1);
		return;
	}
	if (pkt.bth.dest_qpn == VRB_MCAST_QPN && in->path) {
		pkt.path = *in->path;
		deliver_multicast(&pkt, &a->touched, a->now);
		return;
	}
	qp = vrb_qptab_find(pkt.bth.dest_qpn);
	if (!qp) {
		count(&vrb_drive_stats.unknown_qp, 1);
		return;
	}
	if (in->pull.num_seg) {
		pkt.pull = &in->pull;
		pkt.payload_len = in->payload;
	}
	lock_acquire(&qp->lock);
	if (fill_path(qp, in, &pkt))
		deliver(qp, &pkt, &a->touched, a->now);
	else
		count(&vrb_drive_stats.wrong_path, 1);
	lock_release(&qp->lock);
}

/* Must hold vrb.drive. */
static bool take_lanes(uint64_t now)
{
	struct lane_arrivals a = { .now = now };
	bool any;

	if (!vrb.local)
		return false;
	list_init(&a.touched);
	any = local_recv(vrb.local, LANE_BURST, arrive_by_lane, &a) > 0;
	answer(&a.touched, now);
	return any;
}

/* Must hold vrb.drive. */
static bool take_packets(uint64_t now, bool poller)
{
	static struct wire_pkt in[WIRE_BURST];
	struct list touched = { &touched, &touched };
	unsigned int n = WIRE_BURST;
	bool any = false;

	if (!vrb.wire)
		return false;
	for (unsigned int i = 0; (i < BURSTS && n == WIRE_BURST) || vrb.wire->held; i++) {
		n = wire_recv(vrb.wire, in, WIRE_BURST);
		for (const struct wire_pkt *p = in; p < in + n; p++)
			arrive(&(struct arrival){ .path = &p->path,
						  .data = p->data,
						  .len = p->len,
						  .id_known = p->id_known,
						  .ip_id = p->ip_id },
			       &touched, now);
		any |= n > 0;
		if (!n)
			break;
		if (poller && may_owe(&touched, n))
			owe(&touched, now);
		else
			answer(&touched, now);
	}
	if (!any)
		pay(now);
	vrb_steer_packets_seen();
	return any;
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
	unsigned int packets = 0, i;

	for (i = 0; i < INBOX; i++) {
		msg = host_inbox_recv(vrb.host, &path, buf, &len);
		if (msg == HOST_NOTHING)
			break;
		if (msg != HOST_PACKET)
			continue;
		packets++;
		arrive(&(struct arrival){ .path = &path, .data = buf, .len = len, .handed = true },
		       &touched, now);
	}
	if (packets) {
		inbox_busy_until = now + INBOX_LINGER;
		answer(&touched, now);
		vrb_steer_misled(packets, now);
	}
	return i > 0;
}

/* Timers */

static void fail_user(struct vrb_qp *qp, void *arg)
{
	struct vrb_cq *cq = arg;

	if (qp->send_cq != cq && qp->recv_cq != cq && !(qp->xrcd && vrb_xrcd_uses_cq(qp->xrcd, cq)))
		return;
	lock_acquire(&qp->lock);
	if (qp->wq.state != IBV_QPS_RESET && qp->wq.state != IBV_QPS_ERR) {
		qp->now = clock_now();
		roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
		vrb_event_qp(&qp->ibv, IBV_EVENT_QP_FATAL);
		vrb_drive_output(qp, qp->now);
	}
	lock_release(&qp->lock);
}

static void expire_qp(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	lock_acquire(&qp->lock);
	qp->now = now;
	if (time_reached(roce_next_timeout(&qp->roce), now))
		roce_timeout(&qp->roce, now);
	collect(qp, b, now);
	lock_release(&qp->lock);
}

/* Must hold vrb.drive. */
static bool run_timers(uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();
	struct timer *t;
	bool any = false;

	if (likely(timers_next(vrb.timers) > now) || !b)
		return false;
	for (unsigned int i = 0; i < TIMERS && (t = timers_pop(vrb.timers, now)); i++) {
		struct drive_timer *d = container_of(t, struct drive_timer, timer);
		struct vrb_cq *cq = container_of(d, struct vrb_cq, timer);

		any = true;
		if (!d->of_cq)
			expire_qp(container_of(d, struct vrb_qp, timer), b, now);
		else if (vrb_cq_timeout(cq, now))
			vrb_qptab_for_each(fail_user, cq);
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

/*
 * A program that polls steadily takes over from the sleeping progress thread: neighbours need not wake us any more.  The thread stands
 * back, and sleeps again once the polling has stopped.
 */
static void claim(void)
{
	if (likely(!local_sleeps(vrb.local)) || fetch_add_relaxed(&polls, 1) < CLAIM_POLLS)
		return;
	local_wake(vrb.local);
	progress_stand_back(vrb.progress);
}

void vrb_drive_blocks(void)
{
	store_relaxed(&polls, 0);
	if (load_relaxed(&owed_due) != VRB_NEVER && lock_try(&vrb.drive)) {
		pay(clock_now());
		lock_release(&vrb.drive);
	}
	if (vrb.local && !local_sleeps(vrb.local))
		progress_wake(vrb.progress);
}

/* Must hold vrb.drive. */
static bool look_at_wire(uint64_t now)
{
	if (!load_relaxed(&far_qps) && now - wire_seen < WIRE_EVERY_US * VRB_USEC)
		return false;
	wire_seen = now;
	return take_packets(now, true);
}

/*
 * Where more programs poll than there are processors, the one that has what we wait for may be waiting for our processor: a thread that
 * has polled in vain for some time offers it.
 */
static bool yielded(bool any)
{
	static __thread unsigned int in_vain;

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
	if (vrb.local)
		claim();
	if (!lock_try(&vrb.drive))
		return yielded(false);
	now = clock_now();
	store_relaxed(&polled_at, now);
	any = take_lanes(now);
	if (!any)
		any = look_at_wire(now);
	if (unlikely(now < inbox_busy_until))
		any |= take_inbox(now);
	any |= run_timers(now);
	lock_release(&vrb.drive);
	return yielded(any);
}

static enum progress_rest on_rest(void *arg)
{
	enum progress_rest rest = PROGRESS_SLEEP;

	if (!vrb.local)
		return PROGRESS_SLEEP;
	if (!lock_try(&vrb.drive))
		return PROGRESS_BUSY;
	if (take_lanes(clock_now()) || !local_sleep(vrb.local))
		rest = PROGRESS_WORKED;
	lock_release(&vrb.drive);
	return rest;
}

static bool on_wire(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.drive);
	wire_readable(vrb.wire, fd);
	any = take_packets(clock_now(), false);
	lock_release(&vrb.drive);
	return any;
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
	return time_earlier(timers_next(vrb.timers), load_relaxed(&owed_due));
}

static void on_deadline(void *arg, uint64_t now)
{
	lock_acquire(&vrb.drive);
	run_timers(now);
	if (time_reached(load_relaxed(&owed_due), now))
		pay(now);
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
	vrb_qptab_free();
}

/* The QPs of the parent stay in memory, unreachable; the timers and locks around them belong to threads that do not exist here. */
void vrb_drive_forget_all(void)
{
	vrb_qptab_forget();
	list_init(&owed);
	store_relaxed(&owed_due, VRB_NEVER);
	vrb_burst_forget();
	vrb_mcast_forget();
}
