/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request packets: their contents, when they may be sent, and how requests fail (IBTA vol 1,
 * 9.7.7).
 */
#include "roce_env.h"

#include <stdlib.h>
#include <string.h>

#include "roce/retry.h"

static struct roce_env e;

static void expect_packet(uint8_t opcode, uint32_t psn, uint32_t payload)
{
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, opcode);
	assert_int_equal(e.out.bth.psn, psn & 0xffffff);
	assert_int_equal(e.out.payload_len, payload);
}

static void expect_silence(void)
{
	assert_false(env_output(&e));
}

static struct roce_env *pair(enum ibv_qp_type type, enum ibv_qp_type peer)
{
	struct roce_env *p = calloc(2, sizeof(*p));

	env_init(&p[0], type);
	env_init(&p[1], peer);
	env_connect(&p[0], &p[1]);
	memset(p[1].mem, 0, ENV_MEM);
	env_rts(&p[0]);
	env_rts(&p[1]);
	return p;
}

/* All operations end to end between two engines without loss. */
static void messages_reach_the_other_end(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 5000, 100000 };
	static const enum ibv_qp_type types[][2] = { { IBV_QPT_RC, IBV_QPT_RC },
						     { IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV } };

	for (size_t i = 0; i < ARRAY_SIZE(lengths) * 2; i++) {
		struct roce_env *p = pair(types[i % 2][0], types[i % 2][1]);
		uint32_t len = lengths[i / 2];

		env_post_recv(&p[1], 0, len);
		env_post(&p[0], IBV_WR_SEND, 100, len);
		env_pump(&p[0], &p[1]);
		env_expect_cqe(&p[0], 0, 0, IBV_WC_SUCCESS);
		env_expect_cqe(&p[1], 0, 1000, IBV_WC_SUCCESS);
		assert_int_equal(p[1].cqes[0].byte_len, len);
		assert_memory_equal(p[1].mem, p[0].mem + 100, len);

		env_post(&p[0], IBV_WR_RDMA_WRITE, 200, len);
		env_pump(&p[0], &p[1]);
		env_expect_cqe(&p[0], 1, 1, IBV_WC_SUCCESS);
		assert_memory_equal(p[1].mem, p[0].mem + 200, len);

		env_post(&p[0], IBV_WR_RDMA_READ, 3, len);
		env_pump(&p[0], &p[1]);
		env_expect_cqe(&p[0], 2, 2, IBV_WC_SUCCESS);
		assert_memory_equal(p[1].mem, p[0].mem + 3, len);

		env_post(&p[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8)->atomic.compare_add = 5;
		env_pump(&p[0], &p[1]);
		env_expect_cqe(&p[0], 3, 3, IBV_WC_SUCCESS);
		assert_int_equal(p[1].atomics, 1);
		assert_true(roce_next_timeout(&p[0].qp) == VRB_NEVER);
		free(p);
	}
}

/* Request -> opcodes of a message of one, two and three packets. */
static void packets_of_a_message(void **state)
{
	static const struct {
		uint32_t wr;
		uint8_t only, first, middle, last;
	} rows[] = {
		{ IBV_WR_SEND, ROCE_RC_SEND_ONLY, ROCE_RC_SEND_FIRST, ROCE_RC_SEND_MIDDLE,
		  ROCE_RC_SEND_LAST },
		{ IBV_WR_SEND_WITH_IMM, ROCE_RC_SEND_ONLY_WITH_IMMEDIATE, ROCE_RC_SEND_FIRST,
		  ROCE_RC_SEND_MIDDLE, ROCE_RC_SEND_LAST_WITH_IMMEDIATE },
		{ IBV_WR_SEND_WITH_INV, ROCE_RC_SEND_ONLY_WITH_INVALIDATE, ROCE_RC_SEND_FIRST,
		  ROCE_RC_SEND_MIDDLE, ROCE_RC_SEND_LAST_WITH_INVALIDATE },
		{ IBV_WR_RDMA_WRITE, ROCE_RC_WRITE_ONLY, ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE,
		  ROCE_RC_WRITE_LAST },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE,
		  ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE, ROCE_RC_WRITE_LAST_WITH_IMMEDIATE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, rows[i].wr, 0, 0)->imm = 0xa1b2c3d4;
		env_post(&e, rows[i].wr, 0, 256);
		env_post(&e, rows[i].wr, 16, 257)->flags |= IBV_SEND_SOLICITED;
		env_post(&e, rows[i].wr, 0, 768);
		expect_packet(rows[i].only, ENV_PSN, 0);
		if (rows[i].wr == IBV_WR_SEND_WITH_IMM || rows[i].wr == IBV_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(e.out.imm, 0xa1b2c3d4);
		if (rows[i].wr == IBV_WR_SEND_WITH_INV)
			assert_int_equal(e.out.ieth_rkey, 0xa1b2c3d4);
		expect_packet(rows[i].only, ENV_PSN + 1, 256);
		assert_true(e.out.bth.ack_req);
		expect_packet(rows[i].first, ENV_PSN + 2, 256);
		assert_false(e.out.bth.ack_req);
		assert_false(e.out.bth.solicited);
		assert_memory_equal(e.out.payload, e.mem + 16, 256);
		if (rows[i].first == ROCE_RC_WRITE_FIRST) {
			assert_int_equal(e.out.reth.va, ENV_VA);
			assert_int_equal(e.out.reth.len, 257);
			assert_int_equal(e.out.reth.rkey, ENV_KEY);
		}
		expect_packet(rows[i].last, ENV_PSN + 3, 1);
		assert_int_equal(e.out.bth.pad, 3);
		assert_int_equal(e.out.bth.solicited, rows[i].wr != IBV_WR_RDMA_WRITE);
		assert_true(e.out.bth.ack_req);
		expect_packet(rows[i].first, ENV_PSN + 4, 256);
		expect_packet(rows[i].middle, ENV_PSN + 5, 256);
		expect_packet(rows[i].last, ENV_PSN + 6, 256);
		expect_silence();
		assert_int_equal(e.out.bth.dest_qpn, 0x22);
		assert_int_equal(e.out.bth.pkey, 0xffff);
		assert_true(e.out.bth.mig_req);
		assert_ptr_equal(e.out_path, &e.wq.path);
	}
}

static void requests_without_payload(void **state)
{
	struct send_wqe *w;

	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_RDMA_READ, 0, 600)->remote_addr = ENV_VA + 50;
	w = env_post(&e, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8);
	w->atomic.compare_add = 11;
	w->atomic.swap = 22;
	w = env_post(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	w->atomic.compare_add = 33;
	w = env_post(&e, IBV_WR_FLUSH, 0, 0);
	w->length = 4000;
	w->flush.placement = ROCE_FLUSH_GLOBAL;
	expect_packet(ROCE_RC_READ_REQUEST, ENV_PSN, 0);
	assert_int_equal(e.out.reth.va, ENV_VA + 50);
	assert_int_equal(e.out.reth.len, 600);
	expect_packet(ROCE_RC_COMPARE_SWAP, ENV_PSN + 3, 0);
	assert_int_equal(e.out.atomic.compare, 11);
	assert_int_equal(e.out.atomic.swap_add, 22);
	expect_packet(ROCE_RC_FETCH_ADD, ENV_PSN + 4, 0);
	assert_int_equal(e.out.atomic.swap_add, 33);
	expect_packet(ROCE_RC_FLUSH, ENV_PSN + 5, 0);
	assert_int_equal(e.out.reth.len, 4000);
	assert_int_equal(e.out.feth.placement, ROCE_FLUSH_GLOBAL);
}

static void atomic_write_carries_its_word(void **state)
{
	static const uint8_t word[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct send_wqe *w;

	env_start(&e, IBV_QPT_RC);
	w = env_post(&e, IBV_WR_ATOMIC_WRITE, 0, 8);
	memcpy(&w->atomic_write, word, 8);
	expect_packet(ROCE_RC_ATOMIC_WRITE, ENV_PSN, 8);
	assert_memory_equal(e.out.payload, word, 8);
	assert_int_equal(e.out.reth.len, 8);
}

static void gathers_sges_and_inline_data(void **state)
{
	struct send_wqe *w;
	uint8_t expected[300];

	env_start(&e, IBV_QPT_RC);
	w = env_post(&e, IBV_WR_SEND, 0, 300);
	w->num_sge = 4;
	w->sge[0] = (struct ibv_sge){ ENV_VA + 1000, 100, ENV_KEY };
	w->sge[1] = (struct ibv_sge){ 0, 0, 0 };
	w->sge[2] = (struct ibv_sge){ ENV_VA + 50, 199, ENV_READONLY };
	w->sge[3] = (struct ibv_sge){ ENV_VA + 5000, 1, ENV_KEY };
	memcpy(expected, e.mem + 1000, 100);
	memcpy(expected + 100, e.mem + 50, 199);
	expected[299] = e.mem[5000];
	expect_packet(ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	assert_memory_equal(e.out.payload, expected, 256);
	expect_packet(ROCE_RC_SEND_LAST, ENV_PSN + 1, 44);
	assert_memory_equal(e.out.payload, expected + 256, 44);

	w = env_post(&e, IBV_WR_SEND, 0, 300);
	w->flags |= WQE_DATA_INLINE;
	w->num_sge = 0;
	memcpy(wqe_inline_data(w), expected, 300);
	expect_packet(ROCE_RC_SEND_FIRST, ENV_PSN + 2, 256);
	expect_packet(ROCE_RC_SEND_LAST, ENV_PSN + 3, 44);
	assert_memory_equal(e.out.payload, expected + 256, 44);
}

/*
 * At most a window of unacknowledged PSNs is in flight; the packet that fills the window requests
 * an ACK, and an ACK opens it.
 */
static void window_bounds_what_is_in_flight(void **state)
{
	uint32_t window, asked = 0;

	env_start(&e, IBV_QPT_RC);
	window = e.qp.cc.window;
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 256 * 1000);
	for (uint32_t i = 0; i < window; i++) {
		expect_packet(i ? ROCE_RC_WRITE_MIDDLE : ROCE_RC_WRITE_FIRST, ENV_PSN + i, 256);
		asked += e.out.bth.ack_req;
	}
	assert_true(e.out.bth.ack_req);
	assert_int_equal(asked, 16);
	expect_silence();
	env_ack(&e, ENV_PSN + 9);
	assert_int_equal(env_drain(&e), 2 * 10);	/* the first windows double */
}

/*
 * One of four active QPs uses a quarter of its window, and each response counts for all four. If
 * the number of QPs grows while a part of the window is in flight without a requested ACK, one more
 * packet that requests one is sent.
 */
static void active_qps_share_the_window(void **state)
{
	uint32_t window;

	env_start(&e, IBV_QPT_RC);
	e.qp.cc.window = window = roce_window_limit(&e.qp);
	e.wq.mtu = 1024;
	e.wq.active_qps = 4;
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 1024 * 1000);
	assert_int_equal(env_drain(&e), window / 4);
	assert_true(e.out.bth.ack_req);
	env_ack(&e, ENV_PSN + window / 4 - 1);
	assert_int_equal(env_drain(&e), window / 4);

	env_start(&e, IBV_QPT_RC);
	e.qp.cc.window = window;
	e.wq.mtu = 1024;
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 1024 * 1000);
	for (uint32_t i = 0; i < 3; i++)
		expect_packet(i ? ROCE_RC_WRITE_MIDDLE : ROCE_RC_WRITE_FIRST, ENV_PSN + i, 1024);
	assert_false(e.out.bth.ack_req);
	e.wq.active_qps = window;
	expect_packet(ROCE_RC_WRITE_MIDDLE, ENV_PSN + 3, 1024);
	assert_true(e.out.bth.ack_req);
	expect_silence();
}

/* max_rd_atomic READs and atomics at a time, whatever else is sent. */
static void max_rd_atomic_is_kept(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.max_rd_atomic = 2;
	env_post(&e, IBV_WR_RDMA_READ, 0, 300);
	env_post(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	env_post(&e, IBV_WR_RDMA_READ, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	env_aeth(&e, ROCE_RC_READ_RESPONSE_FIRST, 31, ENV_PSN, 256);
	expect_silence();
	env_aeth(&e, ROCE_RC_READ_RESPONSE_LAST, 31, ENV_PSN + 1, 44);
	expect_packet(ROCE_RC_READ_REQUEST, ENV_PSN + 3, 0);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 4, 8);
}

/* A READ longer than half a window is sent as requests of that size. */
static void long_read_is_split_into_requests(void **state)
{
	uint32_t piece;

	env_start(&e, IBV_QPT_RC);
	e.qp.cc.window = roce_window_limit(&e.qp);
	piece = e.qp.cc.window / 2;
	env_post(&e, IBV_WR_RDMA_READ, 0, piece * 256 * 2 + 100);
	expect_packet(ROCE_RC_READ_REQUEST, ENV_PSN, 0);
	assert_int_equal(e.out.reth.len, piece * 256);
	expect_packet(ROCE_RC_READ_REQUEST, ENV_PSN + piece, 0);
	assert_int_equal(e.out.reth.va, ENV_VA + piece * 256);
	assert_int_equal(e.out.reth.len, piece * 256);
	expect_silence();
	assert_int_equal(e.qp.req.rd_open, 2);
	for (uint32_t i = 0; i < piece; i++)
		env_aeth(&e, roce_read_response(i == 0, i == piece - 1), 31, ENV_PSN + i, 256);
	expect_packet(ROCE_RC_READ_REQUEST, ENV_PSN + 2 * piece, 0);
	assert_int_equal(e.out.reth.len, 100);
	assert_int_equal(e.qp.req.ssn, 3);
}

/* IBTA vol 1, 10.8: a fence waits for READs and atomics, not for SENDs and WRITEs. */
static void fence_waits_for_reads_and_atomics(void **state)
{
	static const struct {
		uint32_t wr;
		bool waits;
	} rows[] = {
		{ IBV_WR_SEND, false },
		{ IBV_WR_RDMA_WRITE, false },
		{ IBV_WR_RDMA_READ, true },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_start(&e, IBV_QPT_RC);
		env_post(&e, rows[i].wr, 0, 8);
		env_post(&e, IBV_WR_SEND, 0, 8)->flags |= IBV_SEND_FENCE;
		assert_int_equal(env_drain(&e), rows[i].waits ? 1 : 2);
		if (!rows[i].waits)
			continue;
		env_aeth(&e,
			 rows[i].wr == IBV_WR_RDMA_READ ? ROCE_RC_READ_RESPONSE_ONLY
							: ROCE_RC_ATOMIC_ACKNOWLEDGE,
			 31, ENV_PSN, rows[i].wr == IBV_WR_RDMA_READ ? 8 : 0);
		expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 1, 8);
	}
}

/* Each local failure has its status, and the QP fails only after earlier requests are complete. */
static void local_failures_wait_their_turn(void **state)
{
	static const struct {
		uint32_t wr;
		uint32_t key;
		uint32_t len;
		uint64_t remote;
		enum ibv_wc_status status;
		enum reason why;
	} rows[] = {
		{ IBV_WR_SEND, 99, 8, ENV_VA, IBV_WC_LOC_PROT_ERR, REASON_LKEY_UNKNOWN },
		{ IBV_WR_RDMA_WRITE, ENV_KEY, 8, ENV_VA, IBV_WC_LOC_PROT_ERR, REASON_LKEY_RANGE },
		{ IBV_WR_RDMA_READ, ENV_READONLY, 8, ENV_VA, IBV_WC_LOC_PROT_ERR,
		  REASON_LKEY_ACCESS },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, ENV_KEY, 4, ENV_VA, IBV_WC_LOC_QP_OP_ERR,
		  REASON_WR_ATOMIC_SIZE },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, ENV_READONLY, 8, ENV_VA, IBV_WC_LOC_PROT_ERR,
		  REASON_LKEY_ACCESS },
		{ IBV_WR_SEND, ENV_KEY, (1u << 31) + 1, ENV_VA, IBV_WC_LOC_LEN_ERR,
		  REASON_WR_TOO_LONG },
		{ IBV_WR_TSO, ENV_KEY, 8, ENV_VA, IBV_WC_LOC_QP_OP_ERR, REASON_WR_OPCODE },
		{ 200, ENV_KEY, 8, ENV_VA, IBV_WC_LOC_QP_OP_ERR, REASON_WR_OPCODE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct send_wqe *w;
		unsigned int sent;

		env_start(&e, IBV_QPT_RC);
		env_post_recv(&e, 0, 8);
		env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
		w = env_post(&e, rows[i].wr, 0, rows[i].len);
		w->sge[0].lkey = rows[i].key;
		if (rows[i].why == REASON_LKEY_RANGE)
			w->sge[0].addr = ENV_VA + ENV_MEM - 7;
		w->remote_addr = rows[i].remote;
		env_post(&e, IBV_WR_SEND, 0, 8);
		sent = env_drain(&e);
		assert_int_equal(e.num_cqes, 0);
		assert_int_equal(e.wq.state, IBV_QPS_RTS);
		env_ack(&e, ENV_PSN + sent - 1);
		assert_int_equal(e.wq.state, IBV_QPS_ERR);
		env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
		env_expect_cqe(&e, 1, 1, rows[i].status);
		assert_int_equal(e.cqes[1].reason, rows[i].why);
		env_expect_cqe(&e, 2, 2, IBV_WC_WR_FLUSH_ERR);
		env_expect_cqe(&e, 3, 1000, IBV_WC_WR_FLUSH_ERR);
		assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
	}
}

static void no_reads_without_resources(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.max_rd_atomic = 0;
	env_post(&e, IBV_WR_RDMA_READ, 0, 8);
	expect_silence();
	env_expect_cqe(&e, 0, 0, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(e.cqes[0].reason, REASON_WR_RD_ATOMIC_ZERO);
}

/*
 * BIND_MW executes in order; LOCAL_INV after everything earlier is complete; both complete in
 * order.
 */
static void local_operations_in_order(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_BIND_MW, 0, 0);
	env_post(&e, IBV_WR_LOCAL_INV, 0, 0)->imm = 0x4711;
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 1);
	assert_int_equal(e.binds, 1);
	assert_int_equal(e.invalidated, 0);
	assert_int_equal(e.num_cqes, 0);
	env_ack(&e, ENV_PSN);
	env_expect_cqe(&e, 1, 1, IBV_WC_SUCCESS);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 1, 8);
	assert_int_equal(e.invalidated, 0x4711);
	env_expect_cqe(&e, 2, 2, IBV_WC_SUCCESS);
	env_ack(&e, ENV_PSN + 1);
	env_expect_cqe(&e, 3, 3, IBV_WC_SUCCESS);
}

static void failed_bind(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_BIND_MW, 0, 0);
	e.fail_at = 0;
	e.fail_why = REASON_WR_MW_BIND;
	expect_silence();
	env_expect_cqe(&e, 0, 0, IBV_WC_MW_BIND_ERR);
}

/* A bind is not repeated when packets around it are retransmitted. */
static void local_operations_are_not_repeated(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_BIND_MW, 0, 0);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	env_expire(&e);
	assert_int_equal(env_drain(&e), 1);
	env_ack(&e, ENV_PSN);
	assert_int_equal(env_drain(&e), 1);
	assert_int_equal(e.binds, 1);
	env_ack(&e, ENV_PSN + 1);
	assert_int_equal(e.num_cqes, 3);
}

/* Soft RoCE drops a FLUSH with the ICRC of the standard; the oldest request alone shows that. */
static void a_repeated_flush_has_the_other_icrc(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_FLUSH, 0, 0);
	env_post(&e, IBV_WR_FLUSH, 0, 0);
	assert_int_equal(env_drain(&e), 3);
	env_expire(&e);
	env_drain(&e);
	assert_false(roce_flushes_softly(&e.qp));	/* the SEND is the oldest */
	env_ack(&e, ENV_PSN);
	env_drain(&e);			/* now the first FLUSH is */
	assert_true(roce_flushes_softly(&e.qp));
	env_expire(&e);
	env_drain(&e);
	assert_false(roce_flushes_softly(&e.qp));
}

/* Only requests that ask for a completion, and errors, raise one. */
static void unsignaled_requests_complete_silently(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8)->flags = 0;
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	env_ack(&e, ENV_PSN + 1);
	assert_int_equal(e.num_cqes, 1);
	env_expect_cqe(&e, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].release, 2);
}

/* IBTA vol 1, 10.3: SQD finishes requests that have begun and begins no other. */
static void drain_and_resume(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 512);
	expect_packet(ROCE_RC_SEND_FIRST, ENV_PSN, 256);
	env_post(&e, IBV_WR_SEND, 0, 8);
	e.wq.sqd_notify = 1;
	env_move(&e, IBV_QPS_SQD);
	assert_true(e.wq.sq_draining);
	expect_packet(ROCE_RC_SEND_LAST, ENV_PSN + 1, 256);
	expect_silence();
	assert_int_equal(e.num_events, 0);
	env_ack(&e, ENV_PSN + 1);
	assert_false(e.wq.sq_draining);
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_SQ_DRAINED);
	expect_silence();
	env_move(&e, IBV_QPS_RTS);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 2, 8);
}

static void posted_to_a_dead_qp(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_move(&e, IBV_QPS_ERR);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post_recv(&e, 0, 8);
	expect_silence();
	assert_int_equal(e.num_cqes, 2);
	env_expect_cqe(&e, 0, 1000, IBV_WC_WR_FLUSH_ERR);
	env_expect_cqe(&e, 1, 0, IBV_WC_WR_FLUSH_ERR);
}

/* A failure outside the engine fails the oldest request. */
static void failed_from_outside(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	roce_qp_fail(&e.qp, IBV_WC_RETRY_EXC_ERR, REASON_PEER_DIED);
	env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(e.cqes[0].reason, REASON_PEER_DIED);
	env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
	roce_qp_fail(&e.qp, IBV_WC_RETRY_EXC_ERR, REASON_PEER_DIED);
	assert_int_equal(e.num_cqes, 2);
}

static void psn_wraps_inside_a_message(void **state)
{
	env_init(&e, IBV_QPT_RC);
	e.wq.sq_psn = 0xffffff;
	env_rts(&e);
	env_post(&e, IBV_WR_SEND, 0, 700);
	expect_packet(ROCE_RC_SEND_FIRST, 0xffffff, 256);
	expect_packet(ROCE_RC_SEND_MIDDLE, 0, 256);
	expect_packet(ROCE_RC_SEND_LAST, 1, 188);
	env_ack(&e, 0);
	assert_int_equal(e.num_cqes, 0);
	env_ack(&e, 1);
	assert_int_equal(e.num_cqes, 1);
}

/*
 * One-sided requests to a local peer are executed when all earlier requests are complete; they take
 * no PSN and complete in order; those that cannot be executed are sent as packets.
 */
static void one_sided_requests_to_a_local_peer(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.direct = true;
	e.direct_max = 2;
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	env_post(&e, IBV_WR_RDMA_READ, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 1);
	env_ack(&e, ENV_PSN);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 1, 8);
	for (uint32_t i = 0; i < 3; i++)
		env_expect_cqe(&e, i, i, IBV_WC_SUCCESS);
	env_expire(&e);
	assert_int_equal(env_drain(&e), 1);
	env_ack(&e, ENV_PSN + 1);
	e.direct_max = 0;
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	expect_packet(ROCE_RC_WRITE_ONLY, ENV_PSN + 2, 8);
}

/*
 * The request was executed but its result cannot be stored: it fails, and nothing is executed
 * twice.
 */
static void one_sided_result_cannot_be_stored(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.direct = true;
	e.direct_max = 1;
	e.fail_at = 0;
	e.fail_why = REASON_LKEY_UNMAPPED;
	env_post(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 8);
	assert_int_equal(env_drain(&e), 0);
	env_expect_cqe(&e, 0, 0, IBV_WC_LOC_PROT_ERR);
	env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
}

/* A long SEND to a local peer is one packet that names the request, whose memory is checked. */
static void long_send_carries_no_payload(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.pull_min = 1000;
	env_post(&e, IBV_WR_SEND, 0, 999);
	assert_int_equal(env_drain(&e), 4);
	assert_null(roce_output_pull(&e.qp));
	env_post(&e, IBV_WR_SEND, 0, 1000);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN + 4, 0);
	assert_ptr_equal(roce_output_pull(&e.qp), sq_wqe(&e.wq.sq, 1));
	env_ack(&e, ENV_PSN + 4);
	assert_int_equal(e.num_cqes, 2);
	env_post(&e, IBV_WR_SEND, 0, 1000)->sge[0].lkey = 99;
	expect_silence();
	env_expect_cqe(&e, 2, 2, IBV_WC_LOC_PROT_ERR);
}

/* One that could not begin is sent as the peer takes it when it can. */
static void waiting_send_follows_the_peers_abilities(void **state)
{
	env_start(&e, IBV_QPT_RC);
	e.wq.pull_min = 1000;
	env_post(&e, IBV_WR_RDMA_READ, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 1000)->flags |= IBV_SEND_FENCE;
	assert_int_equal(env_drain(&e), 1);
	e.wq.pull_min = 0;
	env_aeth(&e, ROCE_RC_READ_RESPONSE_ONLY, 31, ENV_PSN, 8);
	expect_packet(ROCE_RC_SEND_FIRST, ENV_PSN + 1, 256);
}

/* After RESET the QP starts as if it were new. */
static void reset_forgets(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	env_move(&e, IBV_QPS_RESET);
	assert_int_equal(e.num_cqes, 0);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
	env_rts(&e);
	expect_silence();
	env_post(&e, IBV_WR_SEND, 0, 8);
	expect_packet(ROCE_RC_SEND_ONLY, ENV_PSN, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_reach_the_other_end),
		cmocka_unit_test(packets_of_a_message),
		cmocka_unit_test(requests_without_payload),
		cmocka_unit_test(atomic_write_carries_its_word),
		cmocka_unit_test(gathers_sges_and_inline_data),
		cmocka_unit_test(window_bounds_what_is_in_flight),
		cmocka_unit_test(active_qps_share_the_window),
		cmocka_unit_test(max_rd_atomic_is_kept),
		cmocka_unit_test(long_read_is_split_into_requests),
		cmocka_unit_test(fence_waits_for_reads_and_atomics),
		cmocka_unit_test(local_failures_wait_their_turn),
		cmocka_unit_test(no_reads_without_resources),
		cmocka_unit_test(local_operations_in_order),
		cmocka_unit_test(failed_bind),
		cmocka_unit_test(local_operations_are_not_repeated),
		cmocka_unit_test(a_repeated_flush_has_the_other_icrc),
		cmocka_unit_test(unsignaled_requests_complete_silently),
		cmocka_unit_test(drain_and_resume),
		cmocka_unit_test(posted_to_a_dead_qp),
		cmocka_unit_test(failed_from_outside),
		cmocka_unit_test(psn_wraps_inside_a_message),
		cmocka_unit_test(one_sided_requests_to_a_local_peer),
		cmocka_unit_test(one_sided_result_cannot_be_stored),
		cmocka_unit_test(long_send_carries_no_payload),
		cmocka_unit_test(waiting_send_follows_the_peers_abilities),
		cmocka_unit_test(reset_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
