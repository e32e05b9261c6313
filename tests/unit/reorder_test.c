/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Out-of-order requests around a real engine: which are kept, processed in order, or dropped; which
 * are not trusted, as in the table of reorder.h; PSNs wrap.
 */
#include "core/rx/reorder.h"
#include "roce/reorder.h"

#include "util/tuning.h"

#include <string.h>

#include "reorder_env.h"

static struct roce_env e;
static struct reorder_queue *h;

static int start(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (int i = 0; i < ENV_DEPTH - 1; i++)
		env_post_recv(&e, 8 * i, 8);
	return 0;
}

static int finish(void **state)
{
	reorder_free(&h);
	assert_null(h);
	return 0;
}

static void arrive(const struct roce_pkt *pkt)
{
	env_arrive(&e, &h, pkt);
}

/* A SEND of 4 bytes; `content` is its payload. */
static struct roce_pkt packet_with(uint32_t psn, uint32_t *content)
{
	struct roce_pkt pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, psn, 4);

	pkt.payload = (const uint8_t *)content;
	return pkt;
}

enum { TRUE_DATA = 0x1111, FORGED = 0x6666 };

static void receive(uint32_t psn, uint32_t content)
{
	struct roce_pkt pkt = packet_with(psn, &content);

	arrive(&pkt);
	content = 0xeeeeeeee;	/* the packet buffer is reused */
}

/* n messages have arrived; the last one has this content. */
static void expect(uint32_t n, uint32_t content)
{
	uint32_t found;

	assert_int_equal(e.num_cqes, n);
	assert_int_equal(roce_expected_psn(&e.qp), psn_add(e.wq.rq_psn, n));
	memcpy(&found, e.mem + 8 * (n - 1), 4);
	assert_int_equal(found, content);
}

static void taken_in_any_order_once(void **state)
{
	receive(ENV_PSN + 2, TRUE_DATA + 2);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN + 4, TRUE_DATA + 4);
	assert_int_equal(e.num_cqes, 0);
	receive(ENV_PSN, TRUE_DATA);
	expect(3, TRUE_DATA + 2);
	receive(ENV_PSN + 3, TRUE_DATA + 3);
	expect(5, TRUE_DATA + 4);
	receive(ENV_PSN + 4, TRUE_DATA + 4);
	expect(5, TRUE_DATA + 4);
}

static void psns_wrap(void **state)
{
	e.wq.rq_psn = 0xfffffe;
	env_move(&e, IBV_QPS_RTR);
	receive(0, TRUE_DATA + 2);
	receive(0xffffff, TRUE_DATA + 1);
	receive(0xfffffe, TRUE_DATA);
	expect(3, TRUE_DATA + 2);
}

/* The ACK of executed requests is sent although a later packet is missing and requested. */
static void the_ack_leaves_with_the_next_nak(void **state)
{
	uint32_t content = TRUE_DATA;
	struct roce_pkt pkt = packet_with(ENV_PSN, &content);

	receive(ENV_PSN + 5, FORGED);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	pkt.bth.ack_req = true;
	arrive(&pkt);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	env_expect_aeth(&e, 11, ENV_PSN, 1);
	env_expect_silence(&e);
}

/* A NAK that has not been sent when the gap closes is dropped. */
static void a_closed_gap_is_not_requested(void **state)
{
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN, TRUE_DATA);
	env_expect_aeth(&e, 11, ENV_PSN + 1, 2);
	env_expect_silence(&e);
}

/* Packets that the QP would not accept in order are not kept. */
static void unacceptable_packets_are_not_kept(void **state)
{
	uint32_t content = FORGED;
	struct roce_pkt good = packet_with(ENV_PSN + 1, &content), pkt;

	assert_true(roce_out_of_order(&e.qp, &good));
	pkt = good;
	pkt.bth.pkey = 0x8001;
	assert_false(roce_out_of_order(&e.qp, &pkt));
	pkt = good;
	pkt.bth.opcode = ROCE_UC_SEND_ONLY;
	assert_false(roce_out_of_order(&e.qp, &pkt));
	pkt = good;
	pkt.bth.opcode = ROCE_RC_ACKNOWLEDGE;
	assert_false(roce_out_of_order(&e.qp, &pkt));
	pkt = good;
	pkt.path.src.raw[15]++;
	assert_false(roce_out_of_order(&e.qp, &pkt));
	pkt = good;
	pkt.payload_len = e.wq.mtu + 1;
	assert_false(roce_out_of_order(&e.qp, &pkt));
	pkt = good;
	pkt.bth.psn = ENV_PSN + REORDER_PACKETS;
	assert_false(roce_out_of_order(&e.qp, &pkt));
}

/*
 * In-order traffic reaches the PSN of a forged packet: the peer's packet is requested and used
 * instead.
 */
static void passed_by_traffic_in_order(void **state)
{
	uint32_t n = TUNE_REORDER_MISSING + 5;

	receive(ENV_PSN + n, FORGED);
	for (uint32_t i = 0; i < n; i++) {
		env_drain(&e);
		if (e.wq.rq.head == e.wq.rq.next)
			env_post_recv(&e, 8 * i, 8);
		receive(ENV_PSN + i, TRUE_DATA + i);
		assert_int_equal(e.qp.resp.gap_nak_pending, i < TUNE_REORDER_MISSING || i == n - 1);
	}
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + n);
	expect(n, TRUE_DATA + n - 1);
	env_post_recv(&e, 8 * n, 8);
	receive(ENV_PSN + n, TRUE_DATA + n);
	expect(n + 1, TRUE_DATA + n);
}

/* An early packet is trusted as long as a retransmission explains it. */
static void a_long_retransmission_is_trusted(void **state)
{
	uint32_t n = TUNE_REORDER_TRUSTED;

	receive(ENV_PSN + n, TRUE_DATA + n);
	for (uint32_t i = 0; i < n; i++)
		receive(ENV_PSN + i, TRUE_DATA + i);
	expect(n + 1, TRUE_DATA + n);
}

/* The same with traffic that is itself out of order. */
static void passed_by_early_traffic(void **state)
{
	uint32_t n = TUNE_REORDER_TRUSTED + 1;

	receive(ENV_PSN + n, FORGED);
	for (uint32_t i = 1; i < n; i++)
		receive(ENV_PSN + i, TRUE_DATA + i);
	receive(ENV_PSN, TRUE_DATA);
	expect(n, TRUE_DATA + n - 1);
	receive(ENV_PSN + n, TRUE_DATA + n);
	expect(n + 1, TRUE_DATA + n);
}

static void old_packets_are_not_trusted(void **state)
{
	receive(ENV_PSN + 1, FORGED);
	e.now += LIMIT_REORDER_AGE + 1;
	receive(ENV_PSN, TRUE_DATA);
	expect(1, TRUE_DATA);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	expect(2, TRUE_DATA + 1);
}

/* A packet that is too old does not dispute a new one. */
static void an_old_packet_is_replaced(void **state)
{
	receive(ENV_PSN + 1, FORGED);
	e.now += LIMIT_REORDER_AGE + 1;
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN, TRUE_DATA);
	expect(2, TRUE_DATA + 1);
}

/* A NAK requests the packet again, which decides which of the two is the peer's. */
static void differing_copies_are_both_dropped(void **state)
{
	receive(ENV_PSN + 1, FORGED);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN + 1, FORGED);
	env_drain(&e);
	receive(ENV_PSN, TRUE_DATA);
	expect(1, TRUE_DATA);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN + 1);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	expect(2, TRUE_DATA + 1);
}

/* A retransmitted packet requests an ACK, and may have another ECN mark. */
static void a_repeated_packet_is_the_same(void **state)
{
	uint32_t content = TRUE_DATA + 1;
	struct roce_pkt pkt = packet_with(ENV_PSN + 1, &content);

	receive(ENV_PSN + 1, TRUE_DATA + 1);
	pkt.bth.ack_req = pkt.bth.fecn = true;
	pkt.bth.mig_req = !pkt.bth.mig_req;
	arrive(&pkt);
	receive(ENV_PSN, TRUE_DATA);
	expect(2, TRUE_DATA + 1);
}

/* The MigReq of a packet counts when it arrives, not when the packets before it have come. */
static void a_kept_packet_requests_no_migration(void **state)
{
	uint32_t content = TRUE_DATA;
	struct roce_pkt pkt = packet_with(ENV_PSN, &content);

	e.wq.alt_path = e.wq.path;
	e.wq.alt_path.dst.raw[15]++;
	e.wq.mig_state = IBV_MIG_REARM;
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	pkt.bth.mig_req = false;
	arrive(&pkt);
	expect(2, TRUE_DATA + 1);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);
	assert_int_equal(e.num_events, 0);
}

static void other_headers_are_a_difference(void **state)
{
	struct roce_pkt write = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 1, 8);

	arrive(&write);
	write.reth.va += 8;
	arrive(&write);
	receive(ENV_PSN, TRUE_DATA);
	expect(1, TRUE_DATA);
	assert_int_equal(e.writes, 0);
}

/* Beyond the limit of the process, no more packets are kept; freed ones no longer count. */
static void memory_has_a_limit(void **state)
{
	static struct reorder_queue *many[LIMIT_REORDER_BYTES / (REORDER_PACKETS * 4096) + 8];
	static uint8_t payload[4096];
	size_t n = ARRAY_SIZE(many), last_kept = 0;

	for (size_t i = 0; i < n; i++)
		for (uint32_t psn = ENV_PSN + 1; psn < ENV_PSN + REORDER_PACKETS; psn++) {
			struct roce_pkt pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, psn, 4);

			pkt.payload = payload;
			pkt.payload_len = 4096;
			reorder_insert(&many[i], &pkt, e.now);
		}
	for (size_t i = 0; i < n; i++) {
		env_init(&e, IBV_QPT_RC);
		e.wq.mtu = 4096;
		e.wq.rq_psn = ENV_PSN + REORDER_PACKETS - 1;
		env_rts(&e);
		env_post_recv(&e, 0, 4096);
		reorder_deliver(many[i], &e.qp, env_run_held, &e, e.now);
		last_kept += e.num_cqes;
		reorder_free(&many[i]);
	}
	assert_in_range(last_kept, LIMIT_REORDER_BYTES / (REORDER_PACKETS * 4400),
			LIMIT_REORDER_BYTES / (REORDER_PACKETS * 4096));
	start(NULL);
	receive(ENV_PSN + 1, TRUE_DATA + 1);
	receive(ENV_PSN, TRUE_DATA);
	expect(2, TRUE_DATA + 1);
}

/* The rules alone: an out-of-order packet 10 ahead of PSN 100, after this many late packets. */
static void rules_of_an_early_packet(void **state)
{
	static const struct {
		uint32_t passed, expected;
		uint64_t age;
		bool over, gap, runs;
	} rows[] = {
		{ 0, 100, 0, false, true, false },
		{ 0, 110, 0, false, true, true },
		{ 0, 111, 0, true, true, false },
		{ TUNE_REORDER_TRUSTED, 110, 0, false, true, true },
		{ TUNE_REORDER_TRUSTED + 1, 110, 0, false, true, false },
		{ TUNE_REORDER_MISSING, 100, 0, false, true, false },
		{ TUNE_REORDER_MISSING + 1, 100, 0, false, false, false },
		{ TUNE_REORDER_MISSING + 1, 110, 0, false, true, false },
		{ 0, 110, LIMIT_REORDER_AGE, false, true, true },
		{ 0, 110, LIMIT_REORDER_AGE + 1, true, true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_out_of_order r = roce_out_of_order_new(110, 1000);
		uint64_t now = 1000 + rows[i].age;

		for (uint32_t k = 0; k < rows[i].passed; k++)
			roce_out_of_order_passed(&r, 105);
		roce_out_of_order_passed(&r, 110);	/* not in front of it */
		if (roce_out_of_order_is_over(&r, rows[i].expected, now) != rows[i].over ||
		    roce_out_of_order_shows_gap(&r, rows[i].expected) != rows[i].gap ||
		    roce_out_of_order_runs(&r, rows[i].expected) != rows[i].runs)
			fail_msg("row %zu", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(taken_in_any_order_once, start, finish),
		cmocka_unit_test_setup_teardown(psns_wrap, start, finish),
		cmocka_unit_test_setup_teardown(the_ack_leaves_with_the_next_nak, start, finish),
		cmocka_unit_test_setup_teardown(a_closed_gap_is_not_requested, start, finish),
		cmocka_unit_test_setup_teardown(unacceptable_packets_are_not_kept, start, finish),
		cmocka_unit_test_setup_teardown(passed_by_traffic_in_order, start, finish),
		cmocka_unit_test_setup_teardown(passed_by_early_traffic, start, finish),
		cmocka_unit_test_setup_teardown(a_long_retransmission_is_trusted, start, finish),
		cmocka_unit_test_setup_teardown(old_packets_are_not_trusted, start, finish),
		cmocka_unit_test_setup_teardown(an_old_packet_is_replaced, start, finish),
		cmocka_unit_test_setup_teardown(differing_copies_are_both_dropped, start, finish),
		cmocka_unit_test_setup_teardown(a_repeated_packet_is_the_same, start, finish),
		cmocka_unit_test_setup_teardown(a_kept_packet_requests_no_migration, start, finish),
		cmocka_unit_test_setup_teardown(other_headers_are_a_difference, start, finish),
		cmocka_unit_test_setup_teardown(memory_has_a_limit, start, finish),
		cmocka_unit_test(rules_of_an_early_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
