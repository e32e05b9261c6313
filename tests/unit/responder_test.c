/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder packet by packet: rows for every opcode transition, length and access rule (IBTA
 * vol 1, 9.7.4), every NAK class, the PSN window and RNR. response_test.c covers its responses to
 * duplicates.
 */
#include "roce_env.h"

#include <string.h>

#include "roce/faults.h"

static struct roce_env e;

/* IBTA vol 1, 9.7.4: which operation may follow which. M = message in progress. */
static void opcode_sequence_rows(void **state)
{
	enum { IDLE, SEND, WRITE };
	static const uint8_t begin[] = {
		[SEND] = ROCE_RC_SEND_FIRST, [WRITE] = ROCE_RC_WRITE_FIRST
	};
	static const struct {
		uint8_t op;
		bool after[3]; /* allowed after nothing, inside a SEND, inside a WRITE */
	} rows[] = {
		{ ROCE_RC_SEND_FIRST, { true, false, false } },
		{ ROCE_RC_SEND_MIDDLE, { false, true, false } },
		{ ROCE_RC_SEND_LAST, { false, true, false } },
		{ ROCE_RC_SEND_LAST_WITH_IMMEDIATE, { false, true, false } },
		{ ROCE_RC_SEND_LAST_WITH_INVALIDATE, { false, true, false } },
		{ ROCE_RC_SEND_ONLY, { true, false, false } },
		{ ROCE_RC_SEND_ONLY_WITH_IMMEDIATE, { true, false, false } },
		{ ROCE_RC_SEND_ONLY_WITH_INVALIDATE, { true, false, false } },
		{ ROCE_RC_WRITE_FIRST, { true, false, false } },
		{ ROCE_RC_WRITE_MIDDLE, { false, false, true } },
		{ ROCE_RC_WRITE_LAST, { false, false, true } },
		{ ROCE_RC_WRITE_LAST_WITH_IMMEDIATE, { false, false, true } },
		{ ROCE_RC_WRITE_ONLY, { true, false, false } },
		{ ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE, { true, false, false } },
		{ ROCE_RC_READ_REQUEST, { true, false, false } },
		{ ROCE_RC_COMPARE_SWAP, { true, false, false } },
		{ ROCE_RC_FETCH_ADD, { true, false, false } },
		{ ROCE_RC_FLUSH, { true, false, false } },
		{ ROCE_RC_ATOMIC_WRITE, { true, false, false } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int msg = IDLE; msg <= WRITE; msg++) {
			const struct roce_opcode_info *op = roce_opcode_info(rows[i].op);
			bool mid = op->place == ROCE_PLACE_FIRST || op->place == ROCE_PLACE_MIDDLE;
			uint32_t psn = ENV_PSN, len = op->max_payload == 0 ? 0 : mid ? 256 : 8;
			struct roce_pkt pkt;

			env_start(&e, IBV_QPT_RC);
			env_post_recv(&e, 0, 4096);
			env_post_recv(&e, 0, 4096);
			if (msg != IDLE) {
				pkt = env_pkt(&e, begin[msg], psn++, 256);
				pkt.reth.len = mid ? 1024 : 256 + 8;
				env_input(&e, &pkt);
				assert_int_equal(e.wq.state, IBV_QPS_RTS);
			}
			pkt = env_pkt(&e, rows[i].op, psn, len);
			pkt.atomic.va = ENV_VA;
			pkt.atomic.rkey = ENV_KEY;
			pkt.feth.placement = ROCE_FLUSH_GLOBAL;
			if (op->place == ROCE_PLACE_FIRST)
				pkt.reth.len = 1024;
			env_input(&e, &pkt);
			assert_int_equal(e.wq.state,
					 rows[i].after[msg] ? IBV_QPS_RTS : IBV_QPS_ERR);
			if (!rows[i].after[msg])
				env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, psn);
		}
	}
}

/*
 * The sender may use less than the path's MTU, because its interface may carry less, or more than
 * this end's: its FIRST shows that, and the rest of the message must match it.
 */
static void packets_of_the_senders_mtu(void **state)
{
	static const struct {
		uint32_t first, middle, last;
		bool ok;
	} rows[] = {
		{ 256, 256, 100, true },   { 512, 512, 512, true },  { 1024, 1024, 1, true },
		{ 512, 256, 100, false },  { 512, 512, 513, false }, { 512, 1024, 100, false },
		{ 2048, 2048, 1, false },  { 768, 768, 1, false },   { 128, 128, 1, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		e.wq.path_mtu = 1024;
		env_post_recv(&e, 0, 4096);
		env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, rows[i].first);
		env_request(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 1, rows[i].middle);
		env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 2, rows[i].last);
		assert_int_equal(e.wq.state, rows[i].ok ? IBV_QPS_RTS : IBV_QPS_ERR);
		if (rows[i].ok)
			assert_int_equal(e.cqes[0].byte_len,
					 rows[i].first + rows[i].middle + rows[i].last);
	}
}

/*
 * IBTA vol 1, 9.7.4: FIRST and MIDDLE fill the MTU, LAST is not empty, a WRITE has the length
 * of its RETH.
 */
static void length_rows(void **state)
{
	static const struct {
		uint8_t first; /* 0xff: none */
		uint8_t op;
		uint32_t reth;
		uint32_t len;
		bool ok;
	} rows[] = {
		{ 0xff, ROCE_RC_SEND_FIRST, 0, 255, false },
		{ 0xff, ROCE_RC_SEND_FIRST, 0, 256, true },
		{ 0xff, ROCE_RC_SEND_FIRST, 0, 257, false },
		{ 0xff, ROCE_RC_SEND_ONLY, 0, 0, true },
		{ 0xff, ROCE_RC_SEND_ONLY, 0, 256, true },
		{ 0xff, ROCE_RC_SEND_ONLY, 0, 257, false },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_MIDDLE, 0, 255, false },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_MIDDLE, 0, 256, true },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_LAST, 0, 0, false },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_LAST, 0, 1, true },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_LAST, 0, 256, true },
		{ ROCE_RC_SEND_FIRST, ROCE_RC_SEND_LAST, 0, 257, false },
		{ 0xff, ROCE_RC_WRITE_ONLY, 0, 0, true },
		{ 0xff, ROCE_RC_WRITE_ONLY, 256, 256, true },
		{ 0xff, ROCE_RC_WRITE_ONLY, 255, 256, false },
		{ 0xff, ROCE_RC_WRITE_ONLY, 257, 256, false },
		{ 0xff, ROCE_RC_WRITE_FIRST, 256, 256, false },
		{ 0xff, ROCE_RC_WRITE_FIRST, 257, 256, true },
		{ 0xff, ROCE_RC_WRITE_FIRST, 1u << 31, 256,
		  true }, /* the length is correct, the range is not */
		{ 0xff, ROCE_RC_WRITE_FIRST, (1u << 31) + 1, 256, false },
		{ ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_LAST, 300, 44, true },
		{ ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_LAST, 300, 43, false },
		{ ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_LAST, 300, 45, false },
		{ ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE, 512, 256, false },
		{ ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE, 513, 256, true },
		{ 0xff, ROCE_RC_READ_REQUEST, 0, 0, true },
		{ 0xff, ROCE_RC_READ_REQUEST, 1u << 31, 0,
		  true }, /* the length is correct, the range is not */
		{ 0xff, ROCE_RC_READ_REQUEST, (1u << 31) + 1, 0, false },
		{ 0xff, ROCE_RC_ATOMIC_WRITE, 8, 8, true },
		{ 0xff, ROCE_RC_ATOMIC_WRITE, 7, 8, false },
		{ 0xff, ROCE_RC_ATOMIC_WRITE, 8, 4, false },
		{ 0xff, ROCE_RC_ATOMIC_WRITE, 4, 4, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t psn = ENV_PSN;
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		env_post_recv(&e, 0, 4096);
		if (rows[i].first != 0xff) {
			pkt = env_pkt(&e, rows[i].first, psn++, 256);
			pkt.reth.len = rows[i].reth;
			env_input(&e, &pkt);
		}
		pkt = env_pkt(&e, rows[i].op, psn, rows[i].len);
		pkt.reth.len = rows[i].reth;
		env_input(&e, &pkt);
		if (!rows[i].ok)
			env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, psn);
		else if (rows[i].reth == 1u << 31)
			env_expect_nak(&e, ROCE_NAK_REMOTE_ACCESS_ERROR, psn);
		else
			assert_int_equal(e.wq.state, IBV_QPS_RTS);
	}
}

/*
 * IBTA vol 1, 9.7.4: QP rights make an invalid request, key, range and region rights an
 * access error.
 */
static void access_rows(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t qp_access;
		uint32_t key;
		uint64_t va;
		uint32_t len;
		int nak; /* -1: allowed */
	} rows[] = {
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY, ENV_VA, 8, -1 },
		{ ROCE_RC_WRITE_ONLY, IBV_ACCESS_REMOTE_READ, ENV_KEY, ENV_VA, 8,
		  ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY + 1, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_READONLY, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY, ENV_VA + ENV_MEM - 8, 8, -1 },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY, ENV_VA + ENV_MEM - 7, 8,
		  ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY, ENV_VA - 1, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_WRITE_ONLY, ~0u, ENV_KEY + 1, 0, 0, -1 },
		{ ROCE_RC_READ_REQUEST, ~0u, ENV_READONLY, ENV_VA, 8, -1 },
		{ ROCE_RC_READ_REQUEST, ~0u, ENV_KEY + 1, 0, 0, -1 },
		{ ROCE_RC_READ_REQUEST, ~0u, ENV_KEY + 1, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_READ_REQUEST, IBV_ACCESS_REMOTE_WRITE, ENV_KEY, ENV_VA, 8,
		  ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_FETCH_ADD, ~0u, ENV_KEY, ENV_VA, 8, -1 },
		{ ROCE_RC_FETCH_ADD, ~0u, ENV_KEY, ENV_VA + 4, 8, ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_FETCH_ADD, ~0u, ENV_READONLY, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_COMPARE_SWAP, IBV_ACCESS_REMOTE_WRITE, ENV_KEY, ENV_VA, 8,
		  ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_ATOMIC_WRITE, ~0u, ENV_KEY, ENV_VA + 8, 8, -1 },
		{ ROCE_RC_ATOMIC_WRITE, ~0u, ENV_KEY, ENV_VA + 1, 8, ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_ATOMIC_WRITE, ~0u, ENV_KEY + 1, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
		{ ROCE_RC_FLUSH, ~0u, ENV_KEY, ENV_VA, 8, -1 },
		{ ROCE_RC_FLUSH, IBV_ACCESS_REMOTE_WRITE, ENV_KEY, ENV_VA, 8,
		  ROCE_NAK_INVALID_REQUEST },
		{ ROCE_RC_FLUSH, ~0u, ENV_KEY + 1, ENV_VA, 8, ROCE_NAK_REMOTE_ACCESS_ERROR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t payload = min(rows[i].len, roce_opcode_info(rows[i].op)->max_payload + 0u);
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		e.wq.access = rows[i].qp_access;
		pkt = env_pkt(&e, rows[i].op, ENV_PSN, payload);
		pkt.reth.va = pkt.atomic.va = rows[i].va;
		pkt.reth.rkey = pkt.atomic.rkey = rows[i].key;
		pkt.reth.len = rows[i].len;
		pkt.feth.placement = ROCE_FLUSH_GLOBAL;
		env_input(&e, &pkt);
		if (rows[i].nak < 0) {
			assert_int_equal(e.wq.state, IBV_QPS_RTS);
			assert_int_equal(e.qp.resp.epsn, ENV_PSN + 1);
			continue;
		}
		env_expect_nak(&e, rows[i].nak, ENV_PSN);
		env_expect_silence(&e);
		assert_int_equal(e.wq.state, IBV_QPS_ERR);
		assert_int_equal(e.num_events, 1);
		assert_int_equal(e.events[0], rows[i].nak == ROCE_NAK_INVALID_REQUEST
						      ? IBV_EVENT_QP_REQ_ERR
						      : IBV_EVENT_QP_ACCESS_ERR);
	}
}

/*
 * IBTA vol 1, 9.7.4: expected, the last duplicate, the farthest duplicate, the farthest gap;
 * across the wrap.
 */
static void psn_window_boundaries(void **state)
{
	static const uint32_t bases[] = { ENV_PSN, 0, 0xffffff, 0x800000, 0x7fffff };
	static const struct {
		uint32_t delta;
		char kind; /* n: new, d: duplicate, g: gap */
	} rows[] = {
		{ 0, 'n' }, { 0xffffff, 'd' }, { 0x800000, 'd' }, { 0x7fffff, 'g' }, { 1, 'g' },
	};

	for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			uint32_t epsn = bases[b];

			env_init(&e, IBV_QPT_RC);
			e.wq.rq_psn = epsn;
			env_rts(&e);
			env_request(&e, ROCE_RC_WRITE_ONLY, epsn + rows[i].delta, 8);
			assert_int_equal(e.writes, rows[i].kind == 'n');
			assert_int_equal(e.qp.counters.duplicate_request, rows[i].kind == 'd');
			assert_int_equal(e.qp.counters.out_of_seq_request, rows[i].kind == 'g');
			if (rows[i].kind == 'n')
				env_expect_aeth(&e, 0, epsn, 1);
			else if (rows[i].kind == 'd')
				env_expect_aeth(&e, 0, epsn - 1, 0);
			else
				env_expect_aeth(&e, roce_syndrome(ROCE_AETH_NAK, 0), epsn, 0);
			env_expect_silence(&e);
		}
	}
}

/*
 * IBTA vol 1, 9.7.5: one NAK per gap, silence until the gap closes, then a new gap makes a new
 * NAK.
 */
static void one_nak_per_gap(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 2, 8);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 3, 8);
	env_expect_silence(&e);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	env_expect_aeth(&e, 0, ENV_PSN, 1);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 3, 8);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	assert_int_equal(e.writes, 1);
}

/*
 * IBTA vol 1, 9.7.5: RNR NAK with the QP's timer; the request is executed when it is retransmitted.
 */
static void rnr_nak_and_recovery(void **state)
{
	static const uint8_t ops[] = { ROCE_RC_SEND_ONLY, ROCE_RC_SEND_FIRST,
				       ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE };

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		for (uint8_t timer = 0; timer < 32; timer += 31) {
			env_start(&e, IBV_QPT_RC);
			e.wq.min_rnr_timer = timer;
			env_request(&e, ops[i], ENV_PSN, 256);
			env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
			env_expect_aeth(&e, roce_syndrome(ROCE_AETH_RNR_NAK, timer), ENV_PSN, 0);
			env_expect_silence(&e);
			assert_int_equal(e.qp.counters.send_rnr_err, 1);
			assert_int_equal(e.writes, 0);
			env_post_recv(&e, 0, 1000);
			env_request(&e, ops[i], ENV_PSN, 256);
			assert_int_equal(e.qp.resp.epsn, ENV_PSN + 1);
			assert_true(env_output(&e));
			assert_int_equal(e.out.aeth.syndrome >> 5, ROCE_AETH_ACK);
		}
	}
}

/* Receive too small: LOC_LEN_ERR here, invalid request there (IBTA vol 1, 9.7.4). */
static void message_longer_than_receive(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 300);
	env_post_recv(&e, 0, 300);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 1, 45);
	env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, ENV_PSN + 1);
	env_expect_cqe(&e, 0, 1000, IBV_WC_LOC_LEN_ERR);
	env_expect_cqe(&e, 1, 1001, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(e.cqes[0].reason, REASON_REQ_RECV_SMALL);
	assert_int_equal(e.num_events, 0);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
}

static void receive_with_bad_memory(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 300);
	rq_wqe(&e.wq.rq, 0)->sge[0].lkey = ENV_READONLY;
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_expect_nak(&e, ROCE_NAK_REMOTE_OPERATIONAL_ERROR, ENV_PSN);
	env_expect_cqe(&e, 0, 1000, IBV_WC_LOC_PROT_ERR);
}

/* ERR, RESET and INIT are silent (IBTA vol 1, 10.3). */
static void dead_states_are_silent(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_ERR };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		env_start(&e, IBV_QPT_RC);
		env_move(&e, states[i]);
		env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
		env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 5, 8);
		env_expect_silence(&e);
		assert_int_equal(e.writes, 0);
	}
}

static void communication_established_once(void **state)
{
	env_init(&e, IBV_QPT_RC);
	env_rtr(&e);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_COMM_EST);
	env_expect_aeth(&e, 0, ENV_PSN + 1, 2);
}

static void last_wqe_reached_with_srq(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.has_srq = true;
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_move(&e, IBV_QPS_ERR);
	env_expect_cqe(&e, 0, 1000, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* A receive in use when the QP is reset is returned to its SRQ. */
static void reset_gives_a_shared_receive_back(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.has_srq = true;
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_move(&e, IBV_QPS_RESET);
	assert_int_equal(e.untaken, 1);
	assert_int_equal(e.num_cqes, 0);
}

/* XRC: the packet names the SRQ (Annex A14); an unknown one is an invalid request. */
static void xrc_srq_lookup(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_XRC_RECV);
	env_post_recv(&e, 0, 100);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_XRC_ACKNOWLEDGE);
	assert_int_equal(e.out.aeth.syndrome, 31);
	pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 1, 8);
	pkt.xrc_srqn++;
	env_input(&e, &pkt);
	env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, ENV_PSN + 1);
	assert_int_equal(e.events[0], IBV_EVENT_QP_REQ_ERR);
}

/* Not for this QP: another service, P_Key or sender (IBTA vol 1, 9.6.1). */
static void foreign_packets_are_dropped(void **state)
{
	struct roce_pkt good, bad[3];

	env_start(&e, IBV_QPT_RC);
	good = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	bad[0] = bad[1] = bad[2] = good;
	bad[0].bth.opcode = ROCE_UC_WRITE_ONLY;
	bad[1].bth.pkey = 0x8001;
	bad[2].path.src.raw[15]++;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		env_input(&e, &bad[i]);
	assert_int_equal(e.writes, 0);
	assert_int_equal(e.qp.counters.dropped_pkts, 3);
	assert_int_equal(e.violations[VIOLATION_PKEY], 1);
	env_input(&e, &good);
	assert_int_equal(e.writes, 1);
	assert_int_equal(e.violations[VIOLATION_PKEY], 1);
}

/* Annex A17: congestion experienced is answered with a CNP, at most one in 50 us. */
static void congestion_is_notified(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	e.now = VRB_SECOND;
	pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	pkt.path.traffic_class = ROCE_ECN_CE;
	env_input(&e, &pkt);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_CNP_NOTIFICATION);
	assert_true(e.out.bth.becn);
	pkt.bth.psn++;
	env_input(&e, &pkt);
	env_expect_silence(&e);
	e.now += 50 * VRB_USEC;
	assert_true(env_output(&e));
	assert_int_equal(e.qp.counters.cnp_sent, 2);
	assert_int_equal(e.qp.counters.ecn_marked, 2);
}

/* Code that selects a receive may look at the start of the message: its first packet, once. */
static void head_is_shown(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 1024);
	pkt = env_pkt(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_input(&e, &pkt);
	assert_int_equal(e.heads, 1);
	assert_ptr_equal(e.head.data, pkt.payload);
	assert_int_equal(e.head.len, 256);
	assert_false(e.head.whole);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 1, 3);
	assert_int_equal(e.heads, 1);
	env_post_recv(&e, 0, 1024);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 2, 0);
	assert_int_equal(e.heads, 2);
	assert_int_equal(e.head.len, 0);
	assert_true(e.head.whole);
	/* a WRITE has no head */
	env_post_recv(&e, 0, 1024);
	env_request(&e, ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE, ENV_PSN + 3, 0);
	assert_int_equal(e.heads, 2);
}

/*
 * The completion of a message overruns the CQ: the QP fails inside its own callback and sends
 * nothing.
 */
static void completion_queue_overrun(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 100);
	env_post_recv(&e, 0, 100);
	env_post(&e, IBV_WR_SEND, 0, 8);
	e.overrun_at = 0;
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	env_expect_cqe(&e, 1, 0, IBV_WC_WR_FLUSH_ERR);
	env_expect_cqe(&e, 2, 1001, IBV_WC_WR_FLUSH_ERR);
	env_expect_silence(&e);
}

static void steps_have_names(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 5, 8);
	assert_string_equal(roce_resp_step_name(e.qp.resp.last_step), "gap");
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	assert_string_equal(roce_resp_step_name(e.qp.resp.last_step), "ack");
	assert_string_equal(roce_resp_step_name(1000), "?");
}

enum { RUN_MTU = 256, RUN_STRIDE = RUN_MTU + 16, RUN_MOST = 8 };

/* After a FIRST of a message of `len` bytes. */
static void begin_message(struct roce_env *env, bool write, uint32_t len)
{
	struct roce_pkt pkt;

	env_start(env, IBV_QPT_RC);
	env_post_recv(env, 0, len);
	pkt = env_pkt(env, write ? ROCE_RC_WRITE_FIRST : ROCE_RC_SEND_FIRST, ENV_PSN, RUN_MTU);
	pkt.reth.len = len;
	env_input(env, &pkt);
}

static void same_state(const struct roce_env *a, const struct roce_env *b)
{
	const struct roce_resp *ra = &a->qp.resp, *rb = &b->qp.resp;

	assert_int_equal(a->wq.state, b->wq.state);
	assert_int_equal(ra->epsn, rb->epsn);
	assert_int_equal(ra->psns, rb->psns);
	assert_int_equal(ra->ack_psn, rb->ack_psn);
	assert_int_equal(ra->received, rb->received);
	assert_int_equal(ra->va, rb->va);
	assert_int_equal(ra->resid, rb->resid);
	assert_int_equal(ra->ack.pending, rb->ack.pending);
	assert_int_equal(ra->ack.psn, rb->ack.psn);
	assert_int_equal(ra->ack.syndrome, rb->ack.syndrome);
	assert_int_equal(ra->gap_nak_pending, rb->gap_nak_pending);
	assert_int_equal(a->num_cqes, b->num_cqes);
	assert_memory_equal(&a->qp.counters, &b->qp.counters, sizeof(a->qp.counters));
	assert_memory_equal(a->mem, b->mem, sizeof(a->mem));
}

/*
 * A run leaves the same state as its packets one by one: in the middle of a message, after a gap,
 * repeated, as long as the rest of the message and longer, in another message than its own, and
 * where the memory ends inside it.
 */
static void a_run_is_the_same_as_its_packets(void **state)
{
	static const struct {
		uint32_t packets, message;	/* of the run; bytes */
		int ahead;			/* of the expected PSN */
		bool other;			/* a SEND in a WRITE, a WRITE in a SEND */
		uint32_t mtu;
		int fail_at;			/* call into memory that fails; -1: none */
		bool taken;
	} rows[] = {
		{ 2, 2560, 0, false, 256, -1, true },	{ 8, 2560, 0, false, 256, -1, true },
		{ 8, 2305, 0, false, 256, -1, true },	{ 7, 2048, 0, false, 256, -1, false },
		{ 8, 2048, 0, false, 256, -1, false },	{ 4, 512, 0, false, 256, -1, false },
		{ 4, 2560, 1, false, 256, -1, false },	{ 4, 2560, -1, false, 256, -1, false },
		{ 4, 2560, -4, false, 256, -1, false }, { 4, 2560, 0, true, 256, -1, false },
		{ 4, 2560, 0, false, 128, -1, false },	{ 4, 2560, 0, false, 256, 0, true },
		{ 4, 2560, 0, false, 256, 2, true },	{ 4, 2560, 0, false, 256, 3, true },
	};
	static uint8_t data[RUN_MOST * RUN_STRIDE];
	static struct roce_env one, many;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < ARRAY_SIZE(rows) * 4; i++) {
		bool write = i & 1, ack_req = i & 2, as_write = write != rows[i / 4].other;
		uint32_t n = rows[i / 4].packets;
		struct roce_pkt run;
		bool taken;

		begin_message(&one, write, rows[i / 4].message);
		begin_message(&many, write, rows[i / 4].message);
		one.fail_at = many.fail_at = rows[i / 4].fail_at;
		one.fail_why = many.fail_why = REASON_RKEY_RANGE;
		run = env_pkt(&one, as_write ? ROCE_RC_WRITE_MIDDLE : ROCE_RC_SEND_MIDDLE,
			      (uint32_t)(ENV_PSN + 1 + rows[i / 4].ahead), rows[i / 4].mtu);
		run.payload = data;
		run.more = n - 1;
		run.stride = RUN_STRIDE;
		run.bth.ack_req = ack_req;
		taken = roce_takes_run(&one.qp, &run);
		/* a SEND ends with its last packet, not with its length */
		assert_int_equal(taken, rows[i / 4].taken ||
						(!write && !rows[i / 4].other &&
						 rows[i / 4].message == (n + 1) * RUN_MTU));
		if (!taken)
			continue;
		env_input(&one, &run);
		for (uint32_t k = 0; k < n; k++) {
			struct roce_pkt pkt = roce_run_packet(&run, k);

			assert_int_equal(pkt.bth.ack_req, ack_req && k == n - 1);
			assert_ptr_equal(pkt.payload, data + k * RUN_STRIDE);
			env_input(&many, &pkt);
		}
		same_state(&one, &many);
	}
}

/* A SEND states no length: its bytes are counted, one by one or in a run. */
static void a_send_is_at_most_the_longest_message(void **state)
{
	static const struct {
		uint32_t max_msg;
		bool ok;
	} rows[] = { { 3 * RUN_MTU, true }, { 3 * RUN_MTU - 1, false } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt run;

		begin_message(&e, false, 4096);
		e.wq.max_msg = rows[i].max_msg;
		run = env_pkt(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 1, RUN_MTU);
		run.more = 1;
		run.stride = RUN_STRIDE;
		assert_int_equal(roce_takes_run(&e.qp, &run), rows[i].ok);
		env_request(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 1, RUN_MTU);
		env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 2, RUN_MTU);
		if (rows[i].ok)
			assert_int_equal(e.cqes[0].byte_len, rows[i].max_msg);
		else
			env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, ENV_PSN + 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_sequence_rows),
		cmocka_unit_test(length_rows),
		cmocka_unit_test(packets_of_the_senders_mtu),
		cmocka_unit_test(access_rows),
		cmocka_unit_test(psn_window_boundaries),
		cmocka_unit_test(one_nak_per_gap),
		cmocka_unit_test(rnr_nak_and_recovery),
		cmocka_unit_test(message_longer_than_receive),
		cmocka_unit_test(receive_with_bad_memory),
		cmocka_unit_test(dead_states_are_silent),
		cmocka_unit_test(communication_established_once),
		cmocka_unit_test(last_wqe_reached_with_srq),
		cmocka_unit_test(reset_gives_a_shared_receive_back),
		cmocka_unit_test(xrc_srq_lookup),
		cmocka_unit_test(foreign_packets_are_dropped),
		cmocka_unit_test(congestion_is_notified),
		cmocka_unit_test(head_is_shown),
		cmocka_unit_test(completion_queue_overrun),
		cmocka_unit_test(a_run_is_the_same_as_its_packets),
		cmocka_unit_test(a_send_is_at_most_the_longest_message),
		cmocka_unit_test(steps_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
