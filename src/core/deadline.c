/* SPDX-License-Identifier: BSD-2-Clause */
/* See deadline.h. */
#include "core/deadline.h"

#include <errno.h>

#include "core/burst.h"
#include "core/cq.h"
#include "core/gsi.h"
#include "core/near.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/srq.h"
#include "core/xrc/deputy.h"
#include "core/xrc/xrcd.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/compiler.h"
#include "wire/wire.h"

enum {
	TIMERS = 256,	/* a round expires so many at most */
};

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
	switch (trouble_about(vrb.wire->trouble, peer, now)) {
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

static void expire_qp(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	lock_acquire(&qp->lock);
	qp->now = now;
	if (is_unanswered(qp, now) && vrb_near_excuses(qp, roce_ack_overdue(&qp->roce, now), now))
		roce_ack_excuse(&qp->roce, now);
	if (time_reached(roce_next_timeout(&qp->roce), now)) {
		qp->wq.unreached = vrb.wire ? what_network_said(&qp->wq.path.dst, now) : REASON_NONE;
		roce_timeout(&qp->roce, now);
	}
	vrb_output_collect(qp, b, now);
	lock_release(&qp->lock);
}

static void expire_cq(struct vrb_cq *cq, uint64_t now)
{
	if (!vrb_cq_timeout(cq, now))
		return;
	vrb_cq_fail_srqs(cq);
	vrb_qptab_for_each(fail_user, cq);
	vrb_deputy_fail_users(cq, now);
}

/* Does a peer seem not to have answered in time? Most timers that are due were set for an answer that has come since. */
static bool is_missed(struct vrb_qp *qp, uint64_t now)
{
	bool missed;

	lock_acquire(&qp->lock);
	missed = is_unanswered(qp, now);
	lock_release(&qp->lock);
	return missed;
}

bool vrb_deadlines_expire(uint64_t now, void (*take_all)(uint64_t now, bool poller), bool poller)
{
	struct vrb_burst *b;
	struct timer *t;
	bool any = false, taken = false;

	b = vrb_burst_own();
	if (!b)
		return false;
	for (unsigned int i = 0; i < TIMERS && (t = timers_pop(vrb.timers, now)); i++) {
		struct deadline *d = container_of(t, struct deadline, timer);
		any = true;
		if (d->kind == DEADLINE_QP && !taken && unlikely(is_missed(container_of(d, struct vrb_qp, timer), now))) {
			taken = true;
			take_all(now, poller);
		}
		if (d->kind == DEADLINE_QP)
			expire_qp(container_of(d, struct vrb_qp, timer), b, now);
		else if (d->kind == DEADLINE_CQ)
			expire_cq(container_of(d, struct vrb_cq, timer), now);
		else
			vrb_gsi_expire(now);
	}
	vrb_burst_flush(b);
	return any;
}

int vrb_deadline_add(struct vrb_cq *cq)
{
	cq->timer.kind = DEADLINE_CQ;
	return timers_add(vrb.timers, &cq->timer.timer);
}

void vrb_deadline_set(struct vrb_cq *cq, uint64_t due)
{
	if (timers_arm(vrb.timers, &cq->timer.timer, due))
		progress_hurry(vrb.progress, due);
}

void vrb_deadline_remove(struct vrb_cq *cq)
{
	lock_acquire(&vrb.drive);
	timers_remove(vrb.timers, &cq->timer.timer);
	lock_release(&vrb.drive);
}
