/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a place tells becomes an occasion; what the plan decides is done at once, or, where more
 * locks are needed than the place allows, when the verb returns, or else by the progress thread.
 */
#include "core/fault/taps.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/fault/control.h"
#include "core/fault/effects.h"
#include "core/fault/held.h"
#include "core/fault/mads.h"
#include "core/fault/plan.h"
#include "core/qp/qp.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/tuning.h"
#include "wq/message.h"

/* The thread is in a verb, which settles what is pending when it returns. */
static __thread bool in_verb;

static void settle_soon(void)
{
	if (vrb_faults_pending() && !in_verb)
		vrb_fault_control_poke();
}

/* ---- verbs and work requests ---- */

static bool enter(struct tap_call *call)
{
	in_verb = true;
	if (!vrb_faults_on(FAULT_VERB))
		return true;
	call->err = vrb_fault_verb(call->verb);
	return call->err == 0;
}

static void leave(struct tap_call *call)
{
	in_verb = false;
	vrb_held_release();
	if (!vrb_faults_pending())
		return;
	vrb_fault_control_poke();	/* a stall stops the progress thread, too */
	vrb_faults_do_pending();
}

static struct fault_queue queue_of(const struct vrb_qp *qp, enum fault_direction direction)
{
	return (struct fault_queue){
		.qpn = qp ? qp->wq.qpn : 0,
		.qp_index = qp ? qp->config.place : 0,
		.direction = direction,
	};
}

static int post(const struct tap_post *p)
{
	const struct fault_queue queue = queue_of(p->qp, p->send ? FAULT_TX : FAULT_RX);
	int err = vrb_faults_on(FAULT_WR) ? vrb_fault_wr(&queue) : 0;

	settle_soon();
	return err;
}

/* ---- completions ---- */

/* The requests after a failed one complete in error, though they were not asked to complete. */
static void signal_rest(struct vrb_qp *qp)
{
	struct send_queue *sq = &qp->wq.sq;

	for (uint32_t i = sq->done; i != sq->head; i++)
		sq_wqe(sq, i)->flags |= WQE_SIGNALED;
}

static void fail_completion(struct wq_cqe *wc, enum ibv_wc_status status, uint32_t why)
{
	wc->status = status;
	wc->reason = (enum reason)why;
	wc->byte_len = 0;
	wc->wc_flags = 0;
}

static void complete(struct tap_completion *c)
{
	struct vrb_qp *qp = c->qp;
	struct fault_queue queue;
	struct fault_hit hit;

	if (!qp)
		return;
	if (unlikely(qp->comp.failing)) {
		if (c->wc->status == IBV_WC_SUCCESS)
			fail_completion(c->wc, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
		return;
	}
	queue = queue_of(qp, c->wc->recv ? FAULT_RX : FAULT_TX);
	if (vrb_faults_on(FAULT_COMPLETION) && vrb_fault_completion(&queue, &hit)) {
		fail_completion(c->wc, (enum ibv_wc_status)hit.action.value,
				hit.action.vendor_err);
		qp->comp.failing = true;
		signal_rest(qp);
		vrb_faults_fail_later(qp->wq.qpn);
	}
	settle_soon();
}

/* ---- packets and messages ---- */

static struct fault_packet describe(const struct tap_packet *p, enum fault_direction direction)
{
	struct fault_packet f = { .queue = queue_of(p->qp, direction) };

	if (p->pkt) {
		f.opcode = p->pkt->bth.opcode;
		f.psn = p->pkt->bth.psn;
	} else if (p->data && p->len >= ROCE_BTH_LEN) {
		f.opcode = roce_opcode_of(p->data);
		f.psn = roce_psn_of(p->data);
	} else if (p->message) {
		f.opcode = ROCE_RC_SEND_ONLY;
		f.psn = p->message->psn;
	}
	return f;
}

static bool duplicate(const struct tap_packet *p, enum fault_direction direction, uint64_t n)
{
	while (n-- && vrb_held_keep(p, direction, 0, 0))
		;
	return true;
}

/* Of payload that stays with the sender there is no copy to keep: it is lost, and sent again. */
static bool later(const struct tap_packet *p, enum fault_direction direction, uint64_t delay,
		  uint64_t overtake)
{
	if (!p->pulled)
		vrb_held_keep(p, direction, time_after(clock_now(), delay), overtake);
	return false;
}

/* False: the packet does not pass. */
static bool act(struct tap_packet *p, enum fault_direction direction, const struct fault_hit *hit)
{
	switch (hit->action.what) {
	case FAULT_DUPLICATE:
		return duplicate(p, direction, p->pulled ? 0 : hit->action.value);
	case FAULT_DELAY:
		return later(p, direction, hit->action.value, 0);
	case FAULT_REORDER:
		return later(p, direction, LIMIT_FAULT_REORDER, hit->action.value);
	case FAULT_CORRUPT:
		p->flip = p->wire && direction == FAULT_TX;
		p->flip_bit = (uint32_t)hit->random;
		/* Elsewhere the ICRC that would find it has been checked, or there is none. */
		return p->flip;
	case FAULT_MARK:
		p->mark = true;
		return true;
	default:
		return false;
	}
}

static bool pass(struct tap_packet *p, enum fault_direction direction)
{
	enum fault_kind kind = p->wire ? FAULT_PACKET : FAULT_MESSAGE;
	struct fault_packet f;
	struct fault_hit hit;
	bool passes = true, hits;

	if (!p->qp || vrb_held_returns)
		return true;
	if (!vrb_fault_port_up(p->qp))
		return false;
	if (vrb_faults_on(kind)) {
		f = describe(p, direction);
		hits = kind == FAULT_PACKET ? vrb_fault_packet(&f, &hit) :
					      vrb_fault_message(&f, &hit);
		passes = !hits || act(p, direction, &hit);
	}
	if (passes)
		vrb_held_overtaken(p->qp->wq.qpn, direction);
	settle_soon();
	return passes;
}

static bool out(struct tap_packet *p)
{
	return pass(p, FAULT_TX);
}

static bool in(struct tap_packet *p)
{
	return pass(p, FAULT_RX);
}

static const struct tap_ops ops = {
	.enter = enter,
	.leave = leave,
	.post = post,
	.complete = complete,
	.out = out,
	.in = in,
	.mad = vrb_fault_mad,
};

/* Contexts that are opened later are tapped then. */
static void tap_contexts(void)
{
	void (*table)(struct verbs_context *vctx) = load_acquire(&vrb_tap_table);
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);

		if (table)
			table(&c->vctx);
		if (table && c->origin)	/* whose tables the program uses */
			table(&c->origin->vctx);
	}
	pthread_mutex_unlock(&vrb.lock);
}

void vrb_fault_taps_update(void)
{
	uint32_t kinds = load_relaxed(&vrb_fault_kinds);

	store_release(&vrb_fault_effects, &vrb_fault_all_effects);
	store_relaxed(&vrb_tap_whole, kinds >> FAULT_MESSAGE & 1);
	if (!kinds)
		return;
	vrb_tap_attach(TAP_FAULT, &ops);
	tap_contexts();
}

/* For `verbena fault sweep`: what the program did not destroy. */
static void tell_open_objects(void)
{
	unsigned int n = 0;
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);

		pthread_mutex_lock(&c->lock);
		n += 1 + vrb_context_objects(c);
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_unlock(&vrb.lock);
	log_info(LOG_FAULT, "exit: %u objects are open", n);
}

static void start(void)
{
	vrb_faults_start();
	vrb_fault_taps_update();
	if (load_relaxed(&vrb_fault_kinds))
		atexit(tell_open_objects);
}

void vrb_fault_taps_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start);
}
