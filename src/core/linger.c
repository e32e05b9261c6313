/* SPDX-License-Identifier: BSD-2-Clause */
/* The wait for requests that need what is about to go; linger.h says for how long. */
#include "core/linger.h"

#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "core/drive.h"
#include "core/pd.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "host/host.h"
#include "local/local.h"
#include "run/clock.h"
#include "util/cancel.h"
#include "util/compiler.h"

enum {
	EAGER_US = 100,		/* so long it only yields between looks: most answers are here by then; */
	PAUSE_US = 50,		/* after that it sleeps, and the progress thread works as well */
	REFILL = 10,		/* the budget comes back in so many times what it is */
};

/* What is looked for, and what a look has found. */
struct wait {
	uint32_t pdn;			/* of the region; 0: all that changes something at the peer */
	uint32_t lkey;
	uint64_t now;
	bool waits;			/* some request is not done */
	uint64_t sign;			/* changes with each answer */
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

/* Draining, it finishes what it has begun; otherwise what is posted, too. */
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

/* A neighbour that is no more answers nothing. */
static bool has_died(const struct vrb_qp *qp, uint64_t now)
{
	return qp->near.peer && !local_peer_alive(vrb.local, qp->near.peer, now);
}

/* Must hold qp->lock. */
static void look_at(struct wait *l, const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t end = last_to_be_done(&qp->wq);
	bool waits = false;

	if (likely(sq->done == end) || has_died(qp, l->now))
		return;
	for (uint32_t i = sq->done; i != end && !waits; i++)
		waits = l->pdn ? names(sq_wqe(sq, i), l->lkey) : changes_the_peer(sq_wqe(sq, i));
	l->waits |= waits;
	/* The oldest request that is not done, and the packet of it that was answered last. */
	if (waits)
		l->sign += (uint64_t)sq->done + sq->next + qp->roce.comp.una;
}

static void look_at_any(struct vrb_qp *qp, void *arg)
{
	struct wait *l = arg;

	if (!qp->pd || qp->pd->pdn != l->pdn)
		return;
	lock_acquire(&qp->lock);
	look_at(l, qp);
	lock_release(&qp->lock);
}

/* At the one queue pair, or at all. */
static void look(struct wait *l, struct vrb_qp *qp)
{
	l->now = clock_now();
	l->waits = false;
	l->sign = 0;
	if (qp) {
		lock_acquire(&qp->lock);
		look_at(l, qp);
		lock_release(&qp->lock);
	} else {
		lock_acquire(&vrb.drive);
		vrb_qptab_for_each(look_at_any, l);
		lock_release(&vrb.drive);
	}
}

static struct {
	struct lock lock;
	uint64_t spent;		/* of LINGER_BUDGET, at */
	uint64_t at;
} budget;

/* Must hold budget.lock. */
static void refill(uint64_t now)
{
	uint64_t back = time_since(budget.at, now) / REFILL;

	budget.spent -= min(back, budget.spent);
	budget.at = max(now, budget.at);
}

static uint64_t patience_at(uint64_t now)
{
	uint64_t left;

	lock_acquire(&budget.lock);
	refill(now);
	left = LINGER_BUDGET - min(budget.spent, LINGER_BUDGET);
	lock_release(&budget.lock);
	return min(left, LINGER_SILENCE);
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
	uint64_t start, heard, patience, sign;

	look(l, qp);
	if (likely(!l->waits))
		return;
	start = heard = l->now;
	patience = patience_at(start);
	while (l->waits && l->now - heard < patience && l->now - start < LINGER_MAX) {
		sign = l->sign;
		if (!vrb_drive_poll((1u << HOST_SHARDS) - 1))
			rest(l->now - start);
		look(l, qp);
		if (l->sign != sign)
			heard = l->now;
	}
	if (l->waits)
		spend(l->now - heard, l->now);
}

void vrb_linger_region(uint32_t pdn, uint32_t lkey)
{
	wait_for(&(struct wait){ .pdn = pdn, .lkey = lkey }, NULL);
}

void vrb_linger_qp(struct vrb_qp *qp)
{
	wait_for(&(struct wait){ 0 }, qp);
}
