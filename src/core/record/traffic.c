/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests, completions, packets, the engine's reasons and faults, as records. */
#include <string.h>

#include "core/base/context.h"
#include "core/base/tap.h"
#include "core/cq/cq.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/record/recorder.h"
#include "roce/const.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "util/compiler.h"
#include "wq/message.h"
#include "wq/note.h"

enum {
	KEPT = 192,	/* bytes of a packet without CONFIG_RECORD_MEMORY: headers, some payload */
	GSI_QPN = 1,
};

/* False: there is no room for it. */
static bool put_send(struct recorder *r, const struct tap_post *post)
{
	const struct send_wqe *w = post->send;
	struct record_send *s = recorder_reserve(r, sizeof(*s));

	if (!s)
		return false;
	*s = (struct record_send){
		.wr_id = w->wr_id,
		.remote_addr = w->remote_addr,
		.qpn = post->qp->wq.qpn,
		.index = post->index,
		.length = w->length,
		.rkey = w->rkey,
		.imm = w->imm,
		.flags = (w->flags & WR_SEND_FLAGS) |
			 (w->flags & WQE_SIGNALED ? IBV_SEND_SIGNALED : 0),
		.opcode = (uint16_t)w->opcode,
		.num_sge = (uint16_t)w->num_sge,
	};
	record_commit(&r->writer, RECORD_SEND, sizeof(*s), recorder_now(r));
	return true;
}

static bool put_recv(struct recorder *r, const struct tap_post *post)
{
	struct record_recv *s = recorder_reserve(r, sizeof(*s));

	if (!s)
		return false;
	*s = (struct record_recv){
		.wr_id = post->recv->wr_id,
		.number = post->qp ? post->qp->wq.qpn : post->srq->srqn,
		.index = post->index,
		.length = post->recv->length,
		.kind = post->qp ? RECORD_QP : RECORD_SRQ,
		.num_sge = (uint16_t)post->recv->num_sge,
	};
	record_commit(&r->writer, RECORD_RECV, sizeof(*s), recorder_now(r));
	return true;
}

/* Its modules are told before the request, so that the stack follows that at once. */
static void put_stacked(struct recorder *r, const struct tap_post *post)
{
	void *frame[RECORD_DEPTH], *out;
	size_t len = vrb_record_stack(r, frame) * sizeof(*frame);

	if (!(post->send ? put_send(r, post) : put_recv(r, post)) || !len)
		return;
	out = recorder_reserve(r, len);
	if (!out)
		return;
	memcpy(out, frame, len);
	record_commit(&r->writer, RECORD_STACK, len, recorder_now(r));
}

int vrb_record_post(const struct tap_post *post)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_VERBS);

	if (!r)
		return 0;
	if (unlikely(vrb_record_what & CONFIG_RECORD_STACKS))
		put_stacked(r, post);
	else if (post->send)
		put_send(r, post);
	else
		put_recv(r, post);
	return 0;
}

void vrb_record_complete(struct tap_completion *c)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_VERBS);
	struct record_completion *out = r ? recorder_reserve(r, sizeof(*out)) : NULL;

	if (!out)
		return;
	*out = (struct record_completion){
		.wr_id = c->wc->wr_id,
		.qpn = c->qp ? c->qp->wq.qpn : 0,
		.cqn = c->cq ? c->cq->ibv.handle : 0,
		.number = c->srq ? c->srq->srqn : c->qp ? c->qp->wq.qpn : 0,
		.index = c->index,
		.length = c->wc->byte_len,
		.flags = c->wc->wc_flags,
		.kind = c->srq ? RECORD_SRQ : RECORD_QP,
		.opcode = (uint16_t)c->wc->opcode,
		.status = (uint16_t)c->wc->status,
		.reason = (uint16_t)c->wc->reason,
	};
	record_commit(&r->writer, RECORD_COMPLETION, sizeof(*out), recorder_now(r));
}

/* ---------------------------------------------------------------- packets */

/* The request of a packet that leaves; the newest first, since most are. */
static uint32_t request_of(const struct vrb_qp *qp, uint32_t psn)
{
	const struct send_queue *sq = &qp->wq.sq;

	for (uint32_t i = sq->next; i != sq->done; i--) {
		const struct send_wqe *w = sq_wqe(sq, i - 1);

		if (!(w->flags & WQE_EXECUTED) &&
		    psn_distance(w->first_psn, psn) <= psn_distance(w->first_psn, w->last_psn))
			return i - 1;
	}
	return TAP_NO_INDEX;
}

struct shown {
	const uint8_t *headers;
	uint32_t headers_len;
	const uint8_t *payload;
	uint32_t payload_len;	/* as much as there is to keep */
	uint32_t length;	/* of the packet, with ICRC */
};

/* As many bytes of the two parts as are kept; returns their number. */
static uint32_t keep(struct shown *s)
{
	uint32_t most = vrb_record_what & CONFIG_RECORD_MEMORY ? ROCE_MAX_PACKET : KEPT;

	s->headers_len = min(s->headers_len, most);
	s->payload_len = min(s->payload_len, most - s->headers_len);
	return s->headers_len + s->payload_len;
}

static void put_packet(struct recorder *r, const struct tap_packet *p, enum record_way way,
		       const struct net_path *path, struct shown *s, uint32_t index)
{
	uint32_t kept = keep(s);
	uint64_t now = recorder_now(r);
	const struct vrb_device *dev = p->qp && p->qp->config.ctx ? p->qp->config.ctx->dev : NULL;
	uint32_t id = path ? recorder_path(r, path, dev, now) : 0;
	struct record_packet *out = recorder_reserve(r, sizeof(*out) + kept);
	uint8_t *tail = (uint8_t *)(out + 1);

	if (!out)
		return;
	*out = (struct record_packet){
		.qpn = p->qp ? p->qp->wq.qpn : GSI_QPN,
		.path = id,
		.index = index,
		.length = s->length,
		.way = (uint8_t)way,
		.transport = p->wire ? RECORD_WIRE : RECORD_LOCAL,
		.kind = index == TAP_NO_INDEX ? 0 : RECORD_QP,
	};
	memcpy(tail, s->headers, s->headers_len);
	if (s->payload_len)
		memcpy(tail + s->headers_len, s->payload, s->payload_len);
	record_commit(&r->writer, RECORD_PACKET, sizeof(*out) + kept, now);
}

/* A message as the packet that it stands for. */
static void show_message(struct shown *s, const struct roce_pkt *pkt, uint8_t headers[ROCE_MAX_HDR])
{
	uint32_t pad = -pkt->payload_len & 3;

	s->headers = headers;
	s->headers_len = (uint32_t)roce_encode_headers(headers, pkt);
	s->payload = pkt->payload;
	s->payload_len = pkt->payload_len;
	s->length = s->headers_len + pkt->payload_len + pad + ROCE_ICRC_LEN;
}

static void show_bytes(struct shown *s, const struct tap_packet *p)
{
	*s = (struct shown){ .headers = p->data,
			     .headers_len = p->len,
			     .length = p->len + p->pulled + ROCE_ICRC_LEN };
}

/* BTH: opcode in the first byte, PSN in the last three of twelve. */
static uint32_t psn_of(const uint8_t *bth)
{
	return (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
}

bool vrb_record_out(struct tap_packet *p)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_PACKETS);
	uint8_t headers[ROCE_MAX_HDR];
	uint32_t index = TAP_NO_INDEX;
	struct roce_pkt pkt;
	struct shown s;

	if (!r)
		return true;
	if (p->message) {
		roce_message_packet(p->message, &pkt);
		show_message(&s, &pkt, headers);
	} else {
		show_bytes(&s, p);
	}
	if (p->qp && roce_is_request(roce_opcode_info(s.headers[0])))
		index = request_of(p->qp, psn_of(s.headers));
	put_packet(r, p, RECORD_OUT, p->path ? p->path : p->qp ? &p->qp->wq.path : NULL, &s, index);
	return true;
}

bool vrb_record_in(struct tap_packet *p)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_PACKETS);
	uint8_t headers[ROCE_MAX_HDR];
	struct shown s;

	if (!r)
		return true;
	if (p->data)
		show_bytes(&s, p);
	else
		show_message(&s, p->pkt, headers);
	put_packet(r, p, RECORD_IN, p->path, &s, TAP_NO_INDEX);
	return true;
}

/* ---------------------------------------------------------------- the engine */

static void put_note(const struct vrb_qp *qp, const struct record_engine *e)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_ENGINE);
	struct record_engine *out = r ? recorder_reserve(r, sizeof(*out)) : NULL;

	if (!out)
		return;
	*out = *e;
	out->qpn = qp->wq.qpn;
	record_commit(&r->writer, RECORD_ENGINE, sizeof(*out), recorder_now(r));
}

void vrb_record_direct(struct vrb_qp *qp, unsigned int n)
{
	put_note(qp, &(struct record_engine){
			     .psn = qp->wq.sq.next, .what = NOTE_DIRECT, .value = n });
}

void vrb_record_note(struct vrb_qp *qp, const struct wq_note *note)
{
	put_note(qp, &(struct record_engine){ .psn = note->psn,
					      .what = (uint16_t)note->what,
					      .reason = (uint16_t)note->why,
					      .value = note->value });
}

/* Of what the recording is about, whichever part of that. */
void vrb_record_fault(const struct tap_fault *f)
{
	struct recorder *r = vrb_recorder(CONFIG_RECORD_VERBS | CONFIG_RECORD_PACKETS |
					  CONFIG_RECORD_ENGINE);
	size_t len = strlen(f->rule);
	struct record_fault *out = r ? recorder_reserve(r, sizeof(*out) + len) : NULL;

	if (!out)
		return;
	*out = (struct record_fault){
		.count = f->count,
		.qpn = f->qpn,
		.rule = f->number,
		.kind = f->kind,
		.what = f->what,
		.direction = f->direction,
		.opcode = f->opcode,
		.psn = f->psn,
	};
	memcpy(out + 1, f->rule, len);
	record_commit(&r->writer, RECORD_FAULT, sizeof(*out) + len, recorder_now(r));
}
