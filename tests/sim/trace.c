/* SPDX-License-Identifier: BSD-2-Clause */
/* See trace.h. */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "roce/opcode.h"
#include "util/compiler.h"

static const char *const kind_name[] = {
	[TRACE_SEND] = "->", [TRACE_RECV] = "<-", [TRACE_LOST] = "LOST", [TRACE_DUP] = "DUP",
	[TRACE_FLIPPED] = "FLIP", [TRACE_FULL] = "FULL", [TRACE_BAD_ICRC] = "ICRC",
	[TRACE_NO_QP] = "NOQP", [TRACE_POST_SEND] = "post_send", [TRACE_POST_RECV] = "post_recv",
	[TRACE_CQE] = "cqe", [TRACE_EVENT] = "event", [TRACE_TIMEOUT] = "timeout",
	[TRACE_STATE] = "state",
};

static struct trace_rec *next_rec(struct trace *t, uint64_t now, enum trace_kind kind,
				  unsigned int host)
{
	struct trace_rec *r = &t->rec[t->count++ % TRACE_SIZE];

	*r = (struct trace_rec){ .time = now, .kind = kind, .host = host };
	return r;
}

static const char *const status_name[] = {
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
	"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR",
	"REM_OP_ERR", "RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",
	"REM_INV_RD_REQ_ERR", "REM_ABORT_ERR", "INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR",
	"RESP_TIMEOUT_ERR", "GENERAL_ERR",
};

const char *trace_status(uint32_t status)
{
	return status < ARRAY_SIZE(status_name) ? status_name[status] : "?";
}

bool trace_has_aeth(uint8_t opcode)
{
	return roce_has(roce_opcode_info(opcode), ROCE_HDR_AETH);
}

void trace_packet(struct trace *t, uint64_t now, enum trace_kind kind, unsigned int host,
		  uint64_t serial, const struct roce_pkt *pkt)
{
	struct trace_rec *r = next_rec(t, now, kind, host);

	r->serial = serial;
	r->opcode = pkt->bth.opcode;
	r->psn = pkt->bth.psn;
	r->qpn = pkt->bth.dest_qpn;
	r->ack_req = pkt->bth.ack_req;
	r->solicited = pkt->bth.solicited;
	r->len = (pkt->bth.opcode & 31) == 12 ? pkt->reth.len : pkt->payload_len;
	r->syndrome = pkt->aeth.syndrome;
	r->msn = pkt->aeth.msn;
}

void trace_cqe(struct trace *t, uint64_t now, unsigned int host, uint32_t qpn,
	       const struct wq_cqe *cqe)
{
	struct trace_rec *r = next_rec(t, now, TRACE_CQE, host);

	r->serial = cqe->wr_id;
	r->qpn = qpn;
	r->status = cqe->status;
	r->reason = cqe->reason;
	r->len = cqe->byte_len;
	r->opcode = cqe->opcode;
	r->recv = cqe->recv;
}

void trace_note(struct trace *t, uint64_t now, enum trace_kind kind, unsigned int host,
		uint32_t qpn, uint64_t serial, uint32_t status, uint32_t len)
{
	struct trace_rec *r = next_rec(t, now, kind, host);

	r->qpn = qpn;
	r->serial = serial;
	r->status = status;
	r->len = len;
}

static void print_packet(const struct trace_rec *r)
{
	const char *name = roce_opcode_info(r->opcode)->name;

	fprintf(stderr, "#%llu qp 0x%x %s psn 0x%06x len %u%s%s", (unsigned long long)r->serial,
		r->qpn, name ? name : "?", r->psn, r->len, r->ack_req ? " A" : "",
		r->solicited ? " SE" : "");
	if (trace_has_aeth(r->opcode))
		fprintf(stderr, " syn 0x%02x msn %u", r->syndrome, r->msn);
}

static void print_rec(const struct trace_rec *r)
{
	fprintf(stderr, "%10llu.%03llu us h%u %-9s ", (unsigned long long)(r->time / 1000),
		(unsigned long long)(r->time % 1000), r->host, kind_name[r->kind]);
	if (r->kind <= TRACE_NO_QP)
		print_packet(r);
	else if (r->kind == TRACE_CQE)
		fprintf(stderr, "qp 0x%x %s wr_id 0x%llx status %u (%s) opcode %u len %u reason %s",
			r->qpn, r->recv ? "recv" : "send", (unsigned long long)r->serial, r->status,
			trace_status(r->status), r->opcode, r->len,
			reason_name(r->reason) ? reason_name(r->reason) : "?");
	else
		fprintf(stderr, "qp 0x%x id 0x%llx value %u len %u", r->qpn,
			(unsigned long long)r->serial, r->status, r->len);
	fputc('\n', stderr);
}

void trace_print(const struct trace *t)
{
	const char *wanted = getenv("VERBENA_LOG");
	uint64_t last = wanted ? strtoull(wanted, NULL, 0) : 200;
	uint64_t kept = min(t->count, (uint64_t)TRACE_SIZE), n = min(kept, last);

	fprintf(stderr, "--- last %llu of %llu records\n", (unsigned long long)n,
		(unsigned long long)t->count);
	for (uint64_t i = t->count - n; i < t->count; i++)
		print_rec(&t->rec[i % TRACE_SIZE]);
}
