/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responses that the requester processes: ACKs, NAKs, READ responses, and packets that do not
 * belong to the connection (IBTA vol 1, 9.7.5, 9.7.7 and 9.9.2).
 */
#include "roce_env.h"

#include <string.h>

#include "util/tuning.h"

static struct roce_env e;

/* Sends n SENDs of one packet each. */
static void send_more(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), n);
}

static void send_some(uint32_t n)
{
	env_start(&e, IBV_QPT_RC);
	send_more(n);
}

static void respond(uint8_t op, uint32_t psn, uint32_t payload)
{
	env_aeth(&e, op, 31, psn, payload);
}

static void nak(uint8_t code, uint32_t psn)
{
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_NAK, code), psn, 0);
}

static void ack_acknowledges_everything_before(void **state)
{
	send_some(5);
	env_ack(&e, ENV_PSN + 2);
	assert_int_equal(e.num_cqes, 3);
	env_ack(&e, ENV_PSN + 4);
	assert_int_equal(e.num_cqes, 5);
	for (uint32_t i = 0; i < 5; i++)
		env_expect_cqe(&e, i, i, IBV_WC_SUCCESS);
}

/* Old, never sent, far away: ghost ACKs. */
static void ghost_acks_are_dropped(void **state)
{
	static const uint32_t deltas[] = { 0xffffff, 0xfffffe, 0x800000, 3, 4, 0x7fffff };

	for (size_t i = 0; i < ARRAY_SIZE(deltas); i++) {
		send_some(3);
		env_ack(&e, ENV_PSN + deltas[i]);
		nak(ROCE_NAK_REMOTE_ACCESS_ERROR, ENV_PSN + deltas[i]);
		assert_int_equal(e.num_cqes, 0);
		assert_int_equal(e.qp.counters.dropped_pkts, 2);
		assert_string_equal(roce_comp_step_name(e.qp.comp.last_step), "drop");
	}
}

/*
 * IBTA vol 1, 9.9.2: NAK code -> status; requests before the NAK have succeeded, those after it are
 * flushed.
 */
static void fatal_naks(void **state)
{
	static const struct {
		uint8_t code;
		enum ibv_wc_status status;
		enum reason why;
	} rows[] = {
		{ ROCE_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST },
		{ ROCE_NAK_REMOTE_ACCESS_ERROR, IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS },
		{ ROCE_NAK_REMOTE_OPERATIONAL_ERROR, IBV_WC_REM_OP_ERR,
		  REASON_NAK_REMOTE_OPERATION },
		{ ROCE_NAK_INVALID_RD_REQUEST, IBV_WC_REM_INV_RD_REQ_ERR, REASON_NAK_INVALID_RD },
		{ 5, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE },
		{ 31, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		send_some(3);
		env_post_recv(&e, 0, 8);
		nak(rows[i].code, ENV_PSN + 1);
		env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
		env_expect_cqe(&e, 1, 1, rows[i].status);
		assert_int_equal(e.cqes[1].reason, rows[i].why);
		env_expect_cqe(&e, 2, 2, IBV_WC_WR_FLUSH_ERR);
		env_expect_cqe(&e, 3, 1000, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(e.wq.state, IBV_QPS_ERR);
		assert_int_equal(e.num_events, 0);
	}
}

/*
 * The peer could not read a message's payload from the sender's memory, so the message is sent
 * again as packets. Before that, the peer may refuse the message with a fatal NAK, which it does
 * not repeat; an ACK of an unexecuted request has no effect.
 */
static void a_withdrawn_message_may_be_refused(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.pull_min = 1000;
	env_post(&e, IBV_WR_SEND, 0, 1000);
	env_post(&e, IBV_WR_SEND, 0, 1000);
	assert_int_equal(env_drain(&e), 2);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	env_ack(&e, ENV_PSN);
	assert_int_equal(e.num_cqes, 0);
	nak(ROCE_NAK_INVALID_REQUEST, ENV_PSN);
	env_expect_cqe(&e, 0, 0, IBV_WC_REM_INV_REQ_ERR);
	env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
}

/* The message is sent as packets, starting with the same PSN. */
static void a_withdrawn_message_is_sent_as_packets(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.pull_min = 1000;
	env_post(&e, IBV_WR_SEND, 0, 1000);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	assert_int_equal(env_drain(&e), 5);
	assert_int_equal(e.out.bth.psn, ENV_PSN + 4);
	env_ack(&e, ENV_PSN + 4);
	env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	env_expect_cqe(&e, 1, 1, IBV_WC_SUCCESS);
}

static void reserved_syndromes_are_bad_responses(void **state)
{
	static const uint8_t syndromes[] = { 0x40, 0x5f, 0x80, 0xff };

	for (size_t i = 0; i < ARRAY_SIZE(syndromes); i++) {
		send_some(2);
		env_aeth(&e, ROCE_RC_ACKNOWLEDGE, syndromes[i], ENV_PSN, 0);
		env_expect_cqe(&e, 0, 0, IBV_WC_BAD_RESP_ERR);
	}
}

/* The packet that a NAK requests is sent again alone, with AckReq. */
static void repair(uint32_t psn)
{
	assert_false(roce_has_ack_only(&e.qp));
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.psn, psn);
	assert_true(e.out.bth.ack_req);
	assert_false(env_output(&e));
}

/*
 * A peer that has kept the packets after the gap acknowledges all of them: nothing else is sent
 * again.
 */
static void sequence_nak_is_repaired(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 2);
	assert_int_equal(e.num_cqes, 2);
	repair(ENV_PSN + 2);
	env_ack(&e, ENV_PSN + 4);
	assert_int_equal(e.num_cqes, 5);
	assert_false(env_output(&e));
	assert_int_equal(e.qp.counters.retransmitted_pkts, 1);
	assert_int_equal(e.qp.counters.rcvd_seq_err, 1);
}

/*
 * A peer that has not acknowledges only the retransmission; from then on a NAK resends everything
 * at once.
 */
static void sequence_nak_goes_back(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 2);
	repair(ENV_PSN + 2);
	env_ack(&e, ENV_PSN + 2);
	assert_int_equal(env_drain(&e), 2);
	assert_int_equal(e.qp.counters.retransmitted_pkts, 3);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 3);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.psn, ENV_PSN + 3);
	assert_int_equal(env_drain(&e), 1);
}

/*
 * A peer that has kept packets once keeps them again: a NAK before such an ACK was lost, and the
 * packets after the gap need not be sent again.
 */
static void a_peer_that_keeps_packets_is_remembered(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	repair(ENV_PSN + 1);
	env_ack(&e, ENV_PSN + 4);
	send_more(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 6);
	repair(ENV_PSN + 6);
	env_ack(&e, ENV_PSN + 6);
	env_expect_silence(&e);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 8);
	repair(ENV_PSN + 8);
}

/* A peer that sends a second NAK for a gap gets everything. */
static void second_nak_for_a_gap_goes_back(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 2);
	repair(ENV_PSN + 2);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 2);
	assert_int_equal(env_drain(&e), 3);
}

/* Two gaps: two retransmissions. */
static void next_gap_is_repaired(void **state)
{
	send_some(6);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	repair(ENV_PSN + 1);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 3);
	repair(ENV_PSN + 3);
	env_ack(&e, ENV_PSN + 5);
	assert_int_equal(e.num_cqes, 6);
	assert_int_equal(e.qp.counters.retransmitted_pkts, 2);
}

/*
 * The gap is longer than the retransmission: the next run is four times as long, and NAKs within it
 * are ignored.
 */
static void a_long_gap_is_repaired_in_runs(void **state)
{
	uint32_t psn = ENV_PSN + 1;

	send_some(30);
	for (uint32_t run = 1; run <= 16; run *= 4) {
		nak(ROCE_NAK_PSN_SEQUENCE_ERROR, psn);
		for (uint32_t i = 0; i < run; i++) {
			assert_true(env_output(&e));
			assert_int_equal(e.out.bth.psn, psn + i);
			assert_true(e.out.bth.ack_req);
		}
		assert_false(env_output(&e));
		for (uint32_t i = 1; i < run; i++) {
			nak(ROCE_NAK_PSN_SEQUENCE_ERROR, psn + i);
			assert_false(env_output(&e));
		}
		psn += run;
	}
	assert_int_equal(e.qp.counters.completer_retry_err, 3);
	env_ack(&e, ENV_PSN + 29);
	assert_int_equal(e.num_cqes, 30);
	assert_int_equal(e.qp.counters.retransmitted_pkts, 21);
	assert_false(env_output(&e));
	/* The next one begins with a packet again. */
	send_more(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 31);
	repair(ENV_PSN + 31);
	assert_false(e.qp.req.goes_back);
}

/* Only up to the last packet sent; a request completed by a response has PSNs of its own. */
static void a_run_ends_at_the_last_packet(void **state)
{
	send_some(3);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	repair(ENV_PSN);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	assert_true(env_output(&e));
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.psn, ENV_PSN + 2);
	assert_false(env_output(&e));
	env_ack(&e, ENV_PSN + 2);
	assert_int_equal(e.num_cqes, 3);

	send_more(3);
	env_post(&e, IBV_WR_RDMA_READ, 0, 64);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 4);
	repair(ENV_PSN + 4);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 5);
	repair(ENV_PSN + 5);
	/* The READ itself is missing: everything from there on is sent again. */
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 6);
	assert_int_equal(env_drain(&e), 2);
}

/* Packets acknowledged while the run is being sent are skipped. */
static void an_ack_shortens_a_run(void **state)
{
	send_some(12);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	repair(ENV_PSN);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.psn, ENV_PSN + 1);
	env_ack(&e, ENV_PSN + 2);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.psn, ENV_PSN + 3);
	env_ack(&e, ENV_PSN + 11);
	assert_false(env_output(&e));
	assert_int_equal(e.num_cqes, 12);
	assert_false(e.qp.req.goes_back);
}

/* Two NAKs for one gap before anything was sent again: one retry. */
static void repeated_nak_before_the_retry(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	assert_int_equal(e.qp.counters.completer_retry_err, 1);
	repair(ENV_PSN);
}

/* A late ACK overtakes the retransmission: nothing is sent again. */
static void late_ack_shortens_the_retry(void **state)
{
	send_some(5);
	nak(ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	env_ack(&e, ENV_PSN + 3);
	assert_int_equal(e.num_cqes, 4);
	assert_false(env_output(&e));
}

/* IBTA vol 1, 9.7.5: a response acknowledges the requests before it. */
static void response_is_an_implicit_ack(void **state)
{
	send_some(2);
	env_post(&e, IBV_WR_RDMA_READ, 100, 300);
	env_drain(&e);
	respond(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN + 2, 256);
	assert_int_equal(e.num_cqes, 2);
	respond(ROCE_RC_READ_RESPONSE_LAST, ENV_PSN + 3, 44);
	assert_int_equal(e.num_cqes, 3);
	env_expect_cqe(&e, 2, 2, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(e.mem[100 + i],
				 (uint8_t)(ENV_PSN + 2 + (i < 256 ? i : i - 256 + 1)));
}

static void start_read(uint32_t len)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_RDMA_READ, 0, len);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
}

/*
 * IBTA vol 1, 9.7.6: a response after the expected one means a loss: the rest is requested at once,
 * and only once.
 */
static void gap_in_a_read_is_retried_at_once(void **state)
{
	start_read(1024);
	respond(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN, 256);
	respond(ROCE_RC_READ_RESPONSE_MIDDLE, ENV_PSN + 2, 256);
	respond(ROCE_RC_READ_RESPONSE_LAST, ENV_PSN + 3, 256);
	env_ack(&e, ENV_PSN + 4);
	assert_int_equal(e.qp.counters.completer_retry_err, 1);
	assert_int_equal(e.num_cqes, 0);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_RC_READ_REQUEST);
	assert_int_equal(e.out.bth.psn, ENV_PSN + 1);
	assert_int_equal(e.out.reth.va, ENV_VA + 256);
	assert_int_equal(e.out.reth.len, 768);
	assert_int_equal(env_drain(&e), 1);
	env_ack(&e, ENV_PSN + 4);
	assert_false(env_output(&e));
}

/*
 * The response to a partial retry may begin with FIRST, ONLY or, as soft RoCE sends it, MIDDLE or
 * LAST.
 */
static void partial_responses(void **state)
{
	static const uint8_t ops[][3] = {
		{ ROCE_RC_READ_RESPONSE_FIRST, ROCE_RC_READ_RESPONSE_MIDDLE,
		  ROCE_RC_READ_RESPONSE_LAST },
		{ ROCE_RC_READ_RESPONSE_MIDDLE, ROCE_RC_READ_RESPONSE_MIDDLE,
		  ROCE_RC_READ_RESPONSE_LAST },
		{ ROCE_RC_READ_RESPONSE_FIRST, ROCE_RC_READ_RESPONSE_FIRST,
		  ROCE_RC_READ_RESPONSE_ONLY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		start_read(1024);
		respond(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN, 256);
		env_expire(&e);
		env_drain(&e);
		for (uint32_t k = 0; k < 3; k++)
			respond(ops[i][k], ENV_PSN + 1 + k, 256);
		env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	}
}

/* Responses that do not fit: the completion status of their READ or atomic. */
static void bad_responses(void **state)
{
	static const struct {
		uint32_t wr;
		uint32_t len;
		uint8_t op;
		uint8_t syndrome;
		uint32_t payload;
		enum ibv_wc_status status;
	} rows[] = {
		{ IBV_WR_RDMA_READ, 600, ROCE_RC_READ_RESPONSE_LAST, 31, 256, IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_RDMA_READ, 600, ROCE_RC_READ_RESPONSE_ONLY, 31, 256, IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_RDMA_READ, 600, ROCE_RC_READ_RESPONSE_FIRST, 31, 255, IBV_WC_LOC_LEN_ERR },
		{ IBV_WR_RDMA_READ, 600, ROCE_RC_READ_RESPONSE_FIRST, 0x62, 256,
		  IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_RDMA_READ, 600, ROCE_RC_ATOMIC_ACKNOWLEDGE, 31, 0, IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_RDMA_READ, 100, ROCE_RC_READ_RESPONSE_ONLY, 31, 99, IBV_WC_LOC_LEN_ERR },
		{ IBV_WR_RDMA_READ, 100, ROCE_RC_READ_RESPONSE_ONLY, 31, 101, IBV_WC_LOC_LEN_ERR },
		{ IBV_WR_RDMA_READ, 100, ROCE_RC_READ_RESPONSE_FIRST, 31, 100,
		  IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ROCE_RC_READ_RESPONSE_ONLY, 31, 8,
		  IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_FLUSH, 8, ROCE_RC_READ_RESPONSE_ONLY, 31, 8, IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_ATOMIC_WRITE, 8, ROCE_RC_ATOMIC_ACKNOWLEDGE, 31, 0, IBV_WC_BAD_RESP_ERR },
		{ IBV_WR_SEND, 8, ROCE_RC_READ_RESPONSE_ONLY, 31, 8, IBV_WC_BAD_RESP_ERR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, rows[i].wr, 0, rows[i].len);
		env_drain(&e);
		env_aeth(&e, rows[i].op, rows[i].syndrome, ENV_PSN, rows[i].payload);
		env_expect_cqe(&e, 0, 0, rows[i].status);
		assert_int_equal(e.cqes[0].reason, REASON_BAD_RESPONSE);
	}
}

static void atomic_result_is_placed(void **state)
{
	struct roce_pkt pkt;
	uint64_t value;

	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_ATOMIC_CMP_AND_SWP, 16, 8);
	env_drain(&e);
	pkt = env_pkt(&e, ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN, 0);
	pkt.atomic_ack = 0x1122334455667788;
	env_input(&e, &pkt);
	memcpy(&value, e.mem + 16, 8);
	assert_int_equal(value, 0x1122334455667788);
	env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	env_input(&e, &pkt);
	assert_int_equal(e.num_cqes, 1);
}

/* The local buffer of a READ or atomic has been deregistered when the response arrives. */
static void response_cannot_be_stored(void **state)
{
	for (int atomic = 0; atomic < 2; atomic++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, 0, 8);
		env_post(&e, IBV_WR_SEND, 0, 8);
		env_drain(&e);
		e.fail_at = 0;
		e.fail_why = REASON_LKEY_UNMAPPED;
		respond(atomic ? ROCE_RC_ATOMIC_ACKNOWLEDGE : ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN,
			atomic ? 0 : 8);
		env_expect_cqe(&e, 0, 0, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(e.cqes[0].reason, REASON_LKEY_UNMAPPED);
		env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
	}
}

/*
 * A fatal NAK after an unanswered READ: the oldest request fails with it, because the responder
 * will not repeat the response.
 */
static void fatal_nak_after_a_lost_response(void **state)
{
	start_read(100);
	nak(ROCE_NAK_REMOTE_ACCESS_ERROR, ENV_PSN + 1);
	env_expect_cqe(&e, 0, 0, IBV_WC_REM_ACCESS_ERR);
	env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
}

static void read_data_and_requests_mix(void **state)
{
	start_read(100);
	env_ack(&e, ENV_PSN + 1);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(env_drain(&e), 2);
	respond(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN, 100);
	env_ack(&e, ENV_PSN + 1);
	env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	env_expect_cqe(&e, 1, 1, IBV_WC_SUCCESS);
}

static void flush_and_atomic_write_complete(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_FLUSH, 0, 8);
	env_post(&e, IBV_WR_ATOMIC_WRITE, 0, 8);
	env_drain(&e);
	env_ack(&e, ENV_PSN + 1);
	assert_int_equal(e.num_cqes, 0);
	respond(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN, 0);
	respond(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN + 1, 0);
	assert_int_equal(e.num_cqes, 2);
}

static void responses_before_rts_are_dropped(void **state)
{
	env_init(&e, IBV_QPT_RC);
	env_rtr(&e);
	env_ack(&e, ENV_PSN);
	assert_int_equal(e.qp.counters.dropped_pkts, 1);
}

static void cnp_reduces_the_window(void **state)
{
	struct roce_pkt pkt;
	uint32_t window;

	env_start(&e, IBV_QPT_RC);
	window = e.qp.cc.window;
	pkt = env_pkt(&e, 0, 0, 0);
	pkt.bth.opcode = ROCE_CNP_NOTIFICATION;
	env_input(&e, &pkt);
	assert_int_equal(e.qp.cc.window, window - window / TUNE_CC_CNP_PART);
	assert_int_equal(e.qp.counters.cnp_rcvd, 1);
}

/*
 * READ responses in a run, as one and one by one: in the middle of an answer, up to its last
 * packet, after a gap, repeated, and where the memory ends inside.
 */
static void a_run_of_responses(void **state)
{
	static const struct {
		uint32_t packets;
		int ahead, fail_at;
		bool taken;
	} rows[] = {
		{ 2, 0, -1, true },  { 6, 0, -1, true },  { 7, 0, -1, false }, { 9, 0, -1, false },
		{ 2, 1, -1, false }, { 2, -1, -1, false }, { 4, 0, 2, true },
	};
	static uint8_t data[16 * 272];
	static struct roce_env one, many, *both[] = { &one, &many };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 5);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt run, first;

		for (int k = 0; k < 2; k++) {
			env_start(both[k], IBV_QPT_RC);
			env_post(both[k], IBV_WR_RDMA_READ, 0, 8 * 256);
			env_drain(both[k]);
			first = env_pkt(both[k], ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN, 256);
			env_input(both[k], &first);
			both[k]->fail_at = rows[i].fail_at;
			both[k]->fail_why = REASON_LKEY_RANGE;
		}
		run = env_pkt(&one, ROCE_RC_READ_RESPONSE_MIDDLE,
			      (uint32_t)(ENV_PSN + 1 + rows[i].ahead), 256);
		run.payload = data;
		run.more = rows[i].packets - 1;
		run.stride = 272;
		assert_int_equal(roce_takes_run(&one.qp, &run), rows[i].taken);
		if (!rows[i].taken)
			continue;
		env_input(&one, &run);
		for (uint32_t k = 0; k <= run.more; k++) {
			struct roce_pkt pkt = roce_run_packet(&run, k);

			env_input(&many, &pkt);
		}
		assert_int_equal(one.wq.state, many.wq.state);
		assert_int_equal(one.num_cqes, many.num_cqes);
		assert_int_equal(one.cqes[0].status, many.cqes[0].status);
		assert_memory_equal(one.mem, many.mem, sizeof(one.mem));
		if (rows[i].fail_at < 0)
			assert_int_equal(one.qp.comp.una, many.qp.comp.una);
		assert_int_equal(one.qp.counters.rcvd_bytes, many.qp.counters.rcvd_bytes);
	}
}

/* A forged run answers no WRITE. */
static void a_run_needs_a_read(void **state)
{
	static uint8_t data[2 * 256];
	struct roce_pkt run;

	for (int i = 0; i < 2; i++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 8 * 256);
		env_drain(&e);
		run = env_pkt(&e, ROCE_RC_READ_RESPONSE_MIDDLE, ENV_PSN, 256);
		run.payload = data;
		run.more = 1;
		run.stride = 256;
		assert_int_equal(roce_completer_takes_run(&e.qp, &run), i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ack_acknowledges_everything_before),
		cmocka_unit_test(ghost_acks_are_dropped),
		cmocka_unit_test(fatal_naks),
		cmocka_unit_test(a_withdrawn_message_may_be_refused),
		cmocka_unit_test(a_withdrawn_message_is_sent_as_packets),
		cmocka_unit_test(reserved_syndromes_are_bad_responses),
		cmocka_unit_test(sequence_nak_is_repaired),
		cmocka_unit_test(sequence_nak_goes_back),
		cmocka_unit_test(a_peer_that_keeps_packets_is_remembered),
		cmocka_unit_test(second_nak_for_a_gap_goes_back),
		cmocka_unit_test(next_gap_is_repaired),
		cmocka_unit_test(a_long_gap_is_repaired_in_runs),
		cmocka_unit_test(a_run_ends_at_the_last_packet),
		cmocka_unit_test(an_ack_shortens_a_run),
		cmocka_unit_test(repeated_nak_before_the_retry),
		cmocka_unit_test(late_ack_shortens_the_retry),
		cmocka_unit_test(response_is_an_implicit_ack),
		cmocka_unit_test(gap_in_a_read_is_retried_at_once),
		cmocka_unit_test(partial_responses),
		cmocka_unit_test(bad_responses),
		cmocka_unit_test(atomic_result_is_placed),
		cmocka_unit_test(response_cannot_be_stored),
		cmocka_unit_test(fatal_nak_after_a_lost_response),
		cmocka_unit_test(read_data_and_requests_mix),
		cmocka_unit_test(flush_and_atomic_write_complete),
		cmocka_unit_test(responses_before_rts_are_dropped),
		cmocka_unit_test(cnp_reduces_the_window),
		cmocka_unit_test(a_run_of_responses),
		cmocka_unit_test(a_run_needs_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
