/* SPDX-License-Identifier: BSD-2-Clause */
/* A record as a line of text, and what can be asked of any record. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "fault/rule.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "tool.h"
#include "trace.h"
#include "util/compiler.h"
#include "wq/note.h"
#include "wq/reason.h"

struct line {
	char *at;
	size_t left;
};

static void put(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->at, l->left, fmt, ap);
	va_end(ap);
	if (n > 0) {
		size_t used = min((size_t)n, l->left - 1);

		l->at += used;
		l->left -= used;
	}
}

static const char *number(unsigned int n)
{
	static char text[4][12];
	static unsigned int next;
	char *t = text[next++ % 4];

	snprintf(t, sizeof(text[0]), "%u", n);
	return t;
}

static const char *named(const char *const *names, size_t n, unsigned int i)
{
	return i < n && names[i] ? names[i] : number(i);
}

const char *trace_wr_opcode(unsigned int opcode)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "RDMA_WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "RDMA_WRITE_WITH_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
		[IBV_WR_RDMA_READ] = "RDMA_READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "ATOMIC_CMP_AND_SWP",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "ATOMIC_FETCH_AND_ADD",
		[IBV_WR_LOCAL_INV] = "LOCAL_INV",
		[IBV_WR_BIND_MW] = "BIND_MW",
		[IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV",
		[IBV_WR_TSO] = "TSO",
		[IBV_WR_FLUSH] = "FLUSH",
		[IBV_WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
	};

	return named(names, ARRAY_SIZE(names), opcode);
}

const char *trace_wc_opcode(unsigned int opcode)
{
	static const char *const names[] = {
		[IBV_WC_SEND] = "SEND",
		[IBV_WC_RDMA_WRITE] = "RDMA_WRITE",
		[IBV_WC_RDMA_READ] = "RDMA_READ",
		[IBV_WC_COMP_SWAP] = "COMP_SWAP",
		[IBV_WC_FETCH_ADD] = "FETCH_ADD",
		[IBV_WC_BIND_MW] = "BIND_MW",
		[IBV_WC_LOCAL_INV] = "LOCAL_INV",
		[IBV_WC_TSO] = "TSO",
		[IBV_WC_RECV] = "RECV",
		[IBV_WC_RECV_RDMA_WITH_IMM] = "RECV_RDMA_WITH_IMM",
	};

	return named(names, ARRAY_SIZE(names), opcode);
}

const char *trace_packet_opcode(uint8_t opcode)
{
	const char *name = roce_opcode_info(opcode)->name;

	return name ? name : number(opcode);
}

const char *trace_note(unsigned int what)
{
	static const char *const names[] = {
		[NOTE_RETRANSMIT] = "retransmits",
		[NOTE_TIMEOUT] = "no answer in time",
		[NOTE_NAK_SENT] = "sends a NAK",
		[NOTE_NAK_RCVD] = "got a NAK",
		[NOTE_RNR_SENT] = "has no receive, sends an RNR NAK",
		[NOTE_RNR_RCVD] = "peer has no receive: waits",
		[NOTE_WINDOW] = "changes its window",
		[NOTE_CNP_SENT] = "reports congestion",
		[NOTE_CNP_RCVD] = "got a CNP",
		[NOTE_DUPLICATE] = "request came again",
		[NOTE_DROP] = "drops a packet",
		[NOTE_DIRECT] = "runs in the memory of the peer",
		[NOTE_PROBE] = "probes: sends the oldest packet again",
		[NOTE_ERROR] = "fails",
		[NOTE_RATE] = "changes its rate",
		[NOTE_MTU] = "peer has another path_mtu",
	};

	return named(names, ARRAY_SIZE(names), what);
}

const char *trace_kind(unsigned int kind)
{
	static const char *const names[] = {
		[RECORD_CONTEXT] = "context", [RECORD_PD] = "PD",
		[RECORD_MR] = "MR",	      [RECORD_MW] = "MW",
		[RECORD_CHANNEL] = "channel", [RECORD_CQ] = "CQ",
		[RECORD_SRQ] = "SRQ",	      [RECORD_QP] = "QP",
		[RECORD_WQ] = "WQ",	      [RECORD_AH] = "AH",
		[RECORD_XRCD] = "XRCD",	      [RECORD_DM] = "DM",
		[RECORD_COUNTERS] = "counters", [RECORD_FLOW] = "flow",
		[RECORD_PORT] = "port",
	};

	return named(names, ARRAY_SIZE(names), kind);
}

static const char *state_name(unsigned int state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return named(names, ARRAY_SIZE(names), state);
}

static void put_reason(struct line *l, unsigned int reason)
{
	if (reason)
		put(l, ": %s (%u)", reason_str(reason), reason);
}

static void put_verb(struct line *l, const struct record *r)
{
	const struct record_verb *v = r->body;
	const char *name = record_verb_name(v->verb), *error = tool_errno_name((int)v->result);

	put(l, "verb        ibv_%s(", name ? name : number(v->verb));
	for (size_t i = 0; i < r->tail_len / 8; i++) {
		uint64_t arg;

		memcpy(&arg, (const uint8_t *)r->tail + 8 * i, sizeof(arg));
		put(l, arg < 4096 ? "%s%" PRIu64 : "%s0x%" PRIx64, i ? ", " : "", arg);
	}
	put(l, v->result ? ") failed: %s" : ")", error ? error : number(v->result));
	if (v->took)
		put(l, "  %.1f us", (double)v->took / 1000);
}

static void put_object(struct line *l, const struct record_object *o)
{
	static const char *const what[] = { "created", "destroyed", "changed" };

	put(l, "object      %s 0x%x %s", trace_kind(o->kind), o->number,
	    named(what, ARRAY_SIZE(what), o->change));
	if (o->kind == RECORD_QP)
		put(l, ", state %s", state_name(o->state));
	put(l, "  at 0x%" PRIx64, o->handle);
}

static void put_packet(struct line *l, const struct record *r)
{
	const struct record_packet *p = r->body;
	const uint8_t *bth = r->tail;

	put(l, "packet %s  QP 0x%x %s", p->way == RECORD_OUT ? "out" : "in ", p->qpn,
	    p->transport == RECORD_WIRE ? "wire" : "local");
	if (r->tail_len < 12)
		return;
	put(l, " %s PSN %u to QP 0x%x, %u bytes", trace_packet_opcode(bth[0]),
	    bth[9] << 16 | bth[10] << 8 | bth[11], bth[5] << 16 | bth[6] << 8 | bth[7], p->length);
	if (p->kind)
		put(l, ", request %u", p->index);
}

static void put_completion(struct line *l, const struct record_completion *c)
{
	put(l, "completion  %s 0x%x wr_id 0x%" PRIx64 " %s %s", trace_kind(c->kind), c->number,
	    c->wr_id, c->status && c->opcode != IBV_WC_RECV ? "" : trace_wc_opcode(c->opcode),
	    c->status ? ibv_wc_status_str(c->status) : "success");
	if (!c->status)
		put(l, ", %u bytes", c->length);
	put(l, ", CQ %u", c->cqn);
	put_reason(l, c->reason);
}

static void put_engine(struct line *l, const struct record_engine *e)
{
	put(l, "engine      QP 0x%x %s", e->qpn, trace_note(e->what));
	if (e->what == NOTE_DIRECT)
		put(l, ": %u request%s from %u on", e->value, e->value == 1 ? "" : "s", e->psn);
	else if (e->what == NOTE_RATE)
		put(l, e->value ? ": %u kbit/s" : ": no limit", e->value);
	else
		put(l, ", PSN %u", e->psn);
	if (e->what == NOTE_WINDOW)
		put(l, ": %u packets", e->value);
	else if (e->what == NOTE_MTU)
		put(l, ": %u bytes", e->value);
	else if (e->what == NOTE_RNR_RCVD)
		put(l, " %.3f ms", e->value / 1e6);
	else if (e->what == NOTE_TIMEOUT)
		put(l, ", %u retries left", e->value);
	else if (e->what == NOTE_ERROR)
		put(l, ": %s", ibv_wc_status_str(e->value));
	put_reason(l, e->reason);
}

static void put_event(struct line *l, const struct record_event *e)
{
	put(l, "event       %s 0x%x %s", trace_kind(e->kind), e->number,
	    e->event == RECORD_CQ_EVENT ? "completion event" : ibv_event_type_str(e->event));
}

static void put_fault(struct line *l, const struct record *r)
{
	const struct record_fault *f = r->body;

	put(l, "fault       ");
	if (f->qpn)
		put(l, "QP 0x%x ", f->qpn);
	put(l, "rule %u (", f->rule);
	for (size_t i = 0; i < r->tail_len; i++) {
		uint8_t c = ((const uint8_t *)r->tail)[i];

		put(l, "%c", c < ' ' || c >= 0x7f ? '?' : c);
	}
	put(l, ") strikes its number %" PRIu64, f->count);
	if (f->kind == FAULT_PACKET || f->kind == FAULT_MESSAGE)
		put(l, ": %s %s PSN %u", f->direction == FAULT_TX ? "out" : "in",
		    trace_packet_opcode(f->opcode), f->psn);
}

static void put_stack(struct line *l, const struct trace *t, const struct record *r)
{
	char text[TRACE_TEXT];

	trace_stacks_text(t->stacks, r, text, sizeof(text));
	put(l, "stack       %s", text);
}

void trace_text(const struct trace *t, const struct record *r, char text[TRACE_TEXT])
{
	const struct record_send *s = r->body;
	const struct record_recv *v = r->body;
	struct line l = { text, TRACE_TEXT };
	const struct record_type_info *info;

	switch (r->type) {
	case RECORD_VERB:
		put_verb(&l, r);
		break;
	case RECORD_OBJECT:
		put_object(&l, r->body);
		break;
	case RECORD_SEND:
		put(&l, "send        QP 0x%x wr_id 0x%" PRIx64 " %s, %u bytes, request %u", s->qpn,
		    s->wr_id, trace_wr_opcode(s->opcode), s->length, s->index);
		if (s->rkey)
			put(&l, ", rkey 0x%x at 0x%" PRIx64, s->rkey, s->remote_addr);
		break;
	case RECORD_RECV:
		put(&l, "recv        %s 0x%x wr_id 0x%" PRIx64 ", %u bytes, request %u",
		    trace_kind(v->kind), v->number, v->wr_id, v->length, v->index);
		break;
	case RECORD_COMPLETION:
		put_completion(&l, r->body);
		break;
	case RECORD_EVENT:
		put_event(&l, r->body);
		break;
	case RECORD_PACKET:
		put_packet(&l, r);
		break;
	case RECORD_ENGINE:
		put_engine(&l, r->body);
		break;
	case RECORD_FAULT:
		put_fault(&l, r);
		break;
	case RECORD_STACK:
		put_stack(&l, t, r);
		break;
	default:
		info = record_type_info(r->type);
		put(&l, "%s, %zu bytes", info ? info->name : number(r->type),
		    r->body_len + r->tail_len);
	}
}

/* Numbers of CQs, keys and ports may be the same. */
static bool is_queue(unsigned int kind)
{
	return kind == RECORD_QP || kind == RECORD_SRQ || kind == RECORD_WQ;
}

uint32_t trace_qpn(const struct record *r)
{
	switch (r->type) {
	case RECORD_OBJECT:
		return is_queue(((const struct record_object *)r->body)->kind) ?
			       ((const struct record_object *)r->body)->number : 0;
	case RECORD_SEND:
		return ((const struct record_send *)r->body)->qpn;
	case RECORD_RECV:
		return ((const struct record_recv *)r->body)->number;
	case RECORD_COMPLETION:
		return ((const struct record_completion *)r->body)->qpn;
	case RECORD_EVENT:
		return is_queue(((const struct record_event *)r->body)->kind) ?
			       ((const struct record_event *)r->body)->number : 0;
	case RECORD_PACKET:
		return ((const struct record_packet *)r->body)->qpn;
	case RECORD_ENGINE:
		return ((const struct record_engine *)r->body)->qpn;
	case RECORD_FAULT:
		return ((const struct record_fault *)r->body)->qpn;
	default:
		return 0;
	}
}

bool trace_wr_id(const struct record *r, uint64_t *wr_id)
{
	switch (r->type) {
	case RECORD_SEND:
		*wr_id = ((const struct record_send *)r->body)->wr_id;
		return true;
	case RECORD_RECV:
		*wr_id = ((const struct record_recv *)r->body)->wr_id;
		return true;
	case RECORD_COMPLETION:
		*wr_id = ((const struct record_completion *)r->body)->wr_id;
		return true;
	default:
		return false;
	}
}

bool trace_is_receive(const struct record_completion *c)
{
	return c->kind != RECORD_QP || c->opcode & IBV_WC_RECV;
}

bool trace_is_quiet(unsigned int what)
{
	return what == NOTE_DIRECT || what == NOTE_WINDOW || what == NOTE_RATE;
}

bool trace_is_error(const struct record *r)
{
	switch (r->type) {
	case RECORD_VERB:
		return ((const struct record_verb *)r->body)->result != 0;
	case RECORD_COMPLETION:
		return ((const struct record_completion *)r->body)->status != IBV_WC_SUCCESS;
	case RECORD_EVENT:
		return ((const struct record_event *)r->body)->event != RECORD_CQ_EVENT;
	case RECORD_ENGINE:
		return !trace_is_quiet(((const struct record_engine *)r->body)->what);
	case RECORD_FAULT:
		return true;
	default:
		return false;
	}
}
