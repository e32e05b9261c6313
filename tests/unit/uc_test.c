/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: no acknowledgements, messages lost whole, receives kept (IBTA vol 1, 9.8.2). */
#include "roce_env.h"

static struct roce_env e;

static void write_packet(uint8_t op, uint32_t psn, uint32_t reth, uint32_t payload)
{
	struct roce_pkt pkt = env_pkt(&e, op, psn, payload);

	pkt.reth.len = reth;
	env_input(&e, &pkt);
}

/* A request is complete after its last packet; there is no limit and no retransmission. */
static void requests_complete_when_sent(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post(&e, IBV_WR_SEND, 0, 600);
	env_post(&e, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 256 * 500);
	env_post(&e, IBV_WR_BIND_MW, 0, 0);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_UC_SEND_FIRST);
	assert_int_equal(e.num_cqes, 0);
	assert_true(env_output(&e));
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_UC_SEND_LAST);
	assert_false(e.out.bth.ack_req);
	assert_int_equal(e.num_cqes, 1);
	assert_int_equal(env_drain(&e), 500);
	env_expect_cqe(&e, 2, 2, IBV_WC_SUCCESS);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
}

/* A local failure stops the send queue only (SQE); a transition to RTS restarts it. */
static void send_queue_error(void **state)
{
	static const struct {
		uint32_t wr;
		uint32_t key;
		enum ibv_wc_status status;
	} rows[] = {
		{ IBV_WR_SEND, 99, IBV_WC_LOC_PROT_ERR },
		{ IBV_WR_RDMA_READ, ENV_KEY, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_WR_SEND_WITH_INV, ENV_KEY, IBV_WC_LOC_QP_OP_ERR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_UC);
		env_post_recv(&e, 0, 100);
		env_post(&e, IBV_WR_SEND, 0, 8);
		env_post(&e, rows[i].wr, 0, 8)->sge[0].lkey = rows[i].key;
		env_post(&e, IBV_WR_SEND, 0, 8);
		assert_int_equal(env_drain(&e), 1);
		assert_int_equal(e.wq.state, IBV_QPS_SQE);
		env_expect_cqe(&e, 1, 1, rows[i].status);
		env_expect_cqe(&e, 2, 2, IBV_WC_WR_FLUSH_ERR);
		env_post(&e, IBV_WR_SEND, 0, 8);
		env_drain(&e);
		env_expect_cqe(&e, 3, 3, IBV_WC_WR_FLUSH_ERR);
		env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
		env_expect_cqe(&e, 4, 1000, IBV_WC_SUCCESS);
		env_move(&e, IBV_QPS_RTS);
		env_post(&e, IBV_WR_SEND, 0, 8);
		assert_int_equal(env_drain(&e), 1);
		assert_int_equal(e.out.bth.psn, ENV_PSN + 1);
	}
}

/*
 * A gap loses the message in progress; its receive serves the next complete one. A CNP tells the
 * sender, one for all gaps of 50 us.
 */
static void gap_loses_one_message(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 2, 8);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(e.untaken, 1);
	env_request(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 3, 256);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN + 7, 256);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 8, 8);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].byte_len, 264);
	assert_int_equal(env_drain(&e), 1);
	assert_int_equal(e.out.bth.opcode, ROCE_CNP_NOTIFICATION);
	assert_int_equal(e.qp.counters.cnp_sent, 1);
	assert_int_equal(e.qp.counters.broken_msgs, 1);
	assert_int_equal(e.qp.counters.lost_pkts, 4);
	assert_int_equal(e.dropped, REASON_DROP_BROKEN);
}

/* A message whose end was lost is dropped when the next one begins, although no PSN is missing. */
static void new_message_ends_an_unfinished_one(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 1, 10);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].byte_len, 10);
	assert_int_equal(e.qp.counters.broken_msgs, 1);
	assert_int_equal(e.qp.counters.lost_pkts, 0);
}

static void any_first_psn_is_taken(void **state)
{
	static const uint32_t psns[] = { ENV_PSN - 1, ENV_PSN + 5, ENV_PSN + 0x900000 };

	for (size_t i = 0; i < ARRAY_SIZE(psns); i++) {
		env_start(&e, IBV_QPT_UC);
		write_packet(ROCE_RC_WRITE_ONLY, psns[i], 8, 8);
		write_packet(ROCE_RC_WRITE_ONLY, psns[i] + 1, 8, 8);
		assert_int_equal(e.writes, 2);
		assert_int_equal(e.qp.counters.lost_pkts, 0);
	}
}

/* UDP may deliver a datagram twice; UC cannot detect that by itself. */
static void duplicates_are_dropped(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 100);
	env_post_recv(&e, 0, 100);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	assert_int_equal(e.num_cqes, 1);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN - 2000, 8);
	assert_int_equal(e.num_cqes, 2);
}

/* A way that repeats nothing brings a PSN of before only from a peer that was reset. */
static void no_duplicates_come_in_order(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 100);
	env_post_recv(&e, 0, 100);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	pkt.in_order = true;
	env_input(&e, &pkt);
	assert_int_equal(e.num_cqes, 2);
	assert_int_equal(e.qp.counters.lost_pkts, 0);
	assert_false(e.qp.resp.cnp_pending);
}

/* Data that a lost WRITE has written remains; its immediate data is not delivered. */
static void partial_write(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 100);
	write_packet(ROCE_RC_WRITE_FIRST, ENV_PSN, 520, 256);
	write_packet(ROCE_RC_WRITE_LAST_WITH_IMMEDIATE, ENV_PSN + 2, 0, 8);
	assert_int_equal(e.writes, 1);
	assert_int_equal(e.num_cqes, 0);
	write_packet(ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE, ENV_PSN + 3, 8, 8);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
}

/* IBTA vol 1, 9.9.3, classes D and E: faults of the peer drop the message and nothing else. */
static void faults_of_the_peer_are_dropped(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 1000);
	pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	pkt.reth.rkey++;
	env_input(&e, &pkt);
	write_packet(ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 9, 8);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN + 2, 255);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN + 3, 256);
	write_packet(ROCE_RC_WRITE_LAST, ENV_PSN + 4, 0, 8);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	assert_int_equal(e.num_cqes + e.num_events, 0);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 5, 8);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
}

static void no_receive_drops_the_message(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 1, 8);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(e.dropped, REASON_DROP_NO_RECEIVE);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN + 2, 8);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	/* counted once; the rest of the message is not a gap */
	assert_int_equal(e.qp.counters.unreceived_msgs, 1);
	assert_int_equal(e.qp.counters.out_of_seq_request + e.qp.counters.broken_msgs, 0);
}

/* The previous message is complete; the start of the next one is missing. */
static void beginning_is_lost(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 1000);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 8);
	env_request(&e, ROCE_RC_SEND_MIDDLE, ENV_PSN + 2, 256);
	env_request(&e, ROCE_RC_SEND_LAST, ENV_PSN + 3, 8);
	assert_int_equal(e.num_cqes, 1);
	assert_int_equal(e.qp.counters.broken_msgs, 1);
	assert_int_equal(e.qp.counters.lost_pkts, 1);
}

/* A receive that is too small for the message is an error of the receiver itself. */
static void receive_too_small(void **state)
{
	env_start(&e, IBV_QPT_UC);
	env_post_recv(&e, 0, 10);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 11);
	env_expect_cqe(&e, 0, 1000, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	assert_int_equal(env_drain(&e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_complete_when_sent),
		cmocka_unit_test(send_queue_error),
		cmocka_unit_test(gap_loses_one_message),
		cmocka_unit_test(new_message_ends_an_unfinished_one),
		cmocka_unit_test(any_first_psn_is_taken),
		cmocka_unit_test(duplicates_are_dropped),
		cmocka_unit_test(no_duplicates_come_in_order),
		cmocka_unit_test(partial_write),
		cmocka_unit_test(faults_of_the_peer_are_dropped),
		cmocka_unit_test(no_receive_drops_the_message),
		cmocka_unit_test(beginning_is_lost),
		cmocka_unit_test(receive_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
