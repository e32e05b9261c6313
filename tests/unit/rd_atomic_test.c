/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * READ and atomic resources of the responder: responses in order, duplicates, limits (IBTA vol 1,
 * 9.4.4, 9.7.5).
 */
#include "roce_env.h"

#include <stdlib.h>
#include <string.h>

#include "roce/rd_atomic.h"

static struct roce_env e;

static void read_request(uint32_t psn, uint64_t va, uint32_t len)
{
	struct roce_pkt pkt = env_pkt(&e, ROCE_RC_READ_REQUEST, psn, 0);

	pkt.reth.va = va;
	pkt.reth.len = len;
	pkt.bth.ack_req = true;
	env_input(&e, &pkt);
}

static void atomic_request(uint8_t op, uint32_t psn, uint64_t compare, uint64_t swap_add)
{
	struct roce_pkt pkt = env_pkt(&e, op, psn, 0);

	pkt.atomic.va = ENV_VA + 64;
	pkt.atomic.rkey = ENV_KEY;
	pkt.atomic.compare = compare;
	pkt.atomic.swap_add = swap_add;
	env_input(&e, &pkt);
}

static void expect_data(uint8_t op, uint32_t psn, uint32_t offset, uint32_t len)
{
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, op);
	assert_int_equal(e.out.bth.psn, psn);
	assert_int_equal(e.out.payload_len, len);
	assert_memory_equal(e.out.payload, e.mem + offset, len);
}

static void expect_ack(uint8_t op, uint32_t psn)
{
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, op);
	assert_int_equal(e.out.bth.psn, psn);
}

/* Length -> number of response packets and their opcodes. */
static void read_responses_by_length(void **state)
{
	static const struct {
		uint32_t len;
		uint32_t packets;
	} rows[] = {
		{ 0, 1 }, { 1, 1 }, { 256, 1 }, { 257, 2 }, { 512, 2 }, { 513, 3 }, { 2000, 8 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t n = rows[i].packets;

		env_start(&e, IBV_QPT_RC);
		read_request(ENV_PSN, ENV_VA + 5, rows[i].len);
		assert_int_equal(e.qp.resp.epsn, ENV_PSN + n);
		for (uint32_t k = 0; k < n; k++) {
			uint8_t op = roce_read_response(k == 0, k == n - 1);

			expect_data(op, ENV_PSN + k, 5 + k * 256,
				    k == n - 1 ? rows[i].len - k * 256 : 256);
			if (roce_has(roce_opcode_info(op), ROCE_HDR_AETH))
				assert_int_equal(e.out.aeth.msn, 1);
		}
		assert_false(env_output(&e));
	}
}

/* Requests of an XRC QP name SRQs of different PDs: each READ keeps to its own. */
static void each_read_in_its_protection_domain(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.max_dest_rd_atomic = 2;
	for (uint32_t pdn = 1; pdn <= 2; pdn++) {
		e.wq.pdn = pdn;
		read_request(ENV_PSN + 2 * (pdn - 1), ENV_VA, 512);
	}
	e.wq.pdn = 3;
	for (uint32_t k = 0; k < 4; k++) {
		expect_data(roce_read_response(k % 2 == 0, k % 2), ENV_PSN + k, k % 2 * 256, 256);
		assert_int_equal(e.read_pdn, 1 + k / 2);
	}
	/* A duplicate names its SRQ again. */
	e.wq.pdn = 2;
	read_request(ENV_PSN + 2, ENV_VA, 512);
	e.wq.pdn = 3;
	expect_data(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN + 2, 0, 256);
	assert_int_equal(e.read_pdn, 2);
}

/* Responses and ACKs are sent in PSN order; an ACK that a response includes is not sent. */
static void responses_and_acks_in_order(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	read_request(ENV_PSN + 1, ENV_VA, 300);
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN + 3, 0, 1);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 4, 8);
	expect_ack(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN + 1);
	expect_ack(ROCE_RC_READ_RESPONSE_LAST, ENV_PSN + 2);
	expect_ack(ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN + 3);
	expect_ack(ROCE_RC_ACKNOWLEDGE, ENV_PSN + 4);
	assert_int_equal(e.out.aeth.msn, 4);
	assert_false(env_output(&e));
}

static void duplicate_read_is_answered_again(void **state)
{
	env_start(&e, IBV_QPT_RC);
	read_request(ENV_PSN, ENV_VA, 700);
	assert_int_equal(env_drain(&e), 3);
	read_request(ENV_PSN, ENV_VA, 700);
	assert_int_equal(env_drain(&e), 3);
	assert_int_equal(e.qp.resp.epsn, ENV_PSN + 3);
	assert_int_equal(e.qp.resp.msn, 1);
}

/* A retry of a part of a READ is answered from there on, starting with FIRST. */
static void partial_retry_is_answered_from_there(void **state)
{
	env_start(&e, IBV_QPT_RC);
	read_request(ENV_PSN, ENV_VA, 1000);
	env_drain(&e);
	read_request(ENV_PSN + 1, ENV_VA + 256, 744);
	expect_data(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN + 1, 256, 256);
	expect_data(ROCE_RC_READ_RESPONSE_MIDDLE, ENV_PSN + 2, 512, 256);
	expect_data(ROCE_RC_READ_RESPONSE_LAST, ENV_PSN + 3, 768, 232);
	assert_false(env_output(&e));
	read_request(ENV_PSN + 1, ENV_VA + 256, 300);
	expect_data(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN + 1, 256, 256);
	expect_data(ROCE_RC_READ_RESPONSE_LAST, ENV_PSN + 2, 512, 44);
	assert_false(env_output(&e));
}

/* A false duplicate is dropped: other key, other bytes, more bytes. */
static void false_duplicates_are_dropped(void **state)
{
	static const struct {
		uint32_t psn;
		uint64_t va;
		uint32_t len;
		uint32_t rkey;
	} rows[] = {
		{ ENV_PSN, ENV_VA, 1001, ENV_KEY },
		{ ENV_PSN, ENV_VA + 1, 999, ENV_KEY },
		{ ENV_PSN, ENV_VA, 1000, ENV_READONLY },
		{ ENV_PSN + 1, ENV_VA, 1000, ENV_KEY },
		{ ENV_PSN + 1, ENV_VA + 256, 745, ENV_KEY },
		{ ENV_PSN + 1, ENV_VA + 256, 0, ENV_KEY },
		{ ENV_PSN - 1, ENV_VA, 1000, ENV_KEY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		read_request(ENV_PSN, ENV_VA, 1000);
		env_drain(&e);
		pkt = env_pkt(&e, ROCE_RC_READ_REQUEST, rows[i].psn, 0);
		pkt.reth.va = rows[i].va;
		pkt.reth.len = rows[i].len;
		pkt.reth.rkey = rows[i].rkey;
		env_input(&e, &pkt);
		assert_false(env_output(&e));
		assert_int_equal(e.wq.state, IBV_QPS_RTS);
	}
}

/* A duplicate during the first response restarts it, or is being answered already. */
static void duplicate_during_the_first_response(void **state)
{
	env_start(&e, IBV_QPT_RC);
	read_request(ENV_PSN, ENV_VA, 1024);
	expect_data(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN, 0, 256);
	read_request(ENV_PSN + 2, ENV_VA + 512, 512);
	expect_data(ROCE_RC_READ_RESPONSE_MIDDLE, ENV_PSN + 1, 256, 256);
	read_request(ENV_PSN, ENV_VA, 256);
	expect_data(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN, 0, 256);
	assert_int_equal(env_drain(&e), 3);
}

/* An atomic is executed once; a duplicate gets the original value again. */
static void atomic_replay(void **state)
{
	uint64_t value = 40;

	env_start(&e, IBV_QPT_RC);
	memcpy(e.mem + 64, &value, 8);
	for (int i = 0; i < 3; i++) {
		atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 2);
		expect_ack(ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN);
		assert_int_equal(e.out.atomic_ack, 40);
	}
	assert_int_equal(e.atomics, 1);
	memcpy(&value, e.mem + 64, 8);
	assert_int_equal(value, 42);
}

/*
 * After all PSNs have been used, a PSN means another request: one more than half of them earlier is
 * not answered from its old slot.
 */
static void old_slots_are_not_replayed_after_a_wrap(void **state)
{
	static const struct {
		uint64_t passed;
		bool answered;
	} rows[] = { { 0, true },
		     { PSN_HALF - 1, true },
		     { PSN_HALF, false },
		     { PSN_HALF * 2 - 1, false },
		     { PSN_HALF * 2, false },
		     { PSN_HALF * 4, false } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 2);
		env_drain(&e);
		/* as after that many WRITEs */
		e.qp.resp.psns += rows[i].passed;
		assert_int_equal(roce_rd_find(&e.qp, ENV_PSN) != NULL, rows[i].answered);
	}
}

/* psns counts like epsn. */
static void psns_follow_the_expected_psn(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	read_request(ENV_PSN + 1, ENV_VA, 300);
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN + 3, 0, 1);
	read_request(ENV_PSN + 1, ENV_VA, 300);
	assert_int_equal(e.qp.resp.psns, 4);
	assert_int_equal(e.qp.resp.epsn, ENV_PSN + 4);
}

static void compare_and_swap(void **state)
{
	uint64_t value = 7;

	env_start(&e, IBV_QPT_RC);
	memcpy(e.mem + 64, &value, 8);
	atomic_request(ROCE_RC_COMPARE_SWAP, ENV_PSN, 8, 100);
	atomic_request(ROCE_RC_COMPARE_SWAP, ENV_PSN + 1, 7, 100);
	atomic_request(ROCE_RC_COMPARE_SWAP, ENV_PSN + 2, 7, 200);
	expect_ack(ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN);
	assert_int_equal(e.out.atomic_ack, 7);
	expect_ack(ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN + 1);
	assert_int_equal(e.out.atomic_ack, 7);
	expect_ack(ROCE_RC_ATOMIC_ACKNOWLEDGE, ENV_PSN + 2);
	assert_int_equal(e.out.atomic_ack, 100);
}

/* A duplicate of another kind than the resource is not a duplicate. */
static void replay_needs_the_same_kind(void **state)
{
	env_start(&e, IBV_QPT_RC);
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 2);
	env_drain(&e);
	read_request(ENV_PSN, ENV_VA, 8);
	env_request(&e, ROCE_RC_ATOMIC_WRITE, ENV_PSN, 8);
	assert_false(env_output(&e));
}

/*
 * Annex A19: FLUSH and ATOMIC WRITE are answered by an empty READ response; executed once, answered
 * each time they are repeated.
 */
static void flush_and_atomic_write(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	pkt = env_pkt(&e, ROCE_RC_FLUSH, ENV_PSN, 0);
	pkt.reth.len = 100;
	pkt.feth.placement = ROCE_FLUSH_GLOBAL;
	for (int i = 0; i < 2; i++) {
		env_input(&e, &pkt);
		env_request(&e, ROCE_RC_ATOMIC_WRITE, ENV_PSN + 1, 8);
		expect_data(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN, 0, 0);
		expect_data(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN + 1, 0, 0);
	}
	assert_int_equal(e.flushes, 1);
	assert_int_equal(e.writes, 1);
	assert_int_equal(e.mem[1], (ENV_PSN + 1 + 1) & 0xff);
}

/*
 * A FLUSH is not answered until its data is persistent, nor are later requests; a duplicate is not
 * executed again.
 */
static void flush_that_takes_long(void **state)
{
	static const enum reason ends[] = { REASON_NONE, REASON_RKEY_UNMAPPED };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		e.flushes_take_long = true;
		pkt = env_pkt(&e, ROCE_RC_FLUSH, ENV_PSN, 0);
		pkt.reth.len = 100;
		pkt.feth.placement = ROCE_FLUSH_GLOBAL;
		env_input(&e, &pkt);
		read_request(ENV_PSN + 1, ENV_VA, 8);
		env_input(&e, &pkt);
		assert_false(env_output(&e));
		assert_int_equal(e.flushes, 1);
		roce_flushed(&e.qp, ENV_PSN + 1, REASON_NONE);	/* of another request */
		assert_false(env_output(&e));
		roce_flushed(&e.qp, ENV_PSN, ends[i]);
		if (ends[i]) {
			expect_ack(ROCE_RC_ACKNOWLEDGE, ENV_PSN);
			assert_int_equal(e.out.aeth.syndrome,
					 roce_syndrome(ROCE_AETH_NAK,
						       ROCE_NAK_REMOTE_ACCESS_ERROR));
		} else {
			expect_data(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN, 0, 0);
			expect_ack(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN + 1);
		}
	}
	e.flushes_take_long = false;
}

/* IBTA vol 1, 9.7.4: more open requests than max_dest_rd_atomic make an invalid request. */
static void too_many_open_requests(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (uint32_t i = 0; i < ENV_RD; i++)
		read_request(ENV_PSN + i, ENV_VA, 8);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	read_request(ENV_PSN + ENV_RD, ENV_VA, 8);
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	for (uint32_t i = 0; i < ENV_RD; i++)
		expect_ack(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN + i);
	expect_ack(ROCE_RC_ACKNOWLEDGE, ENV_PSN + ENV_RD);
	assert_int_equal(e.out.aeth.syndrome,
			 roce_syndrome(ROCE_AETH_NAK, ROCE_NAK_INVALID_REQUEST));
}

/* Requests were answered, and others wait: returns the PSN of the first of these. */
static uint32_t start_with(uint32_t answered, uint32_t waiting)
{
	uint32_t psn = ENV_PSN;

	env_start(&e, IBV_QPT_RC);
	for (uint32_t i = 0; i < answered; i++) {
		read_request(psn, ENV_VA + psn, 8);
		expect_ack(ROCE_RC_READ_RESPONSE_ONLY, psn++);
	}
	for (uint32_t i = 0; i < waiting; i++)
		read_request(psn + i, ENV_VA, 8);
	return psn;
}

/* max_dest_rd_atomic may grow in SQD, while requests wait for their answers. */
static void more_are_allowed(void **state)
{
	enum { MORE = 8 };
	static struct roce_rd_atomic more[MORE];

	for (uint32_t answered = 0; answered < ENV_RD; answered++) {
		uint32_t psn = start_with(answered, ENV_RD);

		memset(more, 0, sizeof(more));
		roce_rd_move(&e.qp, more, MORE);
		e.wq.max_dest_rd_atomic = MORE;
		for (uint32_t i = ENV_RD; i < MORE; i++)
			read_request(psn + i, ENV_VA, 8);
		assert_int_equal(e.wq.state, IBV_QPS_RTS);
		for (uint32_t i = 0; i < MORE; i++)
			expect_ack(ROCE_RC_READ_RESPONSE_ONLY, psn + i);
		assert_false(env_output(&e));
		read_request(psn + 1, ENV_VA, 8); /* a duplicate */
		expect_ack(ROCE_RC_READ_RESPONSE_ONLY, psn + 1);
		for (uint32_t i = MORE; i <= 2 * MORE; i++)
			read_request(psn + i, ENV_VA, 8);
		assert_int_equal(e.wq.state, IBV_QPS_ERR);
	}
}

/* It may also shrink then: the requests that may still wait are the newest. */
static void fewer_are_allowed(void **state)
{
	enum { FEWER = 3 };
	static struct roce_rd_atomic fewer[FEWER];

	for (uint32_t answered = 0; answered < ENV_RD; answered++) {
		uint32_t psn = start_with(answered, FEWER);

		memset(fewer, 0, sizeof(fewer));
		roce_rd_move(&e.qp, fewer, FEWER);
		e.wq.max_dest_rd_atomic = FEWER;
		for (uint32_t i = 0; i < FEWER; i++)
			expect_ack(ROCE_RC_READ_RESPONSE_ONLY, psn + i);
		assert_false(env_output(&e));
		read_request(psn, ENV_VA, 8); /* a duplicate */
		expect_ack(ROCE_RC_READ_RESPONSE_ONLY, psn);
		assert_int_equal(e.wq.state, IBV_QPS_RTS);
	}
}

static void none_allowed(void **state)
{
	env_init(&e, IBV_QPT_RC);
	e.wq.max_dest_rd_atomic = 0;
	env_rts(&e);
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 1);
	expect_ack(ROCE_RC_ACKNOWLEDGE, ENV_PSN);
	assert_int_equal(e.out.aeth.syndrome,
			 roce_syndrome(ROCE_AETH_NAK, ROCE_NAK_INVALID_REQUEST));
	assert_int_equal(e.atomics, 0);
}

/* The oldest slot is reused first; its request can then not be replayed. */
static void slots_are_reused_in_order(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (uint32_t i = 0; i <= ENV_RD; i++) {
		atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN + i, 0, 1);
		env_drain(&e);
	}
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 1);
	assert_false(env_output(&e));
	atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN + 1, 0, 1);
	assert_true(env_output(&e));
	assert_int_equal(e.atomics, ENV_RD + 1);
}

/*
 * The region is deregistered between request and response: a NAK replaces the packet that cannot be
 * built.
 */
static void memory_deregistered_during_the_response(void **state)
{
	env_start(&e, IBV_QPT_RC);
	read_request(ENV_PSN, ENV_VA, 1024);
	expect_ack(ROCE_RC_READ_RESPONSE_FIRST, ENV_PSN);
	e.fail_at = 0;
	e.fail_why = REASON_RKEY_UNMAPPED;
	expect_ack(ROCE_RC_ACKNOWLEDGE, ENV_PSN + 1);
	assert_int_equal(e.out.aeth.syndrome,
			 roce_syndrome(ROCE_AETH_NAK, ROCE_NAK_REMOTE_ACCESS_ERROR));
	assert_false(env_output(&e));
	assert_int_equal(e.wq.state, IBV_QPS_ERR);
	assert_int_equal(e.events[0], IBV_EVENT_QP_ACCESS_ERR);
}

/* Finds the oldest pending request by checking all of them. */
static struct roce_rd_atomic *oldest_due(struct roce_qp *qp)
{
	uint32_t slots = roce_rd_slots(qp);

	for (uint32_t age = 0; age < slots; age++) {
		struct roce_rd_atomic *rd = &qp->rd_atomic[(qp->resp.rd_next + age) % slots];

		if (rd->pending)
			return rd;
	}
	return NULL;
}

/* For any order of requests, duplicates and responses. */
static void the_oldest_is_always_answered_first(void **state)
{
	unsigned int seed = 1;
	uint32_t psn = ENV_PSN;

	env_start(&e, IBV_QPT_RC);
	assert_true(roce_rd_slots(&e.qp) > 2);
	for (int i = 0; i < 20000; i++) {
		struct roce_rd_atomic *due = roce_rd_due(&e.qp);
		struct roce_rd_atomic *any = &e.qp.rd_atomic[rand_r(&seed) % roce_rd_slots(&e.qp)];

		assert_ptr_equal(due, oldest_due(&e.qp));
		switch (rand_r(&seed) % 4) {
		case 0:
			if (!roce_rd_available(&e.qp))
				break;
			roce_rd_take(&e.qp, psn, 1 + rand_r(&seed) % 3)->kind = ROCE_RD_READ;
			psn = psn_add(psn, 3);
			break;
		case 1:
			if (any->kind != ROCE_RD_FREE)
				roce_rd_replay(&e.qp, any, any->last_psn, 1, 0);
			break;
		default:
			if (due)
				roce_rd_advance(&e.qp, due);
		}
	}
	roce_rd_reset(&e.qp);
	assert_null(roce_rd_due(&e.qp));
}

/* The slots get memory with the first request; without any, that request is as good as lost. */
static void slots_are_made_by_the_first_request(void **state)
{
	env_init(&e, IBV_QPT_RC);
	roce_qp_init(&e.qp, &e.wq, NULL, ENV_RD);
	env_rts(&e);
	env_request(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	assert_int_equal(env_drain(&e), 1);
	assert_null(e.qp.rd_atomic);
	e.no_rd = true;
	read_request(ENV_PSN + 1, ENV_VA, 8);
	assert_int_equal(e.qp.resp.epsn, ENV_PSN + 1);
	assert_false(env_output(&e));
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	e.no_rd = false;
	read_request(ENV_PSN + 1, ENV_VA, 8);
	expect_data(ROCE_RC_READ_RESPONSE_ONLY, ENV_PSN + 1, 0, 8);
	assert_ptr_equal(e.qp.rd_atomic, e.rd);
}

/* Answers that were not sent end with their connection, and take no place from the next one's. */
static void a_reset_forgets_answers(void **state)
{
	env_start(&e, IBV_QPT_RC);
	for (uint32_t i = 0; i < ENV_RD; i++)
		env_request(&e, ROCE_RC_READ_REQUEST, ENV_PSN + i, 0);
	assert_true(roce_responses_pending(&e.qp));
	env_move(&e, IBV_QPS_RESET);
	assert_false(roce_responses_pending(&e.qp));
	env_rtr(&e);
	for (uint32_t i = 0; i < ENV_RD; i++)
		assert_int_equal(e.rd[i].kind, ROCE_RD_FREE);
	for (uint32_t i = 0; i < ENV_RD; i++)
		env_request(&e, ROCE_RC_READ_REQUEST, ENV_PSN + i, 0);
	assert_int_equal(env_drain(&e), ENV_RD);
	assert_int_equal(e.out.bth.psn, ENV_PSN + ENV_RD - 1);
	assert_false(roce_responses_pending(&e.qp));
}

/*
 * A request waits for the response to an earlier READ, which is not paced meanwhile. READs run
 * when they are answered, and a repeated answer has been late once already.
 */
static void a_request_waits_for_a_read(void **state)
{
	enum { NOTHING, ATOMIC, READ, ANSWERED, REPEATED };
	static const struct {
		int before;
		uint8_t op;
		bool waits;
	} rows[] = {
		{ READ, ROCE_RC_WRITE_ONLY, true },	 { READ, ROCE_RC_SEND_FIRST, true },
		{ READ, ROCE_RC_FETCH_ADD, true },	 { READ, ROCE_RC_READ_REQUEST, false },
		{ READ, ROCE_RC_ACKNOWLEDGE, false },	 { NOTHING, ROCE_RC_WRITE_ONLY, false },
		{ ATOMIC, ROCE_RC_WRITE_ONLY, false },	 { ANSWERED, ROCE_RC_WRITE_ONLY, false },
		{ REPEATED, ROCE_RC_WRITE_ONLY, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt pkt;

		env_start(&e, IBV_QPT_RC);
		if (rows[i].before == ATOMIC)
			atomic_request(ROCE_RC_FETCH_ADD, ENV_PSN, 0, 1);
		if (rows[i].before >= READ)
			read_request(ENV_PSN, ENV_VA, 512);
		if (rows[i].before >= ANSWERED)
			assert_int_equal(env_drain(&e), 2);
		if (rows[i].before == REPEATED)
			read_request(ENV_PSN, ENV_VA, 512);
		pkt = env_pkt(&e, rows[i].op, ENV_PSN + 2, 8);
		assert_int_equal(roce_must_respond_first(&e.qp, &pkt), rows[i].waits);
		assert_int_equal(e.qp.resp.rd_first, rows[i].waits);
		env_drain(&e);
		assert_false(roce_must_respond_first(&e.qp, &pkt));
		assert_false(e.qp.resp.rd_first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_responses_by_length),
		cmocka_unit_test(each_read_in_its_protection_domain),
		cmocka_unit_test(the_oldest_is_always_answered_first),
		cmocka_unit_test(responses_and_acks_in_order),
		cmocka_unit_test(duplicate_read_is_answered_again),
		cmocka_unit_test(partial_retry_is_answered_from_there),
		cmocka_unit_test(false_duplicates_are_dropped),
		cmocka_unit_test(duplicate_during_the_first_response),
		cmocka_unit_test(atomic_replay),
		cmocka_unit_test(old_slots_are_not_replayed_after_a_wrap),
		cmocka_unit_test(psns_follow_the_expected_psn),
		cmocka_unit_test(compare_and_swap),
		cmocka_unit_test(replay_needs_the_same_kind),
		cmocka_unit_test(flush_and_atomic_write),
		cmocka_unit_test(flush_that_takes_long),
		cmocka_unit_test(too_many_open_requests),
		cmocka_unit_test(more_are_allowed),
		cmocka_unit_test(fewer_are_allowed),
		cmocka_unit_test(none_allowed),
		cmocka_unit_test(slots_are_reused_in_order),
		cmocka_unit_test(memory_deregistered_during_the_response),
		cmocka_unit_test(slots_are_made_by_the_first_request),
		cmocka_unit_test(a_reset_forgets_answers),
		cmocka_unit_test(a_request_waits_for_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
