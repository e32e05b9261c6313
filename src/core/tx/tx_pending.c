/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tx/tx_pending.h"

#include <stdlib.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/qp/qp.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/time.h"
#include "util/tuning.h"

unsigned int vrb_pending_queues;

/*
 * Set before requests complete, whose completions pollers take under cq->lock before they look at
 * this. Cleared when the packets have left; release pairs with vrb_tx_pending_send(). Must hold
 * p->lock, as must all static functions below that take `p`.
 */
static void set_waits(struct vrb_tx_pending *p, bool waits)
{
	if (p->waits == waits)
		return;
	store_release(&p->waits, waits);
	fetch_add_relaxed(&vrb_pending_queues, waits ? 1 : -1);
}

static void note_sent(struct vrb_tx_pending *p)
{
	store_relaxed(&p->sent_at, clock_now());
}

static void send(struct vrb_tx_pending *p)
{
	if (!p->waits)
		return;
	vrb_tx_batch_flush(p->batch);
	note_sent(p);
	set_waits(p, false);
}

/*
 * The deadline of packets that have left stays, since others follow soon: the progress thread looks
 * once for nothing, but another deadline would cost a fence.
 */
static void start_waiting(struct vrb_tx_pending *p, uint64_t now)
{
	uint64_t due = load_relaxed(&p->deadline);

	p->since = now;
	if (due != VRB_NEVER && due > now)
		return;
	store_relaxed(&p->deadline, now + TUNE_PENDING_TIME);
	progress_hurry(vrb.progress, now + TUNE_PENDING_TIME);
}

static bool has_batch(struct vrb_tx_pending *p)
{
	if (likely(p->batch != NULL))
		return true;
	p->batch = malloc(sizeof(*p->batch));
	if (p->batch)
		vrb_tx_batch_init(p->batch);
	return p->batch;
}

static bool may_wait(struct vrb_tx_pending *p)
{
	if (likely(!p->rest))
		return has_batch(p);
	p->rest--;
	return false;
}

/* The batch may become full and leave, and be filled anew. */
static void fill(struct vrb_tx_pending *p, struct vrb_qp *qp, struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_tx_batch *b = p->batch;
	unsigned int sends = b->sends;
	bool first = !b->n;

	set_waits(p, true);
	vrb_transmit_batch(qp, b, now);
	if (b->sends != sends) {
		note_sent(p);
		first = true;
	}
	if (first && b->n)
		start_waiting(p, now);
	set_waits(p, b->n);
	qp->post.pending = r;
}

bool vrb_tx_pending_transmit(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_rx_queue *r = vrb_rx_queue_of_shard(qp->config.shard);
	struct vrb_tx_pending *p = &r->pending;
	bool waits;

	if (qp->post.pending == r)
		lock_acquire(&p->lock);
	else if (qp->post.pending || !lock_try(&p->lock))
		return false;
	waits = may_wait(p);
	if (waits)
		fill(p, qp, r, now);
	lock_release(&p->lock);
	return waits;
}

void vrb_tx_pending_settle(struct vrb_qp *qp, const struct vrb_tx_batch *b)
{
	struct vrb_rx_queue *r = qp->post.pending;

	if (r->pending.batch == b)
		return;
	qp->post.pending = NULL;
	vrb_tx_pending_send(r);
}

/* Acquire: what another thread has sent is earlier than what the caller sends next. */
void vrb_tx_pending_send(struct vrb_rx_queue *r)
{
	struct vrb_tx_pending *p = &r->pending;

	if (!load_acquire(&p->waits))
		return;
	lock_acquire(&p->lock);
	send(p);
	lock_release(&p->lock);
}

void vrb_tx_pending_try_send(struct vrb_rx_queue *r)
{
	struct vrb_tx_pending *p = &r->pending;

	if (!load_acquire(&p->waits) || !lock_try_at_exit(&p->lock))
		return;
	send(p);
	lock_release(&p->lock);
}

void vrb_tx_pending_send_shards(unsigned int shards)
{
	for (; shards; shards &= shards - 1)
		vrb_tx_pending_send(vrb_rx_queue_of_shard((unsigned int)__builtin_ctz(shards)));
}

/* The program did not poll in time: others need not wait for it either. */
void vrb_tx_pending_expire(struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_tx_pending *p = &r->pending;

	if (!time_reached(load_relaxed(&p->deadline), now))
		return;
	lock_acquire(&p->lock);
	if (p->waits && time_since(p->since, now) >= TUNE_PENDING_TIME) {
		send(p);
		p->rest = LIMIT_PENDING_REST;
	}
	store_relaxed(&p->deadline, p->waits ? p->since + TUNE_PENDING_TIME : VRB_NEVER);
	lock_release(&p->lock);
}

void vrb_tx_pending_free(struct vrb_rx_queue *r)
{
	struct vrb_tx_pending *p = &r->pending;

	lock_acquire(&p->lock);
	send(p);
	free(p->batch);
	p->batch = NULL;
	store_relaxed(&p->deadline, VRB_NEVER);
	lock_release(&p->lock);
}

void vrb_tx_pending_forget(struct vrb_rx_queue *r)
{
	struct vrb_tx_pending *p = &r->pending;

	lock_renew(&p->lock);
	if (p->batch)
		vrb_tx_batch_init(p->batch);
	store_relaxed(&p->waits, false);
	store_relaxed(&vrb_pending_queues, 0);
	store_relaxed(&p->deadline, VRB_NEVER);
	p->rest = 0;
}
