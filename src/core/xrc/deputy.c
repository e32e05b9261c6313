/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Life of a deputy, by what its home says:
 *
 *	LEND  --> on duty: the state is here; each burst of requests ends with an answer that brings it home
 *	RECALL --> off duty: it holds no receive, and is kept for the next loan
 *	the home is dead --> in error, what it held is flushed; freed by the next sweep
 *
 * The list of deputies is under vrb.drive, and so is their coming and going.
 */
#include "core/xrc/deputy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/arrive.h"
#include "core/cq.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/xrc/loan.h"
#include "core/xrc/xrcd.h"
#include "core/xrc/xrcmsg.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/compiler.h"

#define WATCH      (100 * VRB_MSEC)	/* a deputy in the middle of a message looks whether its home lives */
#define TELL_AGAIN VRB_MSEC

struct vrb_deputy {
	struct vrb_qp qp;
	struct list node;
	struct list same;	/* those whose numbers fall into the same bucket */
	struct xrc_party home;
	struct xrc_key domain;	/* opened here or not */
	bool on_duty;
	uint32_t epoch;
	uint32_t seq;		/* of the last request */
	uint64_t watch;
	uint8_t state[ROCE_SNAPSHOT_MAX];	/* on its way home; too large for a stack. qp.lock */
};

enum { BUCKETS = 256 };

static struct list deputies = { &deputies, &deputies };
static struct list buckets[BUCKETS];	/* of all of them, by number */

/* A QP that can move has a block of 256 numbers for itself, so it is the block that tells them apart. */
static struct list *bucket(uint32_t qpn)
{
	struct list *b = &buckets[qpn / 256 % BUCKETS];

	if (!b->next)
		list_init(b);
	return b;
}

static struct vrb_deputy *of(struct vrb_qp *qp)
{
	return container_of(qp, struct vrb_deputy, qp);
}

static struct vrb_deputy *find(const struct xrc_msg *m)
{
	struct list *pos;

	list_for_each (pos, bucket(m->head.qpn)) {
		struct vrb_deputy *d = list_entry(pos, struct vrb_deputy, same);

		if (d->qp.wq.qpn == m->head.qpn && xrc_party_sent(&d->home, m))
			return d;
	}
	return NULL;
}

/* Must hold vrb.drive. */
static void free_deputy(struct vrb_deputy *d)
{
	list_del(&d->node);
	list_del(&d->same);
	list_del(&d->qp.touched);
	timers_remove(vrb.timers, &d->qp.timer.timer);
	vrb_qp_drop_taken(&d->qp);
	xrc_party_drop(&d->home);
	lock_destroy(&d->qp.lock);
	free(d->qp.rd_atomic);
	free(d->qp.copy);
	free(d);
}

static struct vrb_deputy *new_deputy(const struct xrc_msg *m)
{
	struct vrb_deputy *d = calloc(1, sizeof(*d));
	struct vrb_qp *qp;

	if (!d)
		return NULL;
	qp = &d->qp;
	qp->copy = vrb_qp_any_copy();
	if (!qp->copy || timers_add(vrb.timers, &qp->timer.timer))
		goto free_memory;
	if (!xrc_party_find(&d->home, m->head.slot) || !xrc_party_sent(&d->home, m))
		goto remove_timer;
	qp->target = qp;
	qp->deputy = true;
	qp->wq.ops = &vrb_qp_ops;
	qp->wq.type = IBV_QPT_XRC_RECV;
	qp->wq.qpn = m->head.qpn;
	qp->near.retry = d->watch = VRB_NEVER;
	lock_init(&qp->lock);
	list_init(&qp->touched);
	list_init(&qp->openers);
	list_init(&qp->handle_list);
	roce_qp_init(&qp->roce, &qp->wq, NULL, 0);
	list_add_tail(&deputies, &d->node);
	list_add_tail(bucket(qp->wq.qpn), &d->same);
	return d;
remove_timer:
	timers_remove(vrb.timers, &qp->timer.timer);
	xrc_party_drop(&d->home);
free_memory:
	free(qp->copy);
	free(d);
	return NULL;
}

/* Must hold qp->lock. Forgets what it was doing, without a completion. */
static void retire(struct vrb_deputy *d)
{
	vrb_qp_drop_taken(&d->qp);
	d->qp.roce.resp.wqe = NULL;
	d->qp.roce.resp.msg = ROCE_MSG_NONE;
	d->on_duty = false;
	d->watch = VRB_NEVER;
}

/* A QP in error flushes what it holds; its events are raised at home. */
static void take_recall(struct vrb_deputy *d, const struct xrc_msg *m, uint64_t now)
{
	d->on_duty = false;
	d->qp.now = now;
	if (m->head.seq == IBV_QPS_ERR)
		roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	retire(d);
}

static void take_loan(struct vrb_deputy *d, const struct xrc_msg *m)
{
	struct vrb_qp *qp = &d->qp;
	struct xrc_config c;

	retire(d);
	if (m->head.body != sizeof(c))
		return;
	memcpy(&c, m->body, sizeof(c));
	if (!vrb_loan_config_ok(&c) || !vrb_loan_make_resources(qp, c.max_dest_rd_atomic))
		return;
	vrb_loan_configure(qp, &c);
	qp->told = false;
	d->domain = c.domain;
	qp->domain = vrb_xrcd_find_domain(&d->domain);
	roce_qp_init(&qp->roce, &qp->wq, qp->rd_atomic, qp->rd_atomic_slots);
	if (!roce_snapshot_restore(&qp->roce, m->state, m->head.state) ||
	    qp->roce.resp.msg != ROCE_MSG_NONE)
		return;
	d->epoch = m->head.epoch;
	d->seq = 0;
	d->on_duty = true;
}

static void take_config(struct vrb_deputy *d, const struct xrc_msg *m)
{
	struct xrc_config c;

	if (m->head.body != sizeof(c))
		return;
	memcpy(&c, m->body, sizeof(c));
	if (vrb_loan_config_ok(&c) && d->qp.wq.state != IBV_QPS_ERR &&
	    c.max_dest_rd_atomic <= d->qp.rd_atomic_slots)
		vrb_loan_configure(&d->qp, &c);
}

/* Path, MigReq and the peer's identity have been looked at by the home. */
static void take_request(struct vrb_deputy *d, const struct xrc_msg *m, uint64_t now)
{
	struct wq_seg seg[XRC_SEGS];
	struct vrb_qp *qp = &d->qp;
	struct xrc_request r;
	struct wq_pull pull;
	struct roce_pkt pkt;

	if (m->head.body < sizeof(r))
		return;
	memcpy(&r, m->body, sizeof(r));
	if (r.num_seg > XRC_SEGS || m->head.body != sizeof(r) + r.num_seg * sizeof(seg[0]))
		return;
	d->seq = m->head.seq;
	if (roce_decode(&pkt, m->packet, m->head.packet) != ROCE_DECODED)
		return;
	pkt.path = r.path;
	pkt.bth.mig_req = false;
	if (r.num_seg) {
		memcpy(seg, m->body + sizeof(r), r.num_seg * sizeof(seg[0]));
		pull = (struct wq_pull){ .pid = r.pid, .num_seg = r.num_seg, .seg = seg,
					 .identity = r.identity, .incarnation = r.incarnation };
		pkt.pull = &pull;
		pkt.payload_len = r.payload;
	}
	qp->now = now;
	if (!qp->domain)
		qp->domain = vrb_xrcd_find_domain(&d->domain);
	qp->wq.pdn = qp->wq.recv_pdn = vrb_xrcd_srq_pdn(qp->domain, pkt.xrc_srqn);
	roce_input(&qp->roce, &pkt, now);
}

/* Must hold vrb.drive. */
static void sweep(void)
{
	uint64_t now = clock_now();
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &deputies) {
		struct vrb_deputy *d = list_entry(pos, struct vrb_deputy, node);

		if (xrc_party_alive(&d->home, now))
			continue;
		lock_acquire(&d->qp.lock);
		d->qp.now = now;
		if (d->on_duty)
			roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_PEER_DIED);
		lock_release(&d->qp.lock);
		free_deputy(d);
	}
}

void vrb_deputy_receive(const struct xrc_msg *m, struct vrb_receiver *r, uint64_t now)
{
	struct vrb_deputy *d = find(m);

	if (!d && m->head.kind == XRC_LEND) {
		sweep();
		d = new_deputy(m);
	}
	if (!d)
		return;
	lock_acquire(&d->qp.lock);
	if (m->head.kind == XRC_LEND) {
		take_loan(d, m);
	} else if (d->on_duty && m->head.epoch == d->epoch) {
		if (m->head.kind == XRC_RECALL)
			take_recall(d, m, now);
		else if (m->head.kind == XRC_CONFIG)
			take_config(d, m);
		else
			take_request(d, m, now);
		vrb_touch(&d->qp, OUTPUT_NOW, r);
	}
	lock_release(&d->qp.lock);
}

static int answer(struct vrb_deputy *d, bool with_state, bool final, const uint8_t *packet,
		  size_t len)
{
	struct xrc_head head = { .kind = XRC_ANSWER, .final = final, .qpn = d->qp.wq.qpn,
				 .epoch = d->epoch, .seq = d->seq };
	size_t n = with_state ? roce_snapshot_take(&d->qp.roce, d->state) : 0;
	bool together = d->home.peer || n + len <= HOST_PACKET_MAX - sizeof(head);
	int err = 0;

	if (!together) {
		head.final = false;
		err = xrc_tell(&d->home, &head, NULL, 0, d->state, n, NULL, 0);
		head.final = final;
	}
	return err ? err : xrc_tell(&d->home, &head, NULL, 0, d->state, together ? n : 0, packet, len);
}

/* In the middle of a message somebody must see that the rest will not come. */
static void watch_home(struct vrb_deputy *d, uint64_t now)
{
	struct vrb_qp *qp = &d->qp;

	if (qp->roce.resp.msg == ROCE_MSG_NONE) {
		d->watch = VRB_NEVER;
	} else if (d->watch == VRB_NEVER) {
		d->watch = time_after(now, WATCH);
	} else if (time_reached(d->watch, now)) {
		d->watch = time_after(now, WATCH);
		if (!xrc_party_alive(&d->home, now)) {
			roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_PEER_DIED);
			retire(d);
		}
	}
}

static void arm(struct vrb_deputy *d)
{
	uint64_t at = time_earlier(time_earlier(d->watch, d->qp.near.retry),
				   roce_next_timeout(&d->qp.roce));

	if (timers_arm(vrb.timers, &d->qp.timer.timer, at))
		progress_hurry(vrb.progress, at);
}

/*
 * Answers wait for room; what does not get through by the inbox is lost but for the state, which is told again.  The NAK that the QP dies with
 * is part of that, and said by the home.
 */
static void speak(struct vrb_deputy *d, uint64_t now)
{
	struct vrb_qp *qp = &d->qp;
	uint8_t packet[ROCE_MAX_PACKET];
	const struct net_path *path;
	bool first = true, last, more;
	size_t len;

	qp->near.retry = VRB_NEVER;
	do {
		if (!xrc_party_room(&d->home)) {
			qp->near.retry = time_after(now, TELL_AGAIN);
			return;
		}
		last = roce_snapshot_has_last_word(&qp->roce);
		len = last ? 0 : roce_output(&qp->roce, packet, sizeof(packet), &path, now);
		/* Without a packet, answers to a READ are paced: the rest follows in its time. */
		more = !last && roce_snapshot_speaks(&qp->roce);
		if (answer(d, first || !more, !more, packet, len) == EAGAIN) {
			qp->near.retry = time_after(now, TELL_AGAIN);
			continue;
		}
		if (last)
			roce_snapshot_passed_on(&qp->roce);
		first = false;
	} while (len && more);
}

void vrb_deputy_collect(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_deputy *d = of(qp);

	qp->now = now;
	if (d->on_duty)
		speak(d, now);
	if (d->on_duty)
		watch_home(d, now);
	arm(d);
}

void vrb_deputy_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct vrb_deputy *d = of(qp);
	struct xrc_head head = { .kind = XRC_EVENT, .qpn = qp->wq.qpn, .epoch = d->epoch };
	struct xrc_event e = { type, qp->wq.fault };

	if (d->on_duty)
		xrc_tell(&d->home, &head, &e, sizeof(e), NULL, 0, NULL, 0);
}

void vrb_deputy_fail_users(struct vrb_cq *cq, uint64_t now)
{
	struct list *pos;

	list_for_each (pos, &deputies) {
		struct vrb_deputy *d = list_entry(pos, struct vrb_deputy, node);

		lock_acquire(&d->qp.lock);
		if (d->on_duty && d->qp.wq.state != IBV_QPS_ERR &&
		    vrb_xrcd_uses_cq(d->qp.domain, cq)) {
			d->qp.now = now;
			roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
			vrb_deputy_event(&d->qp, IBV_EVENT_QP_FATAL);
			vrb_deputy_collect(&d->qp, now);
		}
		lock_release(&d->qp.lock);
	}
}

void vrb_deputy_forget_domain(struct xrc_domain *domain)
{
	struct list *pos;

	lock_acquire(&vrb.drive);
	list_for_each (pos, &deputies) {
		struct vrb_deputy *d = list_entry(pos, struct vrb_deputy, node);

		lock_acquire(&d->qp.lock);
		if (d->qp.domain == domain)
			d->qp.domain = NULL;
		lock_release(&d->qp.lock);
	}
	lock_release(&vrb.drive);
}

void vrb_deputy_sweep(void)
{
	lock_acquire(&vrb.drive);
	sweep();
	lock_release(&vrb.drive);
}

void vrb_deputy_free_all(void)
{
	while (!list_empty(&deputies))
		free_deputy(list_entry(deputies.next, struct vrb_deputy, node));
}

void vrb_deputy_forget_all(void)
{
	memset(buckets, 0, sizeof(buckets));
	list_init(&deputies);
}
