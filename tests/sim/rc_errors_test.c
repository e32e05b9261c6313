/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each class of error of the reliable service: the status and reason of the requester's completion,
 * the responder's reaction, what is flushed and in which order, and the events (IBTA vol 1, 9.9.2
 * and 9.9.3, 10.10 and 11.6.3).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pair.h"
#include "util/compiler.h"

enum { ACK_OK = 0, NAK_INVALID = 0x61, NAK_ACCESS = 0x62, NAK_OPERATION = 0x63 };

/* What is wrong in a row. */
enum fault {
	BAD_RKEY, BAD_RKEY_PD, BAD_RANGE, BELOW_RANGE, WRAPPED_RANGE, MR_RIGHTS, QP_RIGHTS,
	OTHER_QPS_WINDOW, RECV_SMALL, RECV_BAD_LKEY, RECV_NO_WRITE, BAD_LKEY,
	LKEY_RANGE, LKEY_PD, LKEY_NO_WRITE, UNALIGNED, ATOMIC_SIZE, ZERO_RD_ATOMIC, TOO_LONG,
	BAD_OPCODE, BAD_LOCAL_INV,
};

struct row {
	const char *name;
	enum fault fault;
	uint32_t opcode;
	uint32_t len;
	enum ibv_wc_status status;	/* of the request */
	enum reason why;
	uint8_t nak;                    /* syndrome; 0: the requester itself detects the fault */
	enum ibv_event_type event;      /* at the responder; 0: none */
	enum ibv_wc_status recv;	/* of the responder's first receive */
};

#define ACC_EVENT IBV_EVENT_QP_ACCESS_ERR
#define REQ_EVENT IBV_EVENT_QP_REQ_ERR
#define FLUSH IBV_WC_WR_FLUSH_ERR
#define LOCAL 0, 0, FLUSH

static const struct row rows[] = {
	{ "write, unknown rkey", BAD_RKEY, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "long write, unknown rkey", BAD_RKEY, IBV_WR_RDMA_WRITE, 5000, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "read, unknown rkey", BAD_RKEY, IBV_WR_RDMA_READ, 100, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "atomic, unknown rkey", BAD_RKEY, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "atomic write, unknown rkey", BAD_RKEY, IBV_WR_ATOMIC_WRITE, 8, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "flush, unknown rkey", BAD_RKEY, IBV_WR_FLUSH, 8, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write, rkey of another PD", BAD_RKEY_PD, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write behind the end", BAD_RANGE, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "long write behind the end", BAD_RANGE, IBV_WR_RDMA_WRITE, 9000, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "read behind the end", BAD_RANGE, IBV_WR_RDMA_READ, 9000, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write before the start", BELOW_RANGE, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write across 2^64", WRAPPED_RANGE, IBV_WR_RDMA_WRITE, 5000, IBV_WC_REM_ACCESS_ERR,
	  REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write, region without the right", MR_RIGHTS, IBV_WR_RDMA_WRITE, 100,
	  IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "read, region without the right", MR_RIGHTS, IBV_WR_RDMA_READ, 100,
	  IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "atomic, region without the right", MR_RIGHTS, IBV_WR_ATOMIC_CMP_AND_SWP, 8,
	  IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write with immediate, region without the right", MR_RIGHTS, IBV_WR_RDMA_WRITE_WITH_IMM,
	  100, IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, 0,
	  IBV_WC_LOC_ACCESS_ERR },
	{ "write, window of another QP", OTHER_QPS_WINDOW, IBV_WR_RDMA_WRITE, 100,
	  IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS, NAK_ACCESS, ACC_EVENT, FLUSH },
	{ "write, QP without the right", QP_RIGHTS, IBV_WR_RDMA_WRITE, 100, IBV_WC_REM_INV_REQ_ERR,
	  REASON_NAK_INVALID_REQUEST, NAK_INVALID, REQ_EVENT, FLUSH },
	{ "read, QP without the right", QP_RIGHTS, IBV_WR_RDMA_READ, 100, IBV_WC_REM_INV_REQ_ERR,
	  REASON_NAK_INVALID_REQUEST, NAK_INVALID, REQ_EVENT, FLUSH },
	{ "atomic, QP without the right", QP_RIGHTS, IBV_WR_ATOMIC_FETCH_AND_ADD, 8,
	  IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST, NAK_INVALID, REQ_EVENT, FLUSH },
	{ "send longer than the receive", RECV_SMALL, IBV_WR_SEND, 100, IBV_WC_REM_INV_REQ_ERR,
	  REASON_NAK_INVALID_REQUEST, NAK_INVALID, 0, IBV_WC_LOC_LEN_ERR },
	{ "long send longer than the receive", RECV_SMALL, IBV_WR_SEND, 5000,
	  IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST, NAK_INVALID, 0, IBV_WC_LOC_LEN_ERR },
	{ "receive with an unknown lkey", RECV_BAD_LKEY, IBV_WR_SEND, 100, IBV_WC_REM_OP_ERR,
	  REASON_NAK_REMOTE_OPERATION, NAK_OPERATION, 0, IBV_WC_LOC_PROT_ERR },
	{ "receive into read-only memory", RECV_NO_WRITE, IBV_WR_SEND, 100, IBV_WC_REM_OP_ERR,
	  REASON_NAK_REMOTE_OPERATION, NAK_OPERATION, 0, IBV_WC_LOC_PROT_ERR },
	{ "send, unknown lkey", BAD_LKEY, IBV_WR_SEND, 100, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_UNKNOWN, LOCAL },
	{ "long write, unknown lkey", BAD_LKEY, IBV_WR_RDMA_WRITE, 5000, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_UNKNOWN, LOCAL },
	{ "read, unknown lkey", BAD_LKEY, IBV_WR_RDMA_READ, 100, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_UNKNOWN, LOCAL },
	{ "write from behind the end", LKEY_RANGE, IBV_WR_RDMA_WRITE, 100, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_RANGE, LOCAL },
	{ "write, lkey of another PD", LKEY_PD, IBV_WR_RDMA_WRITE, 100, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_PD, LOCAL },
	{ "read into read-only memory", LKEY_NO_WRITE, IBV_WR_RDMA_READ, 100, IBV_WC_LOC_PROT_ERR,
	  REASON_LKEY_ACCESS, LOCAL },
	{ "atomic into read-only memory", LKEY_NO_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP, 8,
	  IBV_WC_LOC_PROT_ERR, REASON_LKEY_ACCESS, LOCAL },
	{ "unaligned atomic", UNALIGNED, IBV_WR_ATOMIC_CMP_AND_SWP, 8, IBV_WC_REM_INV_REQ_ERR,
	  REASON_NAK_INVALID_REQUEST, NAK_INVALID, REQ_EVENT, FLUSH },
	{ "unaligned atomic write", UNALIGNED, IBV_WR_ATOMIC_WRITE, 8, IBV_WC_REM_INV_REQ_ERR,
	  REASON_NAK_INVALID_REQUEST, NAK_INVALID, REQ_EVENT, FLUSH },
	{ "atomic of four bytes", ATOMIC_SIZE, IBV_WR_ATOMIC_FETCH_AND_ADD, 4,
	  IBV_WC_LOC_QP_OP_ERR, REASON_WR_ATOMIC_SIZE, LOCAL },
	{ "read without max_rd_atomic", ZERO_RD_ATOMIC, IBV_WR_RDMA_READ, 100,
	  IBV_WC_LOC_QP_OP_ERR, REASON_WR_RD_ATOMIC_ZERO, LOCAL },
	{ "message longer than the port's limit", TOO_LONG, IBV_WR_SEND, 5001, IBV_WC_LOC_LEN_ERR,
	  REASON_WR_TOO_LONG, LOCAL },
	{ "opcode of another service", BAD_OPCODE, IBV_WR_TSO, 10, IBV_WC_LOC_QP_OP_ERR,
	  REASON_WR_OPCODE, LOCAL },
	{ "local invalidation of an unknown key", BAD_LOCAL_INV, IBV_WR_LOCAL_INV, 0,
	  IBV_WC_MW_BIND_ERR, REASON_WR_INVALIDATE, LOCAL },
};

/* Faults that lie in the request itself. */
static void spoil_request(struct pair *p, struct sim_wr *wr, const struct row *row)
{
	struct sim_host *b = p->h[1];

	switch (row->fault) {
	case BAD_RKEY: wr->rkey = p->mr[1]->lkey; break;
	case BAD_RKEY_PD: wr->rkey = sim_reg_mr(b, 2, b->base, p->size, ~0u)->rkey; break;
	case BAD_RANGE: wr->remote_addr = b->base + p->size - row->len + 1; break;
	case BELOW_RANGE: wr->remote_addr = b->base - 1; break;
	case WRAPPED_RANGE: wr->remote_addr = -(uint64_t)1000; break;
	case MR_RIGHTS: wr->rkey = sim_reg_mr(b, 1, b->base, p->size, 1)->rkey; break;
	case OTHER_QPS_WINDOW:
		wr->rkey = sim_bind_window(b, 1, b->base, p->size, ~0u, p->b->wq.qpn + 1)->rkey;
		break;
	case BAD_LKEY: wr->sge[0].lkey = p->mr[0]->rkey; break;
	case LKEY_RANGE: wr->sge[0].addr += p->size - 99; break;
	case LKEY_PD:
		wr->sge[0].lkey = sim_reg_mr(p->h[0], 2, p->h[0]->base, p->size, 1)->lkey;
		break;
	case LKEY_NO_WRITE:
		wr->sge[0].lkey = sim_reg_mr(p->h[0], 1, p->h[0]->base, p->size, 0)->lkey;
		break;
	case UNALIGNED: wr->remote_addr += 4; break;
	case BAD_LOCAL_INV: wr->num_sge = 0; break;
	default: break;
	}
}

/* Faults that lie in a QP or in the receive. */
static void spoil_pair(struct pair *p, const struct row *row)
{
	switch (row->fault) {
	case QP_RIGHTS: p->b->wq.access = 0; break;
	case RECV_BAD_LKEY: rq_wqe(&p->b->wq.rq, 0)->sge[0].lkey ^= 1; break;
	case RECV_NO_WRITE:
		rq_wqe(&p->b->wq.rq, 0)->sge[0].lkey =
			sim_reg_mr(p->h[1], 1, p->h[1]->base, p->size, 0)->lkey;
		break;
	case ZERO_RD_ATOMIC: p->a->wq.max_rd_atomic = 0; break;
	case TOO_LONG: p->a->wq.max_msg = 5000; break;
	default: break;
	}
}

/* Checks all completions, the state and the events of the responder. */
static void check_responder(struct pair *p, const struct row *row)
{
	if (!row->nak) {
		pair_expect_counts(p, 4, 0);
		assert_int_equal(p->b->wq.state, IBV_QPS_RTS);
		assert_int_equal(p->naks, 0);
		pair_expect_event(p, p->b, 0, 0);
		return;
	}
	pair_expect_counts(p, 4, 3);
	pair_expect_recv(p, 0, 0x100, row->recv);
	pair_expect_recv(p, 1, 0x101, FLUSH);
	pair_expect_recv(p, 2, 0x102, FLUSH);
	world_check(p->w, p->b->wq.state == IBV_QPS_ERR, "%s: responder is in state %u", row->name,
		    p->b->wq.state);
	world_check(p->w, p->last_syndrome == row->nak, "%s: syndrome 0x%x", row->name,
		    p->last_syndrome);
	pair_expect_event(p, p->b, row->event, row->event != 0);
}

/* A good request, the bad one, and two good ones that are flushed. */
static void run_row(const struct row *row)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new(row->name, NULL, &attr, NULL);
	struct sim_wr bad;

	pair_watch(&p);
	for (int i = 0; i < 3; i++)
		pair_recv(&p, row->fault == RECV_SMALL ? row->len - 1 : 4096);
	spoil_pair(&p, row);
	bad = pair_wr(&p, row->opcode, row->len);
	spoil_request(&p, &bad, row);
	pair_post(&p, pair_wr(&p, row->fault == QP_RIGHTS ? IBV_WR_LOCAL_INV : IBV_WR_RDMA_WRITE,
			      10));
	if (row->fault == QP_RIGHTS)
		sq_wqe(&p.a->wq.sq, 0)->imm =
			sim_bind_window(p.h[0], 1, p.h[0]->base, 8, 0, 0)->rkey;
	pair_post(&p, bad);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 10));
	pair_go(&p);

	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_send(&p, 1, 1, row->status);
	world_check(p.w, p.a->send_cqes.v[1].reason == row->why, "%s: reason %u", row->name,
		    p.a->send_cqes.v[1].reason);
	pair_expect_send(&p, 2, 2, FLUSH);
	pair_expect_send(&p, 3, 3, FLUSH);
	assert_int_equal(p.a->wq.state, IBV_QPS_ERR);
	pair_expect_event(&p, p.a, 0, 0);
	check_responder(&p, row);
	pair_free(&p);
}

static void each_row(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		run_row(&rows[i]);
}

/*
 * SEND with invalidate of a key that cannot be invalidated: the message is received and
 * acknowledged, its receive fails, and the QP moves to ERR without an event (class J).
 */
static void failed_invalidation_is_acknowledged(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("failed invalidation", NULL, &attr, NULL);
	struct sim_wr bad = pair_wr(&p, IBV_WR_SEND_WITH_INV, 50);

	pair_watch(&p);
	bad.imm = p.mr[1]->rkey;
	for (int i = 0; i < 2; i++)
		pair_recv(&p, 4096);
	pair_post(&p, bad);
	pair_go(&p);
	pair_expect_counts(&p, 1, 2);
	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_recv(&p, 0, 0x100, IBV_WC_REM_INV_REQ_ERR);
	pair_expect_recv(&p, 1, 0x101, FLUSH);
	assert_int_equal(p.b->wq.state, IBV_QPS_ERR);
	assert_int_equal(p.naks, 0);
	pair_expect_event(&p, p.b, 0, 0);
	pair_free(&p);
}

/*
 * The first packet holds the length of the whole WRITE, so a refused WRITE must not change memory
 * (9.7.4.1.5).
 */
static void refused_write_touches_nothing(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("refused write", NULL, &attr, NULL);
	struct sim_wr bad = pair_wr(&p, IBV_WR_RDMA_WRITE, 9000);
	uint8_t *target = p.h[1]->mem + PAIR_MEM - 8999, before[8999];

	memcpy(before, target, sizeof(before));
	bad.remote_addr = p.h[1]->base + PAIR_MEM - 8999;
	pair_post(&p, bad);
	pair_go(&p);
	pair_expect_send(&p, 0, 0, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(before, target, sizeof(before));
	pair_free(&p);
}

static bool drop_all(void *arg, const struct net_packet *p)
{
	return true;
}

/*
 * A dead peer: the request fails after 1 + retry_cnt timeouts, each between one and four times the
 * QP's timeout (9.7.6.1.3). Meanwhile the requester sends probes.
 */
static void dead_peer(void **state)
{
	for (uint32_t retries = 0; retries <= 7; retries++) {
		struct net_config net = { .delay = 5000, .drop = drop_all };
		struct sim_qp_attr attr = sim_qp_defaults();
		uint64_t timeout, began;
		struct pair p;

		attr.retry_cnt = retries;
		attr.timeout = 12;
		timeout = 4096ull << attr.timeout;
		p = pair_new("dead peer", &net, &attr, NULL);
		pair_watch(&p);
		began = p.w->now;
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
		pair_post(&p, pair_wr(&p, IBV_WR_SEND, 10));
		pair_go(&p);
		pair_expect_counts(&p, 2, 0);
		pair_expect_send(&p, 0, 0, IBV_WC_RETRY_EXC_ERR);
		pair_expect_send(&p, 1, 1, FLUSH);
		assert_int_equal(p.a->send_cqes.v[0].reason, REASON_RETRY_TIMEOUT);
		/* Probes: after 1, 2, 4 ms, then every quarter of the timeout. */
		assert_int_equal(p.sent_a, 2 + 5 + retries * (1 + 3));
		assert_true(p.w->now - began >= (retries + 1) * timeout);
		assert_true(p.w->now - began <= 4 * (retries + 1) * timeout);
		assert_int_equal(p.b->wq.state, IBV_QPS_RTS);
		pair_free(&p);
	}
}

/* Timeout 0 is infinite: the request does not fail, and no timer runs once the probes end. */
static void timeout_zero_waits_for_ever(void **state)
{
	struct net_config net = { .delay = 5000, .drop = drop_all };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.timeout = 0;
	p = pair_new("timeout zero", &net, &attr, NULL);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_go(&p);
	pair_expect_counts(&p, 0, 0);
	assert_int_equal(p.a->wq.state, IBV_QPS_RTS);
	assert_true(roce_next_timeout(&p.a->roce) == VRB_NEVER);
	pair_free(&p);
}

/*
 * Without a receive the responder sends 1 + rnr_retry RNR NAKs with its timer, and the requester
 * waits that time before each retry (9.7.5.2.8).
 */
static void rnr_retries_run_out(void **state)
{
	for (uint32_t retries = 0; retries < 7; retries++) {
		struct sim_qp_attr attr = sim_qp_defaults();
		struct pair p;
		uint64_t began;

		attr.rnr_retry = retries;
		attr.min_rnr_timer = 14;	/* 1.28 ms */
		p = pair_new("rnr exceeded", NULL, &attr, NULL);
		pair_watch(&p);
		began = p.w->now;
		pair_post(&p, pair_wr(&p, IBV_WR_SEND, 3000));
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
		pair_go(&p);
		pair_expect_counts(&p, 2, 0);
		pair_expect_send(&p, 0, 0, IBV_WC_RNR_RETRY_EXC_ERR);
		pair_expect_send(&p, 1, 1, FLUSH);
		assert_int_equal(p.a->send_cqes.v[0].reason, REASON_RNR_EXCEEDED);
		assert_int_equal(p.naks, retries + 1);
		assert_int_equal(p.last_syndrome, 0x20 | attr.min_rnr_timer);
		assert_true(p.w->now - began >= retries * 1280 * VRB_USEC);
		assert_int_equal(p.b->wq.state, IBV_QPS_RTS);
		pair_expect_event(&p, p.b, 0, 0);
		pair_free(&p);
	}
}

static void post_late(struct world *w, void *arg)
{
	struct pair *p = arg;

	pair_recv(p, 4096);
	world_kick(w, p->b);
}

/* rnr_retry 7 is unlimited: the message arrives once a receive is posted. */
static void rnr_retry_seven_is_endless(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("rnr endless", NULL, &attr, NULL);

	pair_watch(&p);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 3000));
	world_at(p.w, p.w->now + 50 * VRB_MSEC, post_late, &p);
	pair_go(&p);
	pair_expect_counts(&p, 1, 1);
	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_recv(&p, 0, 0x100, IBV_WC_SUCCESS);
	assert_true(p.naks > 10);
	assert_memory_equal(p.h[0]->mem, p.h[1]->mem + PAIR_MEM / 2, 3000);
	pair_free(&p);
}

/* More READs in flight than the responder has resources for: NAK invalid request (9.7.4.1.1). */
static void too_many_reads(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults(), few = attr;
	struct pair p;

	few.max_dest_rd_atomic = 1;
	p = pair_new("too many reads", NULL, &attr, &few);
	pair_watch(&p);
	p.w->answer_delay = 20 * VRB_USEC; /* so that the responder has several at a time */
	for (int i = 0; i < 8; i++)
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 1000));
	pair_go(&p);
	assert_int_equal(p.a->wq.state, IBV_QPS_ERR);
	assert_int_equal(p.last_syndrome, NAK_INVALID);
	assert_int_equal(p.a->send_cqes.n, 8);
	pair_expect_event(&p, p.b, IBV_EVENT_QP_REQ_ERR, 1);
	pair_free(&p);
}

/* Work requests posted to a QP in ERR are flushed at once, in order. */
static void posts_in_error_state_are_flushed(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("post in error", NULL, &attr, NULL);

	sim_modify(p.a, IBV_QPS_ERR);
	sim_modify(p.b, IBV_QPS_ERR);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 10));
	pair_recv(&p, 10);
	pair_recv(&p, 10);
	pair_go(&p);
	pair_expect_counts(&p, 2, 2);
	for (int i = 0; i < 2; i++) {
		pair_expect_send(&p, i, i, FLUSH);
		pair_expect_recv(&p, i, 0x100 + i, FLUSH);
		assert_int_equal(p.a->send_cqes.v[i].reason, REASON_WR_FLUSHED);
	}
	pair_free(&p);
}

/* Moving to ERR in mid-message flushes all requests; the receive in use is flushed first. */
static void error_in_mid_message(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct net_config net = { .delay = 5000, .mbit_per_s = 1000 };
	struct pair p = pair_new("error in mid message", &net, &attr, NULL);

	pair_recv(&p, 4096);
	pair_recv(&p, 4096);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 4096));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 4096));
	world_kick(p.w, p.a);
	world_run_until(p.w, p.w->now + 24 * VRB_USEC);
	assert_non_null(p.b->taken);
	sim_modify(p.b, IBV_QPS_ERR);
	sim_modify(p.a, IBV_QPS_ERR);
	world_run(p.w);
	pair_expect_counts(&p, 2, 2);
	for (int i = 0; i < 2; i++) {
		pair_expect_send(&p, i, i, FLUSH);
		pair_expect_recv(&p, i, 0x100 + i, FLUSH);
	}
	pair_free(&p);
}

/* The first packet that reaches a QP in RTR raises COMM_EST, once (11.6.3.1). */
static void communication_established(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("comm est", NULL, &attr, NULL);

	sim_modify(p.b, IBV_QPS_RESET);
	sim_to_rtr(p.b, p.a, PAIR_PSN);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 3000));
	pair_go(&p);
	pair_expect_counts(&p, 2, 0);
	pair_expect_event(&p, p.b, IBV_EVENT_COMM_EST, 1);
	pair_free(&p);
}

/* RESET discards all state; the same QPs connect again with other PSNs, and requests succeed. */
static void reset_and_reconnect(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("reconnect", NULL, &attr, NULL);

	for (uint32_t round = 0; round < 5; round++) {
		pair_recv(&p, 4096);
		pair_post(&p, pair_wr(&p, IBV_WR_SEND, 3000));
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 3000));
		world_kick(p.w, p.a);
		if (round % 2)
			world_run_until(p.w, p.w->now + 9 * VRB_USEC);
		else
			world_run(p.w);
		sim_modify(p.a, IBV_QPS_RESET);
		sim_modify(p.b, IBV_QPS_RESET);
		assert_true(roce_next_timeout(&p.a->roce) == VRB_NEVER);
		world_run(p.w);
		p.a->wq.sq.released = p.a->wq.sq.head;
		p.b->wq.rq.released = p.b->wq.rq.head;
		sim_connect(p.a, 0xfffffe + round, p.b, 7);
	}
	pair_expect_counts(&p, 6, 5); /* odd rounds are reset after the message has arrived */
	pair_free(&p);
}

/* Loses the first copies of the three packets at the front. */
static bool drop_front(void *arg, const struct net_packet *p)
{
	uint32_t *seen = arg, psn = ((uint32_t)p->data[9] << 16 | p->data[10] << 8 | p->data[11]) -
				    PAIR_PSN;

	if (p->src != 0 || psn > 2 || *seen & 1u << psn)
		return false;
	*seen |= 1u << psn;
	return true;
}

/*
 * A request whose memory is gone when it is to be retransmitted, behind one that is in flight, and
 * before READs: it fails once it is the oldest.
 */
static void memory_gone_before_retransmission(void **state)
{
	uint32_t seen = 0;
	struct net_config net = { .delay = 5000, .drop = drop_front, .drop_arg = &seen };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("memory gone", &net, &attr, NULL);
	struct sim_wr bad = pair_wr(&p, IBV_WR_RDMA_WRITE, 10);
	struct sim_key *key = sim_reg_mr(p.h[0], 1, p.h[0]->base, 64, 0);

	bad.sge[0].lkey = key->lkey;
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_post(&p, bad);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	for (int i = 0; i < 4; i++)
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 10));
	world_kick(p.w, p.a);
	key->valid = false;
	world_run(p.w);
	pair_expect_counts(&p, 8, 0);
	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_send(&p, 1, 1, IBV_WC_SUCCESS);
	pair_expect_send(&p, 2, 2, IBV_WC_LOC_PROT_ERR);
	for (int i = 3; i < 8; i++)
		pair_expect_send(&p, i, i, FLUSH);
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),
		cmocka_unit_test(failed_invalidation_is_acknowledged),
		cmocka_unit_test(refused_write_touches_nothing),
		cmocka_unit_test(dead_peer),
		cmocka_unit_test(timeout_zero_waits_for_ever),
		cmocka_unit_test(rnr_retries_run_out),
		cmocka_unit_test(rnr_retry_seven_is_endless),
		cmocka_unit_test(too_many_reads),
		cmocka_unit_test(posts_in_error_state_are_flushed),
		cmocka_unit_test(error_in_mid_message),
		cmocka_unit_test(communication_established),
		cmocka_unit_test(reset_and_reconnect),
		cmocka_unit_test(memory_gone_before_retransmission),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
