/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The effect of a message on the receive that it consumes, for messages in packets and for payloads
 * read from the sender's memory, and on keys.
 */
#include "roce_env.h"

#include <string.h>

static struct roce_env e;

/* Completions of every operation that consumes a receive: opcode, length, immediate, solicited. */
static void receive_completions(void **state)
{
	static const struct {
		uint8_t op;
		enum ibv_wc_opcode wc;
		uint32_t flags;
	} rows[] = {
		{ ROCE_RC_SEND_ONLY, IBV_WC_RECV, 0 },
		{ ROCE_RC_SEND_ONLY_WITH_IMMEDIATE, IBV_WC_RECV, IBV_WC_WITH_IMM },
		{ ROCE_RC_SEND_ONLY_WITH_INVALIDATE, IBV_WC_RECV, IBV_WC_WITH_INV },
		{ ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		env_post_recv(&e, 0, 100);
		pkt = env_pkt(&e, rows[i].op, ENV_PSN, 77);
		pkt.imm = 0x01020304;
		pkt.ieth_rkey = 0xabcd;
		pkt.bth.solicited = i & 1;
		env_input(&e, &pkt);
		env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
		assert_int_equal(e.cqes[0].opcode, rows[i].wc);
		assert_int_equal(e.cqes[0].byte_len, 77);
		assert_int_equal(e.cqes[0].wc_flags, rows[i].flags);
		assert_int_equal(e.cqes[0].solicited, i & 1);
		assert_int_equal(e.cqes[0].release, 1);
		assert_true(e.cqes[0].recv);
		if (rows[i].flags & IBV_WC_WITH_IMM)
			assert_int_equal(e.cqes[0].imm, 0x01020304);
		if (rows[i].flags & IBV_WC_WITH_INV) {
			assert_int_equal(e.cqes[0].imm, 0xabcd);
			assert_int_equal(e.invalidated, 0xabcd);
		}
	}
}

/* Class J: the message has arrived, and its sender gets an ACK; then the QP sends nothing. */
static void failed_invalidation(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, 100);
	pkt = env_pkt(&e, ROCE_RC_SEND_ONLY_WITH_INVALIDATE, ENV_PSN, 0);
	e.fail_at = 0;
	e.fail_why = REASON_WR_INVALIDATE;
	env_input(&e, &pkt);
	env_expect_aeth(&e, 0, ENV_PSN, 1);
	env_expect_cqe(&e, 0, 1000, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	env_input(&e, &pkt);
	env_expect_silence(&e);
	assert_int_equal(e.cqes[0].reason, REASON_REQ_INVALIDATE);
}

/*
 * The payload of a local peer is read from its memory. If that fails, the message must come as
 * packets: a further copy of the same request, which may have been in flight, is refused like the
 * first and has no effect that could conflict with those packets.
 */
static void payload_is_pulled(void **state)
{
	static uint8_t theirs[3000];
	const struct wq_seg seg = { (uintptr_t)theirs, sizeof(theirs) };
	const struct wq_pull from = { .pid = 1, .num_seg = 1, .seg = &seg };
	struct roce_pkt pkt;

	memset(theirs, 0x5a, sizeof(theirs));
	env_start(&e, IBV_QPT_RC);
	env_post_recv(&e, 0, sizeof(theirs));
	pkt = env_pkt(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 0);
	pkt.payload_len = sizeof(theirs);
	pkt.pull = &from;
	e.fail_at = 0;
	e.fail_why = REASON_PEER_DIED;
	env_input(&e, &pkt);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(e.untaken, 1);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	env_input(&e, &pkt);
	assert_int_equal(e.num_cqes, 0);
	env_expect_nak(&e, ROCE_NAK_PSN_SEQUENCE_ERROR, ENV_PSN);
	env_request(&e, ROCE_RC_SEND_ONLY, ENV_PSN, 100);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].byte_len, 100);
	env_post_recv(&e, 0, sizeof(theirs));
	pkt.bth.psn = ENV_PSN + 1;
	env_input(&e, &pkt);
	env_expect_cqe(&e, 1, 1001, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[1].byte_len, sizeof(theirs));
	assert_memory_equal(e.mem, theirs, sizeof(theirs));
}

/* Delivers to `to` the request with this number of `from`, whose payload stays in its memory. */
static void deliver_pulled(struct roce_env *from, struct roce_env *to,
			   const struct roce_pkt *packet)
{
	struct wq_seg seg = { (uintptr_t)from->mem, 1000 };
	struct wq_pull pull = { .pid = 1, .num_seg = 1, .seg = &seg };
	struct roce_pkt pkt = *packet;

	pkt.pull = &pull;
	pkt.payload_len = 1000;
	to->now = from->now;
	env_input(to, &pkt);
}

/*
 * A local peer lost the first of three such requests. A probe resends them while the NAK is in
 * flight that requests the first one as packets: the probe's copies must not be executed, or those
 * packets would have old PSNs.
 */
static void copies_of_withdrawn_requests_are_not_executed(void **state)
{
	static struct roce_env a, b;
	struct roce_pkt pkt[3];

	env_init(&a, IBV_QPT_RC);
	env_init(&b, IBV_QPT_RC);
	env_connect(&a, &b);
	env_rts(&a);
	env_rts(&b);
	a.wq.pull_min = 1000;
	b.wq.has_srq = true;
	for (int i = 0; i < 3; i++) {
		env_post(&a, IBV_WR_SEND, 0, 1000);
		env_post_recv(&b, 1024 * i, 1000);
	}
	for (int i = 0; i < 3; i++) {
		assert_true(env_output(&a));
		assert_non_null(roce_output_pull(&a.qp));
		pkt[i] = a.out;
	}
	deliver_pulled(&a, &b, &pkt[1]);
	assert_true(env_output(&b));
	for (int i = 0; i < 3; i++)
		deliver_pulled(&a, &b, &pkt[i]);
	env_input(&a, &b.out);
	a.wq.pull_min = 0;	/* env_pump() carries packets only */
	env_pump(&a, &b);
	assert_int_equal(a.num_cqes, 3);
	assert_int_equal(b.num_cqes, 3);
	for (int i = 0; i < 3; i++) {
		env_expect_cqe(&a, i, i, IBV_WC_SUCCESS);
		env_expect_cqe(&b, i, 1000 + i, IBV_WC_SUCCESS);
		assert_int_equal(b.cqes[i].byte_len, 1000);
		assert_memory_equal(b.mem + 1024 * i, a.mem, 1000);
	}
}

/*
 * A receive that skips the start of a message, or has room for only a part of it: the bytes stored
 * for a message of three packets, and for one whose payload is read from the sender's memory.
 */
static void receive_stores_a_part(void **state)
{
	static const struct {
		uint32_t skip, clip, room;
		bool fits;
	} rows[] = {
		{ 0, 0, 600, true },	 { 0, 0, 599, false },	 { 16, 0, 584, true },
		{ 16, 0, 583, false },	 { 300, 0, 300, true },	 { 600, 0, 0, true },
		{ 700, 0, 0, true },	 { 0, 1, 0, true },	 { 0, 1, 1, true },
		{ 0, 1, 255, true },	 { 0, 1, 257, true },	 { 0, 1, 700, true },
		{ 16, 1, 100, true },	 { 256, 1, 256, true },	 { UINT32_MAX, 1, 8, true },
	};
	static uint8_t message[600];
	const struct wq_seg seg = { (uintptr_t)message, sizeof(message) };
	const struct wq_pull from = { .pid = 1, .num_seg = 1, .seg = &seg };

	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = i * 3 + 1;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		uint32_t skip = rows[i / 2].skip, room = rows[i / 2].room, placed = 0;
		bool pulled = i & 1;
		struct recv_wqe *w;

		env_start(&e, IBV_QPT_RC);
		env_post_recv(&e, 0, room);
		w = rq_wqe(&e.wq.rq, e.wq.rq.head - 1);
		w->skip = skip;
		w->clip = rows[i / 2].clip;
		memset(e.mem, 0xee, 1024);
		for (uint32_t at = 0, n = 0; at < sizeof(message) && e.num_cqes == 0;
		     at += 256, n++) {
			uint8_t op = pulled	? ROCE_RC_SEND_ONLY :
				     at == 0	? ROCE_RC_SEND_FIRST :
				     at + 256 < sizeof(message) ? ROCE_RC_SEND_MIDDLE :
								  ROCE_RC_SEND_LAST;
			uint32_t len = pulled ? sizeof(message)
					      : min(256u, (uint32_t)sizeof(message) - at);
			struct roce_pkt pkt = env_pkt(&e, op, ENV_PSN + n, pulled ? 0 : len);

			pkt.payload = message + at;
			pkt.payload_len = len;
			pkt.pull = pulled ? &from : NULL;
			env_input(&e, &pkt);
		}
		env_expect_cqe(&e, 0, 1000, rows[i / 2].fits ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR);
		if (!rows[i / 2].fits)
			continue;
		assert_int_equal(e.cqes[0].byte_len, sizeof(message));
		if (skip < sizeof(message))
			placed = min((uint32_t)sizeof(message) - skip, room);
		assert_memory_equal(e.mem, message + min(skip, (uint32_t)sizeof(message)), placed);
		assert_int_equal(e.mem[placed], 0xee);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(receive_completions),
		cmocka_unit_test(failed_invalidation),
		cmocka_unit_test(payload_is_pulled),
		cmocka_unit_test(copies_of_withdrawn_requests_are_not_executed),
		cmocka_unit_test(receive_stores_a_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
