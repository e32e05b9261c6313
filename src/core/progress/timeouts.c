/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/timeouts.h"

#include <errno.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/base/xrc_ops.h"
#include "core/cq/cq.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/srq.h"
#include "core/qp/xrcd.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "run/clock.h"
#include "util/compiler.h"
#include "wire/wire.h"

enum {
	TIMERS = 256,	/* limit per round */
};

static void fail_user(struct vrb_qp *qp, void *arg)
{
	struct vrb_cq *cq = arg;

	if (qp->config.send_cq != cq && qp->config.recv_cq != cq &&
	    !(qp->config.srq && qp->config.srq->cq == cq) &&
	    !vrb_xrcd_uses_cq(qp->config.domain, cq))
		return;
	lock_acquire(&qp->lock);
	if (qp->wq.state != IBV_QPS_RESET && qp->wq.state != IBV_QPS_ERR) {
		qp->now = clock_now();
		roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
		vrb_qp_raise(qp, IBV_EVENT_QP_FATAL);
		vrb_transmit(qp, qp->now);
	}
	lock_release(&qp->lock);
}

static enum reason what_network_said(const struct net_addr *peer, uint64_t now)
{
	switch (path_errors_latest(vrb.wire->path_errors, peer, now)) {
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

/* Must hold qp->lock. */
static bool is_unanswered(const struct vrb_qp *qp, uint64_t now)
{
	return roce_ack_overdue(&qp->roce, now) || roce_probe_due(&qp->roce, now);
}

void vrb_timeout_cq(struct object_timer *d, struct expiry *e)
{
	struct vrb_cq *cq = container_of(d, struct vrb_cq, timer);

	if (!vrb_cq_timeout(cq, e->now))
		return;
	vrb_cq_fail_srqs(cq);
	vrb_qp_table_for_each(fail_user, cq);
	vrb.xrc->cq_overrun(cq, e->now);
}

/*
 * True if a peer seems not to have replied in time. Most timers that are due were set for a reply
 * that has come since.
 */
static bool is_missed(struct vrb_qp *qp, uint64_t now)
{
	bool missed;

	lock_acquire(&qp->lock);
	missed = is_unanswered(qp, now);
	lock_release(&qp->lock);
	return missed;
}

static void expire_qp(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now)
{
	lock_acquire(&qp->lock);
	qp->now = now;
	if (is_unanswered(qp, now) &&
	    vrb_peer_defers_timeout(qp, roce_ack_overdue(&qp->roce, now), now))
		roce_defer_timeout(&qp->roce, now);
	if (time_reached(roce_next_timeout(&qp->roce), now)) {
		qp->wq.unreached = vrb.wire ? what_network_said(&qp->wq.path.dst, now) : REASON_NONE;
		roce_timeout(&qp->roce, now);
	}
	vrb_transmit_batch(qp, b, now);
	lock_release(&qp->lock);
}

void vrb_timeout_qp(struct object_timer *d, struct expiry *e)
{
	struct vrb_qp *qp = container_of(d, struct vrb_qp, timer);

	if (!e->taken && unlikely(is_missed(qp, e->now))) {
		e->taken = true;
		e->take_all(e->now, e->poller);
	}
	expire_qp(qp, e->batch, e->now);
}

bool vrb_timers_expire(uint64_t now, void (*take_all)(uint64_t now, bool poller), bool poller)
{
	struct expiry e = {
		.now = now,
		.batch = vrb_tx_batch_own(),
		.take_all = take_all,
		.poller = poller,
	};
	struct timer *t;
	bool any = false;

	if (!e.batch)
		return false;
	for (unsigned int i = 0; i < TIMERS && (t = timers_pop(vrb.timers, now)); i++) {
		struct object_timer *d = container_of(t, struct object_timer, timer);

		any = true;
		d->expire(d, &e);
	}
	vrb_tx_batch_flush(e.batch);
	return any;
}
