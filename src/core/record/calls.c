/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs, the objects that they make and end, and events, as records. */
#include <string.h>

#include "core/base/tap.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "core/mem/mw.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/record/recorder.h"
#include "run/clock.h"
#include "util/compiler.h"

/* What a verb does to an object: its result (made), or its first argument. */
static const struct life {
	uint8_t kind;	/* enum record_kind; 0: nothing */
	uint8_t change;	/* enum record_change */
} lives[VERB_END] = {
	[VERB_open_device] = { RECORD_CONTEXT, RECORD_CREATED },
	[VERB_import_device] = { RECORD_CONTEXT, RECORD_CREATED },
	[VERB_close_device] = { RECORD_CONTEXT, RECORD_DESTROYED },
	[VERB_alloc_pd] = { RECORD_PD, RECORD_CREATED },
	[VERB_alloc_parent_domain] = { RECORD_PD, RECORD_CREATED },
	[VERB_import_pd] = { RECORD_PD, RECORD_CREATED },
	[VERB_dealloc_pd] = { RECORD_PD, RECORD_DESTROYED },
	[VERB_reg_mr] = { RECORD_MR, RECORD_CREATED },
	[VERB_reg_mr_iova] = { RECORD_MR, RECORD_CREATED },
	[VERB_reg_mr_ex] = { RECORD_MR, RECORD_CREATED },
	[VERB_reg_dmabuf_mr] = { RECORD_MR, RECORD_CREATED },
	[VERB_reg_dm_mr] = { RECORD_MR, RECORD_CREATED },
	[VERB_alloc_null_mr] = { RECORD_MR, RECORD_CREATED },
	[VERB_import_mr] = { RECORD_MR, RECORD_CREATED },
	[VERB_dereg_mr] = { RECORD_MR, RECORD_DESTROYED },
	[VERB_alloc_mw] = { RECORD_MW, RECORD_CREATED },
	[VERB_dealloc_mw] = { RECORD_MW, RECORD_DESTROYED },
	[VERB_alloc_dm] = { RECORD_DM, RECORD_CREATED },
	[VERB_import_dm] = { RECORD_DM, RECORD_CREATED },
	[VERB_free_dm] = { RECORD_DM, RECORD_DESTROYED },
	[VERB_create_comp_channel] = { RECORD_CHANNEL, RECORD_CREATED },
	[VERB_destroy_comp_channel] = { RECORD_CHANNEL, RECORD_DESTROYED },
	[VERB_create_cq] = { RECORD_CQ, RECORD_CREATED },
	[VERB_create_cq_ex] = { RECORD_CQ, RECORD_CREATED },
	[VERB_destroy_cq] = { RECORD_CQ, RECORD_DESTROYED },
	[VERB_create_srq] = { RECORD_SRQ, RECORD_CREATED },
	[VERB_create_srq_ex] = { RECORD_SRQ, RECORD_CREATED },
	[VERB_destroy_srq] = { RECORD_SRQ, RECORD_DESTROYED },
	[VERB_create_qp] = { RECORD_QP, RECORD_CREATED },
	[VERB_create_qp_ex] = { RECORD_QP, RECORD_CREATED },
	[VERB_open_qp] = { RECORD_QP, RECORD_CREATED },
	[VERB_modify_qp] = { RECORD_QP, RECORD_STATE },
	[VERB_destroy_qp] = { RECORD_QP, RECORD_DESTROYED },
	[VERB_create_wq] = { RECORD_WQ, RECORD_CREATED },
	[VERB_modify_wq] = { RECORD_WQ, RECORD_STATE },
	[VERB_destroy_wq] = { RECORD_WQ, RECORD_DESTROYED },
	[VERB_create_ah] = { RECORD_AH, RECORD_CREATED },
	[VERB_create_ah_from_wc] = { RECORD_AH, RECORD_CREATED },
	[VERB_destroy_ah] = { RECORD_AH, RECORD_DESTROYED },
	[VERB_open_xrcd] = { RECORD_XRCD, RECORD_CREATED },
	[VERB_close_xrcd] = { RECORD_XRCD, RECORD_DESTROYED },
	[VERB_create_counters] = { RECORD_COUNTERS, RECORD_CREATED },
	[VERB_destroy_counters] = { RECORD_COUNTERS, RECORD_DESTROYED },
	[VERB_create_flow] = { RECORD_FLOW, RECORD_CREATED },
	[VERB_destroy_flow] = { RECORD_FLOW, RECORD_DESTROYED },
};

/*
 * The calls of the data path have records of their own: only failures are told as calls, and how
 * long they took is not measured.
 */
static bool is_traffic(enum verb verb)
{
	return verb == VERB_post_send || verb == VERB_post_recv || verb == VERB_post_srq_recv ||
	       verb == VERB_post_srq_ops || verb == VERB_post_wq_recv || verb == VERB_wr_complete;
}

static bool is_poll(enum verb verb)
{
	return verb == VERB_poll_cq || verb == VERB_start_poll || verb == VERB_next_poll;
}

/* Work requests have records of their own, and an empty CQ is not worth one. */
static bool is_silent(const struct tap_call *call)
{
	if (call->verb == VERB_poll_cq)
		return !call->err && !call->object;
	if (is_poll(call->verb))
		return call->err == ENOENT;
	return is_traffic(call->verb) && !call->err;
}

static void describe_qp(struct record_object *o, const struct ibv_qp *ibv)
{
	const struct vrb_qp *qp = to_vrb_qp((struct ibv_qp *)ibv)->config.target;

	o->number = ibv->qp_num;
	o->parent = (uintptr_t)ibv->pd;
	o->state = qp ? qp->wq.state : ibv->state;
	o->reason = ibv->qp_type;
}

/* o->handle is an object that exists. */
static void describe(struct record_object *o)
{
	const void *object = (const void *)(uintptr_t)o->handle;

	switch (o->kind) {
	case RECORD_MR:
		o->number = ((const struct ibv_mr *)object)->lkey;
		o->parent = (uintptr_t)((const struct ibv_mr *)object)->pd;
		break;
	case RECORD_MW:
		o->number = ((const struct ibv_mw *)object)->rkey;
		o->parent = (uintptr_t)((const struct ibv_mw *)object)->pd;
		break;
	case RECORD_CQ:
		o->number = ((const struct ibv_cq *)object)->handle;
		o->parent = (uintptr_t)((const struct ibv_cq *)object)->context;
		break;
	case RECORD_SRQ:
		o->number = ((const struct vrb_srq *)object)->srqn;
		o->parent = (uintptr_t)((const struct vrb_srq *)object)->pd;
		break;
	case RECORD_WQ:
		o->number = ((const struct ibv_wq *)object)->wq_num;
		o->parent = (uintptr_t)((const struct ibv_wq *)object)->pd;
		o->state = ((const struct ibv_wq *)object)->state;
		break;
	case RECORD_PD:
		o->parent = (uintptr_t)((const struct ibv_pd *)object)->context;
		break;
	case RECORD_AH:
		o->parent = (uintptr_t)((const struct ibv_ah *)object)->pd;
		break;
	case RECORD_QP:
		describe_qp(o, object);
		break;
	}
}

/*
 * An object that ends is described while it is there: the call may free it. Its description waits
 * with the thread for the call's success.
 */
static __thread struct record_object ending static_tls;

bool vrb_record_enter(struct tap_call *call)
{
	const struct life *life = &lives[call->verb];

	call->entered = 0;
	if (is_traffic(call->verb) || is_poll(call->verb))
		return true;
	call->entered = clock_now();
	ending.kind = 0;
	if (!life->kind || life->change != RECORD_DESTROYED || !call->args || !call->arg[0])
		return true;
	ending = (struct record_object){
		.handle = call->arg[0], .kind = life->kind, .change = life->change };
	if (vrb_live_has((const void *)(uintptr_t)call->arg[0]))
		describe(&ending);
	return true;
}

static void put_object(struct recorder *r, const struct record_object *o, uint64_t now)
{
	struct record_object *out = recorder_reserve(r, sizeof(*o));

	if (!out)
		return;
	*out = *o;
	record_commit(&r->writer, RECORD_OBJECT, sizeof(*o), now);
}

static void tell_life(struct recorder *r, const struct tap_call *call, uint64_t now)
{
	const struct life *life = &lives[call->verb];
	struct record_object o = { .kind = life->kind, .change = life->change };

	if (life->change == RECORD_DESTROYED) {
		if (ending.kind)
			put_object(r, &ending, now);
		return;
	}
	o.handle = life->change == RECORD_CREATED ? call->object : call->arg[0];
	if (!o.handle)
		return;
	describe(&o);
	put_object(r, &o, now);
}

static void tell_call(struct recorder *r, const struct tap_call *call, uint64_t now)
{
	size_t tail = call->args * sizeof(*call->arg);
	struct record_verb *v = recorder_reserve(r, sizeof(*v) + tail);

	if (!v)
		return;
	*v = (struct record_verb){
		.verb = call->verb,
		.result = call->err,
		.took = call->entered ? now - call->entered : 0,
	};
	memcpy(v + 1, call->arg, tail);
	/* The completions that it took, in place of the array that they were put in. */
	if (call->verb == VERB_poll_cq)
		((uint64_t *)(v + 1))[2] = call->object;
	record_commit(&r->writer, RECORD_VERB, sizeof(*v) + tail, now);
}

void vrb_record_leave(struct tap_call *call)
{
	struct recorder *r;
	uint64_t now;

	if (is_silent(call))
		return;
	r = vrb_recorder(CONFIG_RECORD_VERBS);
	if (!r)
		return;
	now = call->entered ? clock_now() : recorder_now(r);
	tell_call(r, call, now);
	if (!call->err && lives[call->verb].kind)
		tell_life(r, call, now);
}

void vrb_record_event(const struct tap_event *e)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_VERBS);
	struct record_event *out = r ? recorder_reserve(r, sizeof(*out)) : NULL;

	if (!out)
		return;
	*out = (struct record_event){ .handle = (uintptr_t)e->context, .kind = RECORD_PORT };
	if (!e->async) {
		*out = (struct record_event){ (uintptr_t)e->cq, e->cq->ibv.handle, RECORD_CQ,
					      RECORD_CQ_EVENT };
		goto commit;
	}
	out->event = (uint16_t)e->async->event_type;
	switch (vrb_event_object(e->async->event_type)) {
	case VRB_EVENT_OF_CQ:
		out->kind = RECORD_CQ;
		out->handle = (uintptr_t)e->async->element.cq;
		out->number = e->async->element.cq->handle;
		break;
	case VRB_EVENT_OF_SRQ:
		out->kind = RECORD_SRQ;
		out->handle = (uintptr_t)e->async->element.srq;
		out->number = to_vrb_srq(e->async->element.srq)->srqn;
		break;
	case VRB_EVENT_OF_WQ:
		out->kind = RECORD_WQ;
		out->handle = (uintptr_t)e->async->element.wq;
		out->number = e->async->element.wq->wq_num;
		break;
	case VRB_EVENT_OF_QP:
		out->kind = RECORD_QP;
		out->handle = (uintptr_t)e->async->element.qp;
		out->number = e->async->element.qp->qp_num;
		break;
	case VRB_EVENT_OF_PORT:
		out->number = (uint32_t)e->async->element.port_num;
		break;
	}
commit:
	record_commit(&r->writer, RECORD_EVENT, sizeof(*out), clock_now());
}
