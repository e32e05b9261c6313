/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end credits on both sides, and which pending acknowledgement is kept (IBTA vol 1, 9.7.5
 * and 9.7.7).
 */
#include "roce/acknak.h"

#include "roce_env.h"

static struct roce_env e;

/* The responder advertises its receives, including the one in use, rounded down to a code. */
static void credits_follow_the_receive_queue(void **state)
{
	static const struct {
		uint32_t receives;
		uint8_t code;
	} rows[] = { { 0, 0 }, { 1, 1 }, { 4, 4 }, { 5, 4 }, { 6, 5 }, { 12, 7 }, { 60, 11 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		for (uint32_t k = 0; k < rows[i].receives; k++)
			env_post_recv(&e, 0, 1000);
		assert_int_equal(roce_ack_syndrome(&e.qp), rows[i].code);
		if (rows[i].receives)
			env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
		assert_int_equal(roce_ack_syndrome(&e.qp), rows[i].code);
	}
}

static void no_credits_with_a_shared_queue(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.has_srq = true;
	assert_int_equal(roce_ack_syndrome(&e.qp), ROCE_CREDITS_INVALID);
	env_start(&e, IBV_QPT_XRC_RECV);
	assert_int_equal(roce_ack_syndrome(&e.qp), ROCE_CREDITS_INVALID);
}

static void ack_with_credits(uint32_t psn, uint32_t msn, uint8_t code)
{
	struct roce_pkt pkt = env_pkt(&e, ROCE_RC_ACKNOWLEDGE, psn, 0);

	pkt.aeth.syndrome = code;
	pkt.aeth.msn = msn;
	env_input(&e, &pkt);
}

static void send_by_credits(uint32_t messages_before)
{
	env_start(&e, IBV_QPT_RC);
	e.qp.req.ssn = e.qp.comp.msn = messages_before;
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN, psn_add(messages_before, 1), 2);
	for (int i = 0; i < 5; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	ack_with_credits(ENV_PSN + 2, psn_add(messages_before, 3), 0);
	assert_int_equal(env_drain(&e), 1);
	assert_true(e.out.bth.ack_req);
	ack_with_credits(ENV_PSN + 3, psn_add(messages_before, 4), ROCE_CREDITS_INVALID);
	assert_int_equal(env_drain(&e), 2);
}

/*
 * Requests up to SSN = MSN + credits may be sent; beyond that, one packet at a time as a probe.
 * Also when the 24 bits of these numbers wrap.
 */
static void requester_respects_its_credits(void **state)
{
	for (int i = 0; i < 6; i++)
		send_by_credits(psn_add(0, -i));
}

/* The first packet of a long SEND probes; the receive it took counts as a credit for the rest. */
static void probe_with_a_long_message(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN, 1, 0);
	env_post(&e, IBV_WR_SEND, 0, 1024);
	assert_int_equal(env_drain(&e), 1);
	assert_true(e.out.bth.ack_req);
	ack_with_credits(ENV_PSN + 1, 1, 1);
	assert_int_equal(env_drain(&e), 3);
}

/* READs and plain WRITEs need no receive; a WRITE with immediate only for its last packet. */
static void requests_that_need_a_credit(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN, 1, 0);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	env_post(&e, IBV_WR_RDMA_READ, 0, 8);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	assert_int_equal(env_drain(&e), 3);
	env_post(&e, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 600);
	assert_int_equal(env_drain(&e), 2);
}

/* The last packet then waits for the ACK of those before it, so one of them requests that. */
static void a_write_with_immediate_asks_before_it_waits(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN, 1, 0);
	env_post(&e, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 600);
	assert_int_equal(env_drain(&e), 2);
	assert_true(e.out.bth.ack_req);
	ack_with_credits(ENV_PSN + 2, 1, 0);
	assert_int_equal(env_drain(&e), 1);
}

/* To a peer without receives, a WRITE asks for no more ACKs than to any other. */
static void missing_credits_do_not_concern_writes(void **state)
{
	unsigned int requested[2] = { 0 };

	for (uint8_t i = 0; i < 2; i++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, IBV_WR_SEND, 0, 8);
		env_drain(&e);
		ack_with_credits(ENV_PSN, 1, i ? ROCE_CREDITS_INVALID : 0);
		env_post(&e, IBV_WR_RDMA_WRITE, 0, 8 * 256);
		for (int k = 0; k < 8; k++) {
			assert_true(env_output(&e));
			requested[i] += e.out.bth.ack_req;
		}
	}
	assert_int_equal(requested[0], requested[1]);
	assert_in_range(requested[0], 1, 7);
}

/* An ACK that was overtaken does not withdraw credits. */
static void stale_credits_are_ignored(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (int i = 0; i < 3; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN + 2, 3, 10);
	ack_with_credits(ENV_PSN + 2, 2, 0);
	assert_int_equal(e.qp.comp.lsn, 3 + 32);
	ack_with_credits(ENV_PSN + 2, 3, 0);
	assert_int_equal(e.qp.comp.lsn, 3);
}

static void newest_acknowledgement_survives(void **state)
{
	const struct roce_ack *ack = &e.qp.resp.ack;

	env_start(&e, IBV_QPT_RC);
	roce_ack_pend(&e.qp, 5);
	roce_ack_pend(&e.qp, 4);
	assert_int_equal(ack->psn, 5);
	roce_nak_pend(&e.qp, roce_syndrome(ROCE_AETH_NAK, 0), 6);
	roce_ack_pend(&e.qp, 5);
	assert_int_equal(ack->psn, 6);
	assert_int_equal(ack->syndrome, 0x60);
	roce_ack_implied(&e.qp, 6);
	assert_true(ack->pending);
	roce_ack_pend(&e.qp, 6);
	assert_int_equal(ack->syndrome, 0);
	roce_ack_implied(&e.qp, 5);
	assert_true(ack->pending);
	roce_ack_implied(&e.qp, 6);
	assert_false(ack->pending);
}

/*
 * Takes the engine's output with ACKs allowed beside requests; returns the opcode of the packet,
 * -1: none.
 */
static int output_beside(struct roce_piggyback_ack *ack)
{
	ack->allowed = true;
	e.len = roce_output_with(&e.qp, e.buf, sizeof(e.buf), &e.out_path, ack, e.now);
	return e.len ? e.buf[0] : -1;
}

/* A QP with a pending ACK for one message of 8 bytes. */
static void start_with_pending_ack(void)
{
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 8);
	env_post_recv(&e, 0, 8);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
}

/* The opcodes of the packets that leave, of a WRITE and a SEND beside an ACK or NAK. */
static void expect_order(enum roce_ack_order order, bool nak, const int *opcodes)
{
	start_with_pending_ack();
	if (nak)
		roce_nak_pend(&e.qp, roce_syndrome(ROCE_AETH_NAK, 0), ENV_PSN + 1);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 300);
	env_post(&e, IBV_WR_SEND, 0, 8);
	e.qp.ack_order = order;
	for (; *opcodes; opcodes++) {
		assert_true(env_output(&e));
		assert_int_equal(e.out.bth.opcode, *opcodes);
	}
	assert_false(env_output(&e));
}

static void where_an_ack_leaves_beside_requests(void **state)
{
	enum {
		FIRST = ROCE_RC_WRITE_FIRST,
		LAST = ROCE_RC_WRITE_LAST,
		SEND = ROCE_RC_SEND_ONLY,
		ACK = ROCE_RC_ACKNOWLEDGE,
	};

	expect_order(ROCE_ACK_FIRST, false, (const int[]){ ACK, FIRST, LAST, SEND, 0 });
	expect_order(ROCE_ACK_BEHIND_WRITES, false, (const int[]){ FIRST, LAST, ACK, SEND, 0 });
	expect_order(ROCE_ACK_HELD, false, (const int[]){ FIRST, LAST, SEND, 0 });
	assert_true(roce_has_ack(&e.qp));
	e.qp.ack_order = ROCE_ACK_FIRST;
	env_expect_aeth(&e, 1, ENV_PSN, 1);
	expect_order(ROCE_ACK_BEHIND_REPLY, false, (const int[]){ FIRST, LAST, ACK, SEND, 0 });
	expect_order(ROCE_ACK_BEHIND_WRITES, true, (const int[]){ ACK, FIRST, LAST, SEND, 0 });
	expect_order(ROCE_ACK_BEHIND_REPLY, true, (const int[]){ ACK, FIRST, LAST, SEND, 0 });
	expect_order(ROCE_ACK_HELD, true, (const int[]){ ACK, FIRST, LAST, SEND, 0 });
}

/* The window closes in the middle of a WRITE. */
static void where_an_ack_leaves_beside_a_long_request(void **state)
{
	static const enum roce_ack_order orders[] = { ROCE_ACK_BEHIND_WRITES,
						      ROCE_ACK_BEHIND_REPLY };

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		start_with_pending_ack();
		e.qp.cc.window = 2;
		env_post(&e, IBV_WR_RDMA_WRITE, 0, 3 * 256);
		e.qp.ack_order = orders[i];
		assert_true(env_output(&e));
		assert_true(env_output(&e));
		assert_int_equal(e.out.bth.opcode, ROCE_RC_WRITE_MIDDLE);
		assert_int_equal(env_output(&e), orders[i] == ROCE_ACK_BEHIND_WRITES);
		assert_int_equal(roce_has_ack(&e.qp), orders[i] == ROCE_ACK_BEHIND_REPLY);
		env_ack(&e, e.qp.req.psn - 1);
		assert_true(env_output(&e));
		assert_int_equal(e.out.bth.opcode, ROCE_RC_WRITE_LAST);
		assert_int_equal(env_output(&e), orders[i] == ROCE_ACK_BEHIND_REPLY);
		assert_int_equal(e.out.bth.opcode, orders[i] == ROCE_ACK_BEHIND_REPLY ?
							   ROCE_RC_ACKNOWLEDGE :
							   ROCE_RC_WRITE_LAST);
	}
}

static void an_ack_is_piggybacked_on_a_request(void **state)
{
	struct roce_piggyback_ack ack;

	start_with_pending_ack();
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(output_beside(&ack), ROCE_RC_SEND_ONLY);
	assert_true(ack.any);
	assert_int_equal(ack.psn, ENV_PSN);
	assert_int_equal(ack.msn, 1);
	assert_int_equal(ack.syndrome, 1);
	assert_int_equal(e.qp.counters.sent_pkts, 2);
	assert_int_equal(output_beside(&ack), ROCE_RC_SEND_ONLY);
	assert_false(ack.any);
	assert_int_equal(output_beside(&ack), -1);
}

/*
 * The ACK is sent alone if there is no request, if it is a NAK, or if READ responses are pending.
 */
static void acks_sent_alone(void **state)
{
	struct roce_piggyback_ack ack;

	start_with_pending_ack();
	assert_int_equal(output_beside(&ack), ROCE_RC_ACKNOWLEDGE);
	assert_false(ack.any);

	start_with_pending_ack();
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 5, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(output_beside(&ack), ROCE_RC_ACKNOWLEDGE);
	assert_false(ack.any);
	assert_int_equal(output_beside(&ack), ROCE_RC_SEND_ONLY);
	assert_true(ack.any);

	start_with_pending_ack();
	env_request(&e, ROCE_RC_READ_REQUEST, ENV_PSN + 1, 0);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 2, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(output_beside(&ack), ROCE_RC_READ_RESPONSE_ONLY);
	assert_int_equal(output_beside(&ack), ROCE_RC_SEND_ONLY);
	assert_true(ack.any);
}

/*
 * A request executed in the peer's memory is visible there at once, and must not be visible before
 * the ACK.
 */
static void an_ack_precedes_one_sided_requests(void **state)
{
	struct roce_piggyback_ack ack;

	start_with_pending_ack();
	e.wq.direct = true;
	e.direct_max = 1;
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	assert_int_equal(output_beside(&ack), ROCE_RC_ACKNOWLEDGE);
	assert_int_equal(e.wq.sq.next, 0);
}

/*
 * The peer's message was executed, so the peer gets the ACK, although this QP fails on its own
 * request.
 */
static void a_request_that_fails_leaves_the_ack(void **state)
{
	struct roce_piggyback_ack ack;

	start_with_pending_ack();
	env_post(&e, IBV_WR_SEND, 0, 8);
	e.fail_at = 0;
	e.fail_why = REASON_LKEY_UNKNOWN;
	assert_int_equal(output_beside(&ack), ROCE_RC_ACKNOWLEDGE);
	assert_false(ack.any);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	assert_int_equal(output_beside(&ack), -1);
}

static void request_beside(const struct roce_piggyback_ack *ack, uint32_t psn)
{
	struct roce_pkt pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, psn, 8);

	pkt.ack = ack;
	env_input(&e, &pkt);
}

/*
 * Processed as if it had arrived first: completions in this order, and a NAK fails the QP before
 * the request.
 */
static void a_piggybacked_ack_is_processed_first(void **state)
{
	struct roce_piggyback_ack ack = { .psn = ENV_PSN,
					  .msn = 1,
					  .syndrome = ROCE_CREDITS_INVALID };

	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	request_beside(&ack, ENV_PSN);
	assert_int_equal(e.num_cqes, 2);
	assert_int_equal(e.cqes[0].opcode, IBV_WC_SEND);
	assert_int_equal(e.cqes[1].opcode, IBV_WC_RECV);
	assert_int_equal(e.qp.counters.rcvd_pkts, 2);

	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack.syndrome = roce_syndrome(ROCE_AETH_NAK, ROCE_NAK_REMOTE_ACCESS_ERROR);
	request_beside(&ack, ENV_PSN);
	assert_int_equal(e.cqes[0].status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(e.cqes[1].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(e.qp.counters.dropped_pkts, 1);
}

/* A peer may write anything: an ACK for a QP without a requester, or in a state that ignores it. */
static void a_misplaced_piggybacked_ack_is_dropped(void **state)
{
	struct roce_piggyback_ack ack = { .psn = ENV_PSN, .syndrome = ROCE_CREDITS_INVALID };

	env_init(&e, IBV_QPT_RC);
	env_rtr(&e);
	env_post_recv(&e, 0, 8);
	request_beside(&ack, ENV_PSN);
	assert_int_equal(e.num_cqes, 1);
	assert_int_equal(e.qp.counters.dropped_pkts, 1);

	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 8);
	request_beside(&ack, ENV_PSN);
	assert_int_equal(e.num_cqes, 1);
	assert_int_equal(e.qp.counters.dropped_pkts, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits_follow_the_receive_queue),
		cmocka_unit_test(no_credits_with_a_shared_queue),
		cmocka_unit_test(requester_respects_its_credits),
		cmocka_unit_test(probe_with_a_long_message),
		cmocka_unit_test(requests_that_need_a_credit),
		cmocka_unit_test(a_write_with_immediate_asks_before_it_waits),
		cmocka_unit_test(missing_credits_do_not_concern_writes),
		cmocka_unit_test(stale_credits_are_ignored),
		cmocka_unit_test(newest_acknowledgement_survives),
		cmocka_unit_test(where_an_ack_leaves_beside_requests),
		cmocka_unit_test(where_an_ack_leaves_beside_a_long_request),
		cmocka_unit_test(an_ack_is_piggybacked_on_a_request),
		cmocka_unit_test(acks_sent_alone),
		cmocka_unit_test(a_request_that_fails_leaves_the_ack),
		cmocka_unit_test(an_ack_precedes_one_sided_requests),
		cmocka_unit_test(a_piggybacked_ack_is_processed_first),
		cmocka_unit_test(a_misplaced_piggybacked_ack_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
