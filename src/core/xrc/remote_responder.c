/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * States of a remote responder:
 *
 *	DELEGATE --> active: the state is here; answers return it to the home
 *	REVOKE   --> idle: holds no receive WQE; kept for the next delegation
 *	the home died --> error: its receive WQE is flushed; freed by the next sweep
 *
 * vrb.poll_lock protects the list of responders, their creation and their destruction.
 */
#include "core/xrc/remote_responder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/limits.h"
#include "core/base/ring.h"
#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/progress/timeouts.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/tx/transport_ops.h"
#include "core/tx/tx_sched.h"
#include "core/xrc/delegation.h"
#include "core/xrc/msg.h"
#include "host/host.h"
#include "local/local.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/compiler.h"

/* interval of the check that the home is alive, while a message is in progress */
#define WATCH      (100 * VRB_MSEC)

/* between attempts to send an answer for which there was no room; doubles each time */
#define PAUSE_FIRST VRB_MSEC
#define PAUSE_LAST  (64 * VRB_MSEC)

struct vrb_responder {
	struct vrb_qp qp;
	struct list node;
	struct list same;	/* responders in the same bucket */
	struct xrc_peer home;
	struct xrc_key domain;	/* not necessarily open in this process */
	bool active;
	uint32_t epoch;
	uint32_t seq;		/* of the last request */
	uint64_t watch;		/* when to check the home next */
	bool refused;		/* the packet is an answer for which there was no room */
	uint64_t pause;		/* before the next attempt; 0: the last one found room */
	size_t packet_len;
	uint8_t packet[ROCE_MAX_PACKET];
	/* buffer for the state to send; too large for the stack. Under qp.lock */
	uint8_t state[ROCE_SNAPSHOT_MAX];
};

enum { BUCKETS = 256 };

static struct list responders = { &responders, &responders };
static struct list buckets[BUCKETS];	/* all responders, hashed by QP number */

/* A QP that can move has a block of 256 numbers to itself, so hash the block number. */
static struct list *bucket(uint32_t qpn)
{
	struct list *b = &buckets[qpn / 256 % BUCKETS];

	if (!b->next)
		list_init(b);
	return b;
}

static struct vrb_responder *of(struct vrb_qp *qp)
{
	return container_of(qp, struct vrb_responder, qp);
}

static struct vrb_responder *find(const struct xrc_msg *m)
{
	struct list *pos;

	list_for_each (pos, bucket(m->head.qpn)) {
		struct vrb_responder *d = list_entry(pos, struct vrb_responder, same);

		if (d->qp.wq.qpn == m->head.qpn && xrc_peer_sent(&d->home, m))
			return d;
	}
	return NULL;
}

/* Must hold vrb.poll_lock. */
static void free_responder(struct vrb_responder *d)
{
	list_del(&d->node);
	list_del(&d->same);
	list_del(&d->qp.sched.node);
	timers_remove(vrb.timers, &d->qp.timer.timer);
	vrb_qp_drop_wqe(&d->qp);
	xrc_peer_drop(&d->home);
	free(d->qp.recv.srq_wqe);
	vrb_qp_fini(&d->qp);
	free(d);
}

static void send_to_home(struct vrb_qp *qp, uint64_t now);
static void raise_at_home(struct vrb_qp *qp, enum ibv_event_type type);

static const struct vrb_qp_hooks responder_hooks = {
	.transmit = send_to_home,
	.event = raise_at_home,
};

static struct vrb_responder *new_responder(const struct xrc_msg *m)
{
	struct vrb_responder *d = calloc(1, sizeof(*d));
	struct vrb_qp *qp;

	if (!d)
		return NULL;
	qp = &d->qp;
	vrb_qp_init(qp, IBV_QPT_XRC_RECV, &vrb_transport_ops);
	qp->config.hooks = &responder_hooks;
	qp->wq.qpn = m->head.qpn;
	d->watch = VRB_NEVER;
	/* The requester chooses the SRQ: allocate room for a WQE of any. */
	qp->recv.srq_wqe = malloc(recv_stride(vrb_device_limits.orig_attr.max_srq_sge));
	if (!qp->recv.srq_wqe || vrb_timer_add(&qp->timer, vrb_timeout_qp))
		goto free_memory;
	if (!xrc_peer_find(&d->home, m->head.slot) || !xrc_peer_sent(&d->home, m))
		goto remove_timer;
	list_add_tail(&responders, &d->node);
	list_add_tail(bucket(qp->wq.qpn), &d->same);
	return d;
remove_timer:
	timers_remove(vrb.timers, &qp->timer.timer);
	xrc_peer_drop(&d->home);
free_memory:
	free(qp->recv.srq_wqe);
	vrb_qp_fini(qp);
	free(d);
	return NULL;
}

/*
 * Drops the message in progress, without a completion, and unsent answers. Must hold qp->lock.
 */
static void abandon(struct vrb_responder *d)
{
	vrb_qp_drop_wqe(&d->qp);
	roce_snapshot_abandon(&d->qp.roce);
	d->active = d->refused = false;
	d->watch = d->qp.peer.retry_at = VRB_NEVER;
}

/* If the QP is in error, flushes the receive WQE. The home raises the events of the QP. */
static void take_revocation(struct vrb_responder *d, const struct xrc_msg *m, uint64_t now)
{
	d->active = false;
	d->qp.now = now;
	if (m->head.seq == IBV_QPS_ERR)
		roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	abandon(d);
}

static void take_delegation(struct vrb_responder *d, const struct xrc_msg *m)
{
	struct vrb_qp *qp = &d->qp;
	struct xrc_config c;

	abandon(d);
	if (m->head.body != sizeof(c))
		return;
	memcpy(&c, m->body, sizeof(c));
	if (!vrb_delegation_config_ok(&c) ||
	    !vrb_delegation_make_resources(qp, c.max_dest_rd_atomic))
		return;
	vrb_delegation_configure(qp, &c);
	qp->comp.error_logged = false;
	d->domain = c.domain;
	qp->config.domain = vrb_xrcd_find_domain(&d->domain);
	roce_qp_init(&qp->roce, &qp->wq, qp->recv.rd_atomic, qp->recv.rd_atomic_slots);
	if (!roce_snapshot_restore(&qp->roce, m->state, m->head.state) ||
	    roce_in_message(&qp->roce))
		return;
	d->epoch = m->head.epoch;
	d->seq = 0;
	d->active = true;
}

static void take_config(struct vrb_responder *d, const struct xrc_msg *m)
{
	struct xrc_config c;

	if (m->head.body != sizeof(c))
		return;
	memcpy(&c, m->body, sizeof(c));
	if (vrb_delegation_config_ok(&c) && d->qp.wq.state != IBV_QPS_ERR &&
	    c.max_dest_rd_atomic <= d->qp.recv.rd_atomic_slots)
		vrb_delegation_configure(&d->qp, &c);
}

/* The home has already checked the path, MigReq and the sender. */
static void take_request(struct vrb_responder *d, const struct xrc_msg *m, uint64_t now)
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
	if (!qp->config.domain)
		qp->config.domain = vrb_xrcd_find_domain(&d->domain);
	qp->wq.pdn = qp->wq.recv_pdn = vrb_xrcd_srq_pdn(qp->config.domain, pkt.xrc_srqn);
	roce_input(&qp->roce, &pkt, now);
}

/* Must hold vrb.poll_lock. */
static void sweep(void)
{
	uint64_t now = clock_now();
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &responders) {
		struct vrb_responder *d = list_entry(pos, struct vrb_responder, node);

		if (xrc_peer_alive(&d->home, now))
			continue;
		lock_acquire(&d->qp.lock);
		d->qp.now = now;
		if (d->active)
			roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_PEER_DIED);
		lock_release(&d->qp.lock);
		free_responder(d);
	}
}

void vrb_responder_receive(const struct xrc_msg *m, struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_responder *d = find(m);

	if (!d && m->head.kind == XRC_DELEGATE) {
		sweep();
		d = new_responder(m);
	}
	if (!d)
		return;
	lock_acquire(&d->qp.lock);
	if (m->head.kind == XRC_DELEGATE) {
		take_delegation(d, m);
	} else if (d->active && m->head.epoch == d->epoch) {
		if (m->head.kind == XRC_REVOKE)
			take_revocation(d, m, now);
		else if (m->head.kind == XRC_CONFIG)
			take_config(d, m);
		else
			take_request(d, m, now);
		vrb_tx_schedule(&d->qp, TX_NOW, r);
	}
	lock_release(&d->qp.lock);
}

static int answer(struct vrb_responder *d, bool with_state, bool final, const uint8_t *packet,
		  size_t len)
{
	struct xrc_head head = { .kind = XRC_ANSWER, .final = final, .qpn = d->qp.wq.qpn,
				 .epoch = d->epoch, .seq = d->seq };
	size_t n = with_state ? roce_snapshot_take(&d->qp.roce, d->state) : 0;
	bool together = d->home.peer || n + len <= HOST_PACKET_MAX - sizeof(head);
	int err = 0;

	if (!together) {
		head.final = false;
		err = xrc_send(&d->home, &head, NULL, 0, d->state, n, NULL, 0);
		head.final = final;
	}
	return err ? err : xrc_send(&d->home, &head, NULL, 0, d->state, together ? n : 0, packet,
				    len);
}

/* The rest of a message in progress cannot arrive, and no answer leave. */
static bool home_died(struct vrb_responder *d, uint64_t now)
{
	if (xrc_peer_alive(&d->home, now))
		return false;
	roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_PEER_DIED);
	abandon(d);
	return true;
}

/* While a message is in progress, looks from time to time whether the home has died. */
static void watch_home(struct vrb_responder *d, uint64_t now)
{
	if (!roce_in_message(&d->qp.roce)) {
		d->watch = VRB_NEVER;
	} else if (d->watch == VRB_NEVER) {
		d->watch = time_after(now, WATCH);
	} else if (time_reached(d->watch, now)) {
		d->watch = time_after(now, WATCH);
		home_died(d, now);
	}
}

static void arm(struct vrb_responder *d)
{
	uint64_t at = time_earlier(time_earlier(d->watch, d->qp.peer.retry_at),
				   roce_next_timeout(&d->qp.roce));

	if (timers_arm(vrb.timers, &d->qp.timer.timer, at))
		progress_hurry(vrb.progress, at);
}

/* Do answers wait at home, for room in its lane to the requester? */
static bool home_waits(const struct vrb_responder *d)
{
	struct seg_qp published;

	return d->home.peer && local_peer_qp(d->home.peer, d->qp.wq.qpn, &published) &&
	       published.flags & SEG_QP_BLOCKED;
}

static size_t next_packet(struct vrb_responder *d, uint64_t now)
{
	const struct net_path *path;

	return roce_output(&d->qp.roce, d->packet, sizeof(d->packet), &path, now);
}

/* The requester may be stopped, and everything up to here wait for it. */
static void send_later(struct vrb_responder *d, uint64_t now)
{
	if (home_died(d, now))
		return;
	d->pause = min(max(2 * d->pause, PAUSE_FIRST), PAUSE_LAST);
	d->qp.peer.retry_at = time_after(now, d->pause);
}

/*
 * Sends all output and the state to the home. Answers wait for room in both lanes, or in the inbox.
 * A fatal NAK is part of the state, and the home sends it.
 */
static void send_output(struct vrb_responder *d, uint64_t now)
{
	struct vrb_qp *qp = &d->qp;
	bool first = true, last, more;

	qp->peer.retry_at = VRB_NEVER;
	do {
		if (!xrc_peer_room(&d->home) || home_waits(d)) {
			send_later(d, now);
			return;
		}
		last = !d->refused && roce_snapshot_has_fatal_nak(&qp->roce);
		if (!d->refused)
			d->packet_len = last ? 0 : next_packet(d, now);
		/* Output without a packet: READ responses are paced, the rest is sent later. */
		more = !last && roce_snapshot_has_output(&qp->roce);
		if (answer(d, first || !more, !more, d->packet, d->packet_len) == EAGAIN) {
			d->refused = d->packet_len;
			send_later(d, now);
			return;
		}
		d->refused = false;
		d->pause = 0;
		if (last)
			roce_snapshot_nak_handed_over(&qp->roce);
		first = false;
	} while (d->packet_len && more);
}

static void send_to_home(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_responder *d = of(qp);

	qp->now = now;
	if (d->active)
		send_output(d, now);
	if (d->active)
		watch_home(d, now);
	arm(d);
}

static void raise_at_home(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct vrb_responder *d = of(qp);
	struct xrc_head head = { .kind = XRC_EVENT, .qpn = qp->wq.qpn, .epoch = d->epoch };
	struct xrc_event e = { type, qp->wq.fault, qp->wq.fault_kind };

	if (d->active)
		xrc_send_surely(&d->home, &head, &e, sizeof(e));
}

void vrb_responder_fail_users(struct vrb_cq *cq, uint64_t now)
{
	struct list *pos;

	list_for_each (pos, &responders) {
		struct vrb_responder *d = list_entry(pos, struct vrb_responder, node);

		lock_acquire(&d->qp.lock);
		if (d->active && d->qp.wq.state != IBV_QPS_ERR &&
		    vrb_xrcd_uses_cq(d->qp.config.domain, cq)) {
			d->qp.now = now;
			roce_qp_fail(&d->qp.roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
			raise_at_home(&d->qp, IBV_EVENT_QP_FATAL);
			send_to_home(&d->qp, now);
		}
		lock_release(&d->qp.lock);
	}
}

void vrb_responder_forget_domain(struct xrc_domain *domain)
{
	struct list *pos;

	lock_acquire(&vrb.poll_lock);
	list_for_each (pos, &responders) {
		struct vrb_responder *d = list_entry(pos, struct vrb_responder, node);

		lock_acquire(&d->qp.lock);
		if (d->qp.config.domain == domain)
			d->qp.config.domain = NULL;
		lock_release(&d->qp.lock);
	}
	lock_release(&vrb.poll_lock);
}

/* The rest of the message, if it comes, is refused as one without a beginning. */
static void abandon_message(struct vrb_qp *qp, void *srq)
{
	lock_acquire(&qp->lock);
	if (qp->recv.wqe_srq == srq) {
		vrb_qp_drop_wqe(qp);
		roce_snapshot_abandon(&qp->roce);
	}
	lock_release(&qp->lock);
}

void vrb_responder_abandon(struct vrb_srq *srq)
{
	struct list *pos;

	lock_acquire(&vrb.poll_lock);
	sweep();
	list_for_each (pos, &responders)
		abandon_message(&list_entry(pos, struct vrb_responder, node)->qp, srq);
	vrb_qp_table_for_each(abandon_message, srq);
	lock_release(&vrb.poll_lock);
}

void vrb_responder_free_all(void)
{
	while (!list_empty(&responders))
		free_responder(list_entry(responders.next, struct vrb_responder, node));
}

void vrb_responder_forget_all(void)
{
	memset(buckets, 0, sizeof(buckets));
	list_init(&responders);
}
