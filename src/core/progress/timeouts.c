/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/timeouts.h"

#include <errno.h>

#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/xrc_ops.h"
#include "core/cq/cq.h"
#include "core/local/peer_link.h"
#include "core/local/peer_word.h"
#include "core/progress/rx_steering.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/srq.h"
#include "core/qp/xrcd.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "roce/message.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"
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
		vrb_word_read(qp, qp->now);	/* what has executed is not flushed */
		roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
		vrb_qp_raise(qp, IBV_EVENT_QP_FATAL);
		vrb_transmit(qp, qp->now);
	}
	lock_release(&qp->lock);
}

/* Why the QP's peer does not answer, if that is known. */
static enum reason path_reason(const struct vrb_qp *qp, uint64_t now)
{
	if (!vrb.wire)
		return qp->peer.process ? REASON_NONE : REASON_PATH_LOCAL_ONLY;
	switch (path_errors_latest(vrb.wire->path_errors, &qp->wq.path.dst, now)) {
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
 * Since when a reply is overdue; VRB_NEVER if none is. Most due timers were set for a reply that
 * has come meanwhile.
 */
static uint64_t missed_since(struct vrb_qp *qp, uint64_t now)
{
	uint64_t since;

	lock_acquire(&qp->lock);
	since = roce_reply_due(&qp->roce);
	lock_release(&qp->lock);
	return time_reached(since, now) ? since : VRB_NEVER;
}

/*
 * Has every rx queue been read since `at`? If not, earlier packets may be held by a thread without
 * a CPU, or wait behind those. The caller has served the main rx queue.
 */
static bool is_served_since(uint64_t at)
{
	vrb_for_each_rx_queue (r)
		if (r != vrb_main_rx_queue && load_acquire(&r->served_at) < at)
			return false;
	return true;
}

/* Must hold qp->lock. */
static bool is_overdue_by_wire(struct vrb_qp *qp, uint64_t now)
{
	return roce_ack_overdue(&qp->roce, now) && !qp->peer.process;
}

/*
 * Most timers that expire were set for a reply that has come since. They must not send an ACK that
 * waits for the program's reply: alone, it would reach a peer that then stops polling and watches
 * its memory for that reply. One that met a full lane waits for nothing else than this timer. Must
 * hold qp->lock.
 */
static bool only_ack_waits(const struct vrb_qp *qp, uint64_t now)
{
	return load_relaxed(&qp->sched.ack_delayed) && !time_reached(qp->peer.retry_at, now) &&
	       vrb_tx_urgency(qp) != TX_NOW;
}

/* True if the timeout of a packet on the wire has passed. */
static bool expire_qp(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now)
{
	bool overdue, in_vain = true;

	lock_acquire(&qp->lock);
	qp->now = now;
	overdue = is_overdue_by_wire(qp, now);
	if (time_reached(roce_reply_due(&qp->roce), now) &&
	    vrb_peer_defers_timeout(qp, roce_ack_overdue(&qp->roce, now), now))
		roce_defer_timeout(&qp->roce, now);
	if (time_reached(roce_next_timeout(&qp->roce), now)) {
		in_vain = false;
		qp->wq.unreached = path_reason(qp, now);
		roce_timeout(&qp->roce, now);
	}
	if (qp->peer.process) {
		vrb_word_read(qp, now);
		roce_watch(&qp->roce, now);
	}
	if (unlikely(qp->config.hooks != NULL) && qp->config.hooks->expired)
		qp->config.hooks->expired(qp, now);
	if (in_vain && only_ack_waits(qp, now))
		vrb_set_timer(qp);
	else
		vrb_transmit_batch(qp, b, now);
	lock_release(&qp->lock);
	return overdue;
}

static bool unserved;	/* atomic */

bool vrb_timers_unserved(void)
{
	return load_relaxed(&unserved) && swap_acq_rel(&unserved, false);
}

static void wait_until_served(struct object_timer *d, uint64_t now)
{
	vrb_timer_set(d, time_after(now, LIMIT_UNSERVED_RETRY));
	store_relaxed(&unserved, true);
}

void vrb_timeout_qp(struct object_timer *d, struct expiry *e)
{
	struct vrb_qp *qp = container_of(d, struct vrb_qp, timer);
	uint64_t missed = missed_since(qp, e->now);

	if (!e->taken && unlikely(missed != VRB_NEVER)) {
		e->taken = true;
		e->take_all(e->now, e->poller);
		missed = missed_since(qp, e->now);
	}
	if (unlikely(missed != VRB_NEVER && !is_served_since(missed)))
		wait_until_served(d, e->now);
	else if (unlikely(expire_qp(qp, e->batch, e->now)))
		vrb_steer_doubt(e->now);
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
