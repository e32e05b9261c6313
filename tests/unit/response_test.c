/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's output and its order: coalesced ACKs, duplicates, the fatal NAK of a failed QP.
 */
#include "roce_env.h"

#include "roce/faults.h"

static struct roce_env e;

/* The missing packet was only late: a pending NAK becomes an ACK. */
static void reordering_within_a_burst_needs_no_nak(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	env_expect_aeth(&e, 0, ENV_PSN, 1);
	env_expect_silence(&e);
}

static void acks_of_a_burst_coalesce(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (uint32_t i = 0; i < 10; i++)
		env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + i, 8);
	env_expect_aeth(&e, 0, ENV_PSN + 9, 10);
	env_expect_silence(&e);
	assert_int_equal(e.qp.counters.ack_deferred, 9);
}

static void no_ack_without_ack_request(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	env_input(&e, &pkt);
	env_expect_silence(&e);
}

/* IBTA vol 1, 9.7.5: a duplicate is acknowledged with the newest PSN and not executed again. */
static void duplicate_send_is_acknowledged_not_delivered(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 100);
	env_post_recv(&e, 0, 100);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
	env_drain(&e);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_expect_aeth(&e, 1, ENV_PSN + 1, 2);
	assert_int_equal(e.num_cqes, 1);
}

/*
 * An ACK covers only SENDs and WRITEs: a READ or atomic after the newest of them is acknowledged by
 * its response, which may be lost. A requester that takes the ACK for that response gets no data
 * (seen with soft RoCE).
 */
static void duplicate_before_pending_reads(void **state)
{
	static const uint8_t behind[] = { ROCE_RC_FETCH_ADD, ROCE_RC_READ_REQUEST };

	for (size_t i = 0; i < ARRAY_SIZE(behind); i++) {
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
		for (uint32_t n = 1; n <= 2; n++) {
			pkt = env_pkt(&e, behind[i], ENV_PSN + n, 0);
			pkt.atomic.va = ENV_VA;
			pkt.atomic.rkey = ENV_KEY;
			env_input(&e, &pkt);
		}
		assert_int_equal(env_drain(&e), 2);
		env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
		env_expect_aeth(&e, 0, ENV_PSN, 3);
		env_expect_silence(&e);
	}
}

/* A fatal NAK is sent after the pending responses, then nothing. */
static void fatal_nak_follows_pending_responses(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_READ_REQUEST, ENV_PSN, 0);
	e.qp.resp.ack.pending = false;
	env_request(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 1, 256);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_RC_READ_RESPONSE_ONLY);
	env_expect_nak(&e, ROCE_NAK_INVALID_REQUEST, ENV_PSN + 1);
	env_expect_silence(&e);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);
	env_expect_silence(&e);
	assert_int_equal(e.writes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reordering_within_a_burst_needs_no_nak),
		cmocka_unit_test(acks_of_a_burst_coalesce),
		cmocka_unit_test(no_ack_without_ack_request),
		cmocka_unit_test(duplicate_send_is_acknowledged_not_delivered),
		cmocka_unit_test(duplicate_before_pending_reads),
		cmocka_unit_test(fatal_nak_follows_pending_responses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
