/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * End-to-end credits on both sides, and which pending acknowledgement survives (IBTA vol 1, 9.7.5
 * and 9.7.7).
 */
#include "roce/acknak.h"

#include "roce_env.h"

static struct roce_env e;

/* The responder promises the receives it has, the one in use included, rounded down to a code. */
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

/* SSN up to MSN + credits may go; beyond that one packet at a time asks. */
static void requester_keeps_to_its_credits(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	ack_with_credits(ENV_PSN, 1, 2);
	for (int i = 0; i < 5; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	ack_with_credits(ENV_PSN + 2, 3, 0);
	assert_int_equal(env_drain(&e), 1);
	assert_true(e.out.bth.ack_req);
	ack_with_credits(ENV_PSN + 3, 4, ROCE_CREDITS_INVALID);
	assert_int_equal(env_drain(&e), 2);
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
static void who_needs_a_credit(void **state)
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

/* An ACK that was overtaken does not take credits back. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credits_follow_the_receive_queue),
		cmocka_unit_test(no_credits_with_a_shared_queue),
		cmocka_unit_test(requester_keeps_to_its_credits),
		cmocka_unit_test(probe_with_a_long_message),
		cmocka_unit_test(who_needs_a_credit),
		cmocka_unit_test(stale_credits_are_ignored),
		cmocka_unit_test(newest_acknowledgement_survives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
