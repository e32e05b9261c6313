/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waits for requests that use an object which is about to be destroyed; drain.h defines for how
 * long.
 */
#include "core/progress/drain.h"

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/local/peer_link.h"
#include "core/local/peer_word.h"
#include "core/mem/mr.h"
#include "core/mem/pd.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "local/local.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

enum {
	/* yield between checks for this time, because most answers arrive within it; */
	EAGER_US = 100,
	/* then sleep between checks, and let the progress thread work as well */
	PAUSE_US = 50,
	REFILL = 10,		/* the budget refills in this multiple of itself */
};

/* The condition of a check, and its result. */
struct wait {
	/* PD of the region; NULL: all requests that modify memory or state of the peer */
	struct pd_senders *senders;
	uint32_t lkey;
	bool only_answers;
	uint64_t now;
	bool waits;			/* some request is not complete, or answers wait: */
	bool answers;			/* for room in a lane, so for a process to get a CPU */
	uint64_t sign;			/* changes with each answer, or slot that the peer takes */
};

static bool names(const struct send_wqe *w, uint32_t lkey)
{
	if (w->flags & WQE_DATA_INLINE)
		return false;
	for (uint32_t i = 0; i < w->num_sge; i++)
		if (w->sge[i].length && mr_key_index(w->sge[i].lkey) == mr_key_index(lkey))
			return true;
	return false;
}

static bool changes_the_peer(const struct send_wqe *w)
{
	switch (w->opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
	case IBV_WR_FLUSH:
		return false;
	default:
		return true;
	}
}

/* In SQD the QP finishes only the requests it has started; otherwise all that are posted. */
static uint32_t last_to_be_done(const struct wq_qp *wq)
{
	switch (wq->state) {
	case IBV_QPS_RTS:
		return wq->sq.head;
	case IBV_QPS_SQD:
		return wq->sq.next;
	default:
		return wq->sq.done;
	}
}

/* A dead local peer never answers. */
static bool has_died(const struct vrb_qp *qp, uint64_t now)
{
	return qp->peer.process && !local_peer_alive(vrb.local, qp->peer.process, now);
}

/* Must hold qp->lock. */
static void look_at(struct wait *l, struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t end = last_to_be_done(&qp->wq);
	bool waits = false;

	if (likely(sq->done == end) || has_died(qp, l->now))
		return;
	for (uint32_t i = sq->done; i != end && !waits; i++)
		waits = l->senders ? names(sq_wqe(sq, i), l->lkey)
				   : changes_the_peer(sq_wqe(sq, i));
	l->waits |= waits;
	if (!waits)
		return;
	vrb_word_want_all(qp);
	/* The oldest pending request, and its last acknowledged packet. */
	l->sign += (uint64_t)sq->done + sq->next + roce_oldest_unacked(&qp->roce);
}

uint64_t vrb_drain_looks;

/*
 * QPs with outstanding requests stay on the list. Must hold vrb.poll_lock, so that none is
 * destroyed.
 */
static void look_at_senders(struct wait *l)
{
	struct list *node;

	for (uint32_t n = pd_senders_number(l->senders);
	     n && (node = pd_senders_take(l->senders)); n--) {
		struct vrb_qp *qp = list_entry(node, struct vrb_qp, post.sender);

		vrb_drain_looks++;
		lock_acquire(&qp->lock);
		look_at(l, qp);
		qp->post.is_sender = qp->wq.sq.done != qp->wq.sq.head;
		if (qp->post.is_sender)
			pd_senders_add(l->senders, node);
		lock_release(&qp->lock);
	}
}

/* Must hold qp->lock. */
static void look_at_answers(struct wait *l, const struct vrb_qp *qp)
{
	uint64_t taken;

	if (!vrb_peer_answers_wait(qp, &taken) || has_died(qp, l->now))
		return;
	l->waits = l->answers = true;
	l->sign += taken;
}

/* Checks one queue pair, or those of the PD. */
static void look(struct wait *l, struct vrb_qp *qp)
{
	l->now = clock_now();
	l->waits = l->answers = false;
	l->sign = 0;
	if (qp) {
		lock_acquire(&qp->lock);
		if (!l->only_answers)
			look_at(l, qp);
		look_at_answers(l, qp);
		lock_release(&qp->lock);
	} else if (l->senders && load_relaxed(&l->senders->n)) {
		lock_acquire(&vrb.poll_lock);
		look_at_senders(l);
		lock_release(&vrb.poll_lock);
	}
}

static struct {
	struct lock lock;
	uint64_t spent;		/* part of DRAIN_BUDGET that was used, and when */
	uint64_t at;
} budget;

/* Must hold budget.lock. */
static void refill(uint64_t now)
{
	uint64_t back = time_since(budget.at, now) / REFILL;

	budget.spent -= min(back, budget.spent);
	budget.at = max(now, budget.at);
}

void vrb_drain_forget(void)
{
	budget.spent = 0;
	lock_renew(&budget.lock);
}

static uint64_t silence_allowed(uint64_t most, uint64_t now)
{
	uint64_t left;

	lock_acquire(&budget.lock);
	refill(now);
	left = DRAIN_BUDGET - min(budget.spent, DRAIN_BUDGET);
	lock_release(&budget.lock);
	return min(left, most);
}

static void spend(uint64_t silence, uint64_t now)
{
	lock_acquire(&budget.lock);
	refill(now);
	budget.spent += silence;
	lock_release(&budget.lock);
}

static void rest(uint64_t waited)
{
	const struct timespec pause = { .tv_nsec = PAUSE_US * VRB_USEC };
	int cancel;

	if (waited < EAGER_US * VRB_USEC) {
		sched_yield();
		return;
	}
	cancel = cancel_off();
	nanosleep(&pause, NULL);
	cancel_on(cancel);
}

static void wait_for(struct wait *l, struct vrb_qp *qp)
{
	uint64_t checked, waited = 0, silent = 0, allowed, sign;

	look(l, qp);
	if (likely(!l->waits))
		return;
	checked = l->now;
	allowed = silence_allowed(l->answers ? DRAIN_BUDGET : DRAIN_SILENCE, l->now);
	while (l->waits && silent < allowed && waited < DRAIN_MAX) {
		uint64_t step;

		sign = l->sign;
		if (!vrb_poll_once((1u << HOST_SHARDS) - 1))
			rest(waited);
		look(l, qp);
		step = time_wait_step(&checked, l->now);
		waited += step;
		silent = l->sign == sign ? silent + step : 0;
	}
	if (l->waits)
		spend(silent, l->now);
}

static void drain_requests(struct vrb_pd *pd, uint32_t lkey)
{
	wait_for(&(struct wait){ .senders = vrb_pd_senders(pd), .lkey = lkey }, NULL);
}

static void drain_copies(struct vrb_pd *pd)
{
	struct wait l = { .senders = vrb_pd_senders(pd) };

	vrb_for_each_rx_queue (r) {
		if (r == vrb_main_rx_queue)
			continue;
		lock_acquire(r->lock);
		lock_release(r->lock);
	}
	lock_acquire(&vrb.poll_lock);
	look_at_senders(&l);
	lock_release(&vrb.poll_lock);
}

const struct vrb_mr_waits vrb_mr_waits = {
	.requests = drain_requests,
	.copies = drain_copies,
};

static bool receives(struct vrb_qp *qp)
{
	bool ret;

	lock_acquire(&qp->lock);
	ret = wq_receives(qp->wq.state);
	lock_release(&qp->lock);
	return ret;
}

void vrb_drain_qp(struct vrb_qp *qp)
{
	if (receives(qp))
		vrb_poll_arrived();
	wait_for(&(struct wait){ 0 }, qp);
}

void vrb_drain_answers(struct vrb_qp *qp)
{
	wait_for(&(struct wait){ .only_answers = true }, qp);
}
