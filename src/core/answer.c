/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/answer.h"

#include "core/burst.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/receiver.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	OWED_PACKETS = 4,	/* more at a time are a stream, whose sender waits for the ACK */
	OWED_POLLS = 4,		/* polls in a row that may put off an ACK */
	GATHER = 32,		/* requests at most, */
	GATHER_LEN = 512,	/* not longer than this, */
	GATHER_MIN = 2,		/* once so many packets are in flight, */
	GATHER_TIMES = 4,	/* and not more than so many times what is: the peer begins with a few */
};

#define GATHER_POLLED (250 * VRB_USEC)	/* a window takes some time to post, and more if the thread is interrupted */
#define ACK_WAIT VRB_MSEC	/* an ACK is put off for this long at most */

/* Must hold the receiver's lock, as all below that are given one. */
static void owe_until(struct vrb_receiver *r, uint64_t at)
{
	if (load_relaxed(&r->owed_due) <= at)
		return;
	store_relaxed(&r->owed_due, at);
	progress_hurry(vrb.progress, at);
}

/* Are the requests that wait, the last of them just posted, few and small enough to wait for more?  Must hold qp->lock. */
static bool has_room(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t waiting = sq->head - sq->next, in_flight = roce_in_flight(&qp->roce);

	return waiting && in_flight >= GATHER_MIN &&
	       waiting < min(in_flight * GATHER_TIMES, (uint32_t)GATHER) &&
	       sq_wqe(sq, sq->head - 1)->length <= GATHER_LEN;
}

/*
 * Does it pay to let requests gather?  If there is a stream of small ones and somebody polls, so that
 * they need not wait for long.  Must hold qp->lock.
 */
static bool may_gather(const struct vrb_qp *qp, uint64_t now)
{
	return qp->far && qp->wq.state == IBV_QPS_RTS && has_room(qp) &&
	       time_since(load_relaxed(&vrb_receiver_of_shard(qp->shard)->polled_at), now) < GATHER_POLLED;
}

bool vrb_answer_list(struct vrb_receiver *r, struct vrb_qp *qp, struct list *list)
{
	/* Acquire: pairs with unlist(); its former receiver is done with the node. */
	const struct vrb_receiver *by = load_acquire(&qp->touched_by);

	if (!by) {
		list_add_tail(list, &qp->touched);
		store_relaxed(&qp->touched_by, r);
	}
	return !by || by == r;
}

static void unlist(struct vrb_qp *qp)
{
	list_del(&qp->touched);
	store_release(&qp->touched_by, NULL);
}

/* The order of locks is against it, so the attempt may fail. Must hold qp->lock. */
static bool gather(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_receiver *r = vrb_receiver_of_shard(qp->shard);

	if (!lock_try(r->lock))
		return false;
	qp->gathers = vrb_answer_list(r, qp, &r->owed);
	if (qp->gathers)
		owe_until(r, now + ACK_WAIT);
	lock_release(r->lock);
	return qp->gathers;
}

/* Once it has begun, the clock need not be read for each request: by when they leave is settled. */
void vrb_answer_posted(struct vrb_qp *qp)
{
	uint64_t now;

	if (qp->gathers && !qp->habit.asked && qp->wq.state == IBV_QPS_RTS && has_room(qp))
		return;
	now = clock_now();
	habit_posted(&qp->habit, now);
	if (!may_gather(qp, now) || !(qp->gathers || gather(qp, now)))
		vrb_output(qp, now);
}

unsigned int vrb_answer_owing;

void vrb_answer_put_off(struct vrb_qp *qp)
{
	if (!load_relaxed(&qp->owes) && !swap_acq_rel(&qp->owes, true))
		fetch_add_relaxed(&vrb_answer_owing, 1);
}

void vrb_answer_paid(struct vrb_qp *qp)
{
	if (swap_acq_rel(&qp->owes, false))
		fetch_add_relaxed(&vrb_answer_owing, -1);
}

/*
 * The QPs of the list speak.  What was put off leaves before the QP's lock is free, or the program's next request could overtake its ACK; what
 * belongs to a round may leave at its end, for the program does not know of the messages yet.
 */
static void answer_all(struct list *waiting, struct vrb_burst *b, uint64_t now)
{
	while (!list_empty(waiting)) {
		struct vrb_qp *qp = list_entry(waiting->next, struct vrb_qp, touched);
		bool owes;

		unlist(qp);
		/* The ACK may have left with a request since. */
		if (load_relaxed(&qp->answered))
			continue;
		lock_acquire(&qp->lock);
		owes = load_relaxed(&qp->owes);
		if (qp->due == OUTPUT_NOW || vrb_output_due(qp) != OUTPUT_NOTHING) {
			habit_alone(&qp->habit, now);
			vrb_output_collect(qp, b, now);
			if (owes)
				vrb_burst_flush(b);
		}
		lock_release(&qp->lock);
	}
}

static void move_to_owed(struct vrb_receiver *r)
{
	while (!list_empty(&r->touched)) {
		struct list *node = r->touched.next;

		list_del(node);
		list_add_tail(&r->owed, node);
		vrb_answer_put_off(list_entry(node, struct vrb_qp, touched));
	}
}

/* Memory is out: they wait until there is some again. */
static void put_off(struct vrb_receiver *r, uint64_t now)
{
	move_to_owed(r);
	store_relaxed(&r->owed_due, VRB_NEVER);
	owe_until(r, now + ACK_WAIT);
}

/*
 * A time that stands although nobody is owed any more wakes the progress thread once, for nothing; to set it anew for each message would cost
 * a fence.
 */
static void forget_past(struct vrb_receiver *r, uint64_t now)
{
	if (time_reached(load_relaxed(&r->owed_due), now))
		store_relaxed(&r->owed_due, VRB_NEVER);
}

void vrb_answer(struct vrb_receiver *r, uint64_t now)
{
	struct vrb_burst *b;

	if (list_empty(&r->touched) && list_empty(&r->owed)) {
		forget_past(r, now);
		return;
	}
	b = vrb_burst_own();
	if (unlikely(!b)) {
		put_off(r, now);
		return;
	}
	answer_all(&r->touched, b, now);
	answer_all(&r->owed, b, now);
	r->owed_polls = 0;
	forget_past(r, now);
	vrb_burst_flush(b);
}

/*
 * May the answers to `packets` wait?  Those that a poller took, for its next poll; others where the
 * program can be trusted to answer.
 */
static bool may_owe(const struct vrb_receiver *r, unsigned int packets, bool poller)
{
	const struct list *pos;

	if (packets > OWED_PACKETS)
		return false;
	list_for_each(pos, &r->touched) {
		const struct vrb_qp *qp = list_entry(pos, struct vrb_qp, touched);

		if (qp->due == OUTPUT_NOW || !(poller || qp->answers))
			return false;
	}
	return true;
}

/* Those that are owed speak, those of this round that are on `touched` wait with them then. */
static void answer_owed_only(struct vrb_receiver *r, uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();

	if (unlikely(!b))
		return;
	answer_all(&r->owed, b, now);
	r->owed_polls = 0;
	vrb_burst_flush(b);
}

void vrb_answer_or_owe(struct vrb_receiver *r, unsigned int packets, bool poller, uint64_t now)
{
	if (!may_owe(r, packets, poller)) {
		vrb_answer(r, now);
		return;
	}
	if (r->owed_polls >= OWED_POLLS)
		answer_owed_only(r, now);
	r->owed_polls++;
	move_to_owed(r);
	owe_until(r, now + (poller ? ACK_WAIT : HABIT_SOON));
}

uint64_t vrb_answer_due(void)
{
	uint64_t due = VRB_NEVER;

	vrb_for_each_receiver (r)
		due = time_earlier(due, load_relaxed(&r->owed_due));
	return due;
}

void vrb_answer_overdue(uint64_t now)
{
	vrb_for_each_receiver (r) {
		if (!time_reached(load_relaxed(&r->owed_due), now))
			continue;
		lock_acquire(r->lock);
		vrb_answer(r, now);
		lock_release(r->lock);
	}
}

void vrb_answer_owed(void)
{
	vrb_for_each_receiver (r) {
		if (load_relaxed(&r->owed_due) == VRB_NEVER)
			continue;
		lock_acquire(r->lock);
		vrb_answer(r, clock_now());
		lock_release(r->lock);
	}
}

void vrb_answer_try_owed(void)
{
	vrb_for_each_receiver (r) {
		if (load_relaxed(&r->owed_due) == VRB_NEVER || !lock_try(r->lock))
			continue;
		vrb_answer(r, clock_now());
		lock_release(r->lock);
	}
}

/* The end of the process is the end of polls. A thread that drives right now pays, or was killed by exit. */
static __attribute__((destructor)) void answer_at_exit(void)
{
	vrb_answer_try_owed();
}
