/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/answer.h"

#include "core/burst.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	OWED_PACKETS = 4,	/* more at a time are a stream, whose sender waits for the ACK */
	OWED_POLLS = 4,		/* polls in a row that may put off an ACK */
	GATHER = 32,		/* requests at most, */
	GATHER_LEN = 512,	/* not longer than this, */
	GATHER_MIN = 8,		/* once so many packets are in flight */
};

#define GATHER_POLLED (50 * VRB_USEC)
#define ACK_WAIT VRB_MSEC	/* an ACK is put off for this long at most */

/*
 * QPs whose ACK waits for a packet of their own to travel with: the answer to a request is often
 * another request, and a program that has just been given a completion shall not wait for our system
 * call.  They are answered at the next poll, by the progress thread after ACK_WAIT, or before
 * anything that would make that impossible.  Under vrb.drive.
 */
static struct list owed = { &owed, &owed };
static uint64_t owed_due = VRB_NEVER;	/* atomic; written under vrb.drive. Never later than it must be */
static unsigned int owed_polls;		/* for how many polls they have waited */

static void owe_until(uint64_t at)
{
	if (load_relaxed(&owed_due) <= at)
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

void vrb_answer_posted(struct vrb_qp *qp, uint64_t now)
{
	habit_posted(&qp->habit, now);
	if (!may_gather(qp, now) || !gather(qp, now))
		vrb_output(qp, now);
}

/* Those of `touched`, and those that are owed. */
static void answer_all(struct list *touched, struct vrb_burst *b, uint64_t now)
{
	while (!list_empty(touched)) {
		struct vrb_qp *qp = list_entry(touched->next, struct vrb_qp, touched);

		list_del(&qp->touched);
		/* The ACK may have left with a request since. */
		if (load_relaxed(&qp->answered))
			continue;
		lock_acquire(&qp->lock);
		if (qp->due == OUTPUT_NOW || vrb_output_due(qp) != OUTPUT_NOTHING) {
			habit_alone(&qp->habit, now);
			vrb_output_collect(qp, b, now);
		}
		lock_release(&qp->lock);
	}
}

static void move_to_owed(struct list *touched)
{
	while (!list_empty(touched)) {
		struct list *node = touched->next;

		list_del(node);
		list_add_tail(&owed, node);
	}
}

/* Memory is out: they wait until there is some again. */
static void put_off(struct list *touched, uint64_t now)
{
	if (touched != &owed)
		move_to_owed(touched);
	store_relaxed(&owed_due, VRB_NEVER);
	owe_until(now + ACK_WAIT);
}

/*
 * A time that stands although nobody is owed any more wakes the progress thread once, for nothing; to set it anew for each message would cost
 * a fence.
 */
static void forget_past(uint64_t now)
{
	if (time_reached(load_relaxed(&owed_due), now))
		store_relaxed(&owed_due, VRB_NEVER);
}

void vrb_answer(struct list *touched, uint64_t now)
{
	struct vrb_burst *b;

	if (list_empty(touched) && list_empty(&owed)) {
		forget_past(now);
		return;
	}
	b = vrb_burst_own();
	if (unlikely(!b)) {
		put_off(touched, now);
		return;
	}
	answer_all(touched, b, now);
	answer_all(&owed, b, now);
	owed_polls = 0;
	forget_past(now);
	vrb_burst_flush(b);
}

/*
 * May the answers to `packets` wait?  Those that a poller took, for its next poll; others where the
 * program can be trusted to answer.
 */
static bool may_owe(const struct list *touched, unsigned int packets, bool poller)
{
	const struct list *pos;

	if (packets > OWED_PACKETS)
		return false;
	list_for_each(pos, touched) {
		const struct vrb_qp *qp = list_entry(pos, struct vrb_qp, touched);

		if (qp->due == OUTPUT_NOW || !(poller || qp->answers))
			return false;
	}
	return true;
}

static void owe(struct list *touched, uint64_t until)
{
	move_to_owed(touched);
	owe_until(until);
}

void vrb_answer_owed(uint64_t now)
{
	vrb_answer(&owed, now);
}

void vrb_answer_or_owe(struct list *touched, unsigned int packets, bool poller, uint64_t now)
{
	if (!may_owe(touched, packets, poller)) {
		vrb_answer(touched, now);
		return;
	}
	if (owed_polls >= OWED_POLLS)
		vrb_answer_owed(now);
	owed_polls++;
	owe(touched, now + (poller ? ACK_WAIT : HABIT_SOON));
}

uint64_t vrb_answer_due(void)
{
	return load_relaxed(&owed_due);
}

void vrb_answer_polled(uint64_t now)
{
	store_relaxed(&polled_at, now);
}

void vrb_answer_try_owed(void)
{
	if (load_relaxed(&owed_due) == VRB_NEVER || !lock_try(&vrb.drive))
		return;
	vrb_answer_owed(clock_now());
	lock_release(&vrb.drive);
}

/* The end of the process is the end of polls. A thread that drives right now pays, or was killed by exit. */
static __attribute__((destructor)) void answer_at_exit(void)
{
	vrb_answer_try_owed();
}

void vrb_answer_forget(void)
{
	list_init(&owed);
	store_relaxed(&owed_due, VRB_NEVER);
}
