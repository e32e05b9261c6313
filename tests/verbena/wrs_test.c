/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scatter lists and work requests from packet buffers, posting them, and the states that posting
 * takes a QP to.
 */
#include <stdint.h>

#include "pair.h"

enum {
	ROWS = 6,
	HEADER_ROW = 64,
	HEADER = 42, /* bytes of a row: 22 of padding */
	PAYLOAD = 256,
};

static uint8_t headers[ROWS][HEADER_ROW], payloads[ROWS][PAYLOAD];

static const struct verbena_buf two[2] = {
	{ .addr = headers, .row = HEADER_ROW, .num_pkt = ROWS, .npad = HEADER_ROW - HEADER },
	{ .addr = payloads, .row = PAYLOAD, .num_pkt = ROWS },
};

static void check_sges(const struct ibv_sge *sges, uint32_t num_wr, uint32_t key0, uint32_t key1)
{
	for (uint32_t i = 0; i < num_wr; i++) {
		const struct ibv_sge *sge = &sges[2 * i];

		CHECK_EQ(sge[0].addr, (uintptr_t)headers[i]);
		CHECK_EQ(sge[0].length, HEADER);
		CHECK_EQ(sge[0].lkey, key0);
		CHECK_EQ(sge[1].addr, (uintptr_t)payloads[i]);
		CHECK_EQ(sge[1].length, PAYLOAD);
		CHECK_EQ(sge[1].lkey, key1);
	}
}

static void test_sges(void)
{
	const uint32_t keys[2] = { 7, 8 };
	struct verbena_buf npad1 = { .addr = payloads, .row = 2, .num_pkt = 1, .npad = 1 };
	struct ibv_sge *sges;

	for (uint32_t num_wr = 1; num_wr <= ROWS; num_wr++) {
		sges = verbena_create_sges(two, 2, keys, num_wr);
		OK(sges);
		check_sges(sges, num_wr, 7, 8);
		free(sges);
	}
	sges = verbena_create_sges(&npad1, 1, keys, 1);
	OK(sges);
	CHECK_EQ(sges[0].length, 1);
	free(sges);
}

/* Bad shapes: the same answer from everything that takes buffers. */
static void test_bad_bufs(struct verbena_context *ctx)
{
	static const struct {
		struct verbena_buf buf; /* beside a good one of ROWS packets */
		uint32_t num_wr;
	} rows[] = {
		{ { NULL, PAYLOAD, ROWS, 0 }, 1 },
		{ { payloads, 0, ROWS, 0 }, 1 },
		{ { payloads, PAYLOAD, 0, 0 }, 1 },
		{ { payloads, PAYLOAD, ROWS, PAYLOAD }, 1 },	 /* npad as large as the row */
		{ { payloads, PAYLOAD, ROWS, PAYLOAD + 1 }, 1 }, /* and larger */
		{ { payloads, PAYLOAD, ROWS, SIZE_MAX }, 1 },
		{ { payloads, PAYLOAD, ROWS - 1, 0 }, 1 }, /* not as many packets as the other */
		{ { payloads, PAYLOAD, ROWS, 0 }, ROWS + 1 },
		{ { payloads, PAYLOAD, ROWS, 0 }, 0 },
		/* longer than a scatter element can be */
		{ { payloads, (size_t)1 << 33, ROWS, 0 }, 1 },
		{ { payloads, SIZE_MAX / 2, ROWS, SIZE_MAX / 2 - 1 }, 1 },
		/* beyond the address space */
		{ { payloads, SIZE_MAX / ROWS, ROWS, SIZE_MAX / ROWS - 1 }, 1 },
	};
	const uint32_t keys[2] = { 0 };
	struct verbena_send_wrs sends = { .num_wr = 77 };
	struct verbena_recv_wrs recvs = { .num_wr = 77 };
	struct ibv_mr *mr = ibv_reg_mr(ctx->pd, payloads, sizeof(payloads), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *mrs[2] = { mr, mr };

	CHECK(mr);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct verbena_buf bufs[2] = { two[1], rows[i].buf };

		FAILS(verbena_create_sges(bufs, 2, keys, rows[i].num_wr), NULL, EINVAL);
		FAILS(verbena_create_send_wrs(ctx, bufs, 2, rows[i].num_wr, 0, &sends), -1, EINVAL);
		FAILS(verbena_create_recv_wrs(ctx, bufs, 2, rows[i].num_wr, 0, &recvs), -1, EINVAL);
		FAILS(verbena_create_send_wrs_mrs(mrs, bufs, 2, rows[i].num_wr, &sends), -1,
		      EINVAL);
		FAILS(verbena_create_recv_wrs_mrs(mrs, bufs, 2, rows[i].num_wr, &recvs), -1,
		      EINVAL);
	}
	CHECK_EQ(sends.num_wr, 77);
	CHECK_EQ(recvs.num_wr, 77);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void test_bad_arguments(struct verbena_context *ctx)
{
	const uint32_t keys[2] = { 0 };
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;
	struct ibv_mr *none[2] = { NULL, NULL };

	FAILS(verbena_create_sges(NULL, 2, keys, 1), NULL, EINVAL);
	FAILS(verbena_create_sges(two, 0, keys, 1), NULL, EINVAL);
	FAILS(verbena_create_sges(two, 2, NULL, 1), NULL, EINVAL);
	FAILS(verbena_create_send_wrs(NULL, two, 2, 1, 0, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs(ctx, NULL, 2, 1, 0, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs(ctx, two, 0, 1, 0, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs(ctx, two, 2, 1, 4, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs(ctx, two, 2, 1, 0, NULL), -1, EINVAL);
	FAILS(verbena_create_recv_wrs(NULL, two, 2, 1, 0, &recvs), -1, EINVAL);
	FAILS(verbena_create_recv_wrs(ctx, NULL, 2, 1, 0, &recvs), -1, EINVAL);
	FAILS(verbena_create_recv_wrs(ctx, two, 2, 1, VERBENA_OFFLOAD, &recvs), -1, EINVAL);
	FAILS(verbena_create_recv_wrs(ctx, two, 2, 1, 0, NULL), -1, EINVAL);
	FAILS(verbena_create_send_wrs_mrs(NULL, two, 2, 1, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs_mrs(none, two, 2, 1, &sends), -1, EINVAL);
	FAILS(verbena_create_send_wrs_mrs(none, two, 2, 1, NULL), -1, EINVAL);
	FAILS(verbena_create_recv_wrs_mrs(NULL, two, 2, 1, &recvs), -1, EINVAL);
	FAILS(verbena_create_recv_wrs_mrs(none, two, 2, 1, &recvs), -1, EINVAL);
	FAILS(verbena_create_recv_wrs_mrs(none, two, 2, 1, NULL), -1, EINVAL);
	FAILS(verbena_post_send_wrs(NULL, &(struct ibv_send_wr){ 0 }, false), -1, EINVAL);
	FAILS(verbena_post_send_wrs(ctx, NULL, false), -1, EINVAL);
	FAILS(verbena_post_recv_wrs(NULL, &(struct ibv_recv_wr){ 0 }, false), -1, EINVAL);
	FAILS(verbena_post_recv_wrs(ctx, NULL, false), -1, EINVAL);
	OK(verbena_destroy_send_wrs(NULL) == 0);
	OK(verbena_destroy_recv_wrs(NULL) == 0);
}

static void check_requests(const struct verbena_send_wrs *sends,
			   const struct verbena_recv_wrs *recvs, unsigned int flags)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		CHECK_EQ(sends->wrs[i].wr_id, i);
		CHECK(sends->wrs[i].next == (i + 1 < ROWS ? &sends->wrs[i + 1] : NULL));
		CHECK(sends->wrs[i].sg_list == &sends->sges[2 * i]);
		CHECK_EQ(sends->wrs[i].num_sge, 2);
		CHECK_EQ(sends->wrs[i].opcode, IBV_WR_SEND);
		CHECK_EQ(sends->wrs[i].send_flags, flags);
		CHECK_EQ(recvs->wrs[i].wr_id, i);
		CHECK(recvs->wrs[i].next == (i + 1 < ROWS ? &recvs->wrs[i + 1] : NULL));
		CHECK(recvs->wrs[i].sg_list == &recvs->sges[2 * i]);
		CHECK_EQ(recvs->wrs[i].num_sge, 2);
	}
}

/* Both forms; the program owns regions that it registered. */
static void test_create(struct verbena_context *ctx)
{
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;
	struct ibv_mr *mrs[2];

	OK(verbena_create_send_wrs(ctx, two, 2, ROWS, VERBENA_OFFLOAD, &sends) == 0);
	OK(verbena_create_recv_wrs(ctx, two, 2, ROWS, 0, &recvs) == 0);
	CHECK(sends.num_wr == ROWS && sends.num_bufs == 2 && recvs.num_wr == ROWS &&
	      recvs.num_bufs == 2);
	check_requests(&sends, &recvs, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
	for (int b = 0; b < 2; b++) {
		CHECK(sends.mrs[b]->addr == two[b].addr &&
		      sends.mrs[b]->length == ROWS * two[b].row);
		CHECK(recvs.mrs[b]->addr == two[b].addr &&
		      recvs.mrs[b]->length == ROWS * two[b].row);
	}
	check_sges(sends.sges, ROWS, sends.mrs[0]->lkey, sends.mrs[1]->lkey);
	check_sges(recvs.sges, ROWS, recvs.mrs[0]->lkey, recvs.mrs[1]->lkey);
	for (int twice = 0; twice < 2; twice++) {
		OK(verbena_destroy_send_wrs(&sends) == 0);
		OK(verbena_destroy_recv_wrs(&recvs) == 0);
		CHECK(!sends.wrs && !sends.sges && !sends.mrs && !recvs.wrs && !recvs.sges &&
		      !recvs.mrs);
	}

	for (int b = 0; b < 2; b++)
		mrs[b] =
			ibv_reg_mr(ctx->pd, two[b].addr, ROWS * two[b].row, IBV_ACCESS_LOCAL_WRITE);
	OK(verbena_create_send_wrs_mrs(mrs, two, 2, ROWS, &sends) == 0);
	OK(verbena_create_recv_wrs_mrs(mrs, two, 2, ROWS, &recvs) == 0);
	check_requests(&sends, &recvs, IBV_SEND_SIGNALED);
	check_sges(sends.sges, ROWS, mrs[0]->lkey, mrs[1]->lkey);
	check_sges(recvs.sges, ROWS, mrs[0]->lkey, mrs[1]->lkey);
	CHECK(!sends.mrs && !recvs.mrs);
	OK(verbena_destroy_send_wrs(&sends) == 0);
	OK(verbena_destroy_recv_wrs(&recvs) == 0);
	/* Regions that do not hold the buffers. */
	for (int b = 0; b < 2; b++) {
		struct ibv_mr *other[2] = { mrs[b], mrs[b] };

		FAILS(verbena_create_send_wrs_mrs(other, two, 2, ROWS, &sends), -1, EINVAL);
		FAILS(verbena_create_recv_wrs_mrs(other, two, 2, ROWS, &recvs), -1, EINVAL);
	}
	CHECK_EQ(ibv_dereg_mr(mrs[0]), 0);
	CHECK_EQ(ibv_dereg_mr(mrs[1]), 0);
}

static enum ibv_qp_state state_of(const struct verbena_context *ctx)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(ctx->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void force_state(struct verbena_context *ctx, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK_EQ(ibv_modify_qp(ctx->qp, &attr, IBV_QP_STATE), 0);
}

static void wait_completions(struct ibv_cq *cq, struct ibv_wc *wcs, int n,
			     enum ibv_wc_status status)
{
	int got, done = 0;

	while (done < n) {
		got = ibv_poll_cq(cq, n - done, wcs);
		CHECK(got >= 0);
		for (int i = 0; i < got; i++)
			CHECK_EQ(wcs[i].status, status);
		done += got;
	}
}

/* A row of a datagram begins with a GRH, so its first part must hold that too. */
static void test_post(const struct verbena_context_options *opt)
{
	bool ud = opt->qp_type == IBV_QPT_UD;
	static uint8_t grhs[ROWS][GRH], into_headers[ROWS][HEADER], into_payloads[ROWS][PAYLOAD];
	const struct verbena_buf into[3] = {
		{ .addr = grhs, .row = GRH, .num_pkt = ROWS },
		{ .addr = into_headers, .row = HEADER, .num_pkt = ROWS },
		{ .addr = into_payloads, .row = PAYLOAD, .num_pkt = ROWS },
	};
	struct pair p = pair_create(opt);
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;

	for (int i = 0; i < ROWS; i++) {
		memset(headers[i], 'a' + i, HEADER_ROW);
		memset(payloads[i], 'A' + i, PAYLOAD);
	}
	OK(verbena_create_recv_wrs(p.b, into + !ud, 2 + ud, ROWS, VERBENA_POST, &recvs) == 0);
	CHECK_EQ(state_of(p.b), IBV_QPS_RTR);
	OK(verbena_create_send_wrs(p.a, two, 2, ROWS, VERBENA_POST, &sends) == 0);
	CHECK_EQ(state_of(p.a), IBV_QPS_RTS);
	wait_completions(p.a->send_cq, p.a->send_wcs, ROWS, IBV_WC_SUCCESS);
	wait_completions(p.b->recv_cq, p.b->recv_wcs, ROWS, IBV_WC_SUCCESS);
	for (int i = 0; i < ROWS; i++) {
		CHECK_MEM(into_headers[i], headers[i], HEADER);
		CHECK_MEM(into_payloads[i], payloads[i], PAYLOAD);
	}

	/* modify_qp takes an ERROR and a RESET queue pair all the way, and leaves RTS alone. */
	OK(verbena_post_wrs(p.b, recvs.wrs, true) == 0);
	force_state(p.b, IBV_QPS_ERR);
	wait_completions(p.b->recv_cq, p.b->recv_wcs, ROWS, IBV_WC_WR_FLUSH_ERR);
	OK(verbena_post_wrs(p.b, recvs.wrs, true) == 0);
	CHECK_EQ(state_of(p.b), IBV_QPS_RTR);
	force_state(p.a, IBV_QPS_RESET);
	OK(verbena_post_wrs(p.a, sends.wrs, true) == 0);
	CHECK_EQ(state_of(p.a), IBV_QPS_RTS);
	wait_completions(p.a->send_cq, p.a->send_wcs, ROWS, IBV_WC_SUCCESS);
	OK(verbena_post_wrs(p.a, &recvs.wrs[ROWS - 1], true) == 0);
	CHECK_EQ(state_of(p.a), IBV_QPS_RTS);

	/* From the middle of a list: only what is behind. */
	OK(verbena_post_wrs(p.b, recvs.wrs, false) == 0);
	OK(verbena_post_wrs(p.a, &sends.wrs[ROWS - 1], false) == 0);
	wait_completions(p.a->send_cq, p.a->send_wcs, 1, IBV_WC_SUCCESS);
	CHECK_EQ(p.a->send_wcs[0].wr_id, ROWS - 1);

	force_state(p.a, IBV_QPS_RESET);
	force_state(p.b, IBV_QPS_RESET);
	OK(verbena_destroy_send_wrs(&sends) == 0);
	OK(verbena_destroy_recv_wrs(&recvs) == 0);
	pair_destroy(&p);
}

/*
 * What cannot be posted is told with the request that it is about, and without side effects where
 * the call makes all.
 */
static void test_post_refused(const struct verbena_context_options *opt)
{
	struct verbena_context *ctx = context_of(opt);
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;
	bool raw = opt->qp_type == IBV_QPT_RAW_PACKET, ud = opt->qp_type == IBV_QPT_UD;

	if (!raw)
		FAILS(verbena_create_send_wrs(ctx, two, 2, ROWS, VERBENA_POST, &sends), -1,
		      ENOTCONN);
	if (!raw && !ud) {
		FAILS(verbena_create_recv_wrs(ctx, two, 2, ROWS, VERBENA_POST, &recvs), -1,
		      ENOTCONN);
		FAILS(verbena_post_recv_wrs(ctx, &(struct ibv_recv_wr){ 0 }, true), -1, ENOTCONN);
		FAILS(verbena_post_send_wrs(ctx, &(struct ibv_send_wr){ 0 }, true), -1, ENOTCONN);
		CHECK_EQ(state_of(ctx), IBV_QPS_INIT);
	}
	/*
	 * Sends in INIT; a scatter list longer than the queue takes; an operation that does not
	 * exist.
	 */
	OK(verbena_create_send_wrs(ctx, two, 2, ROWS, 0, &sends) == 0);
	FAILS(verbena_post_wrs(ctx, sends.wrs, false), -1, EINVAL);
	CHECK(strstr(verbena_error(), "wr_id 0"));
	OK(verbena_create_recv_wrs(ctx, two, 2, ROWS, 0, &recvs) == 0);
	recvs.wrs[1].num_sge = 1000;
	recvs.wrs[1].wr_id = 4711;
	FAILS(verbena_post_wrs(ctx, recvs.wrs, false), -1, EINVAL);
	CHECK(strstr(verbena_error(), "wr_id 4711"));
	OK(verbena_destroy_send_wrs(&sends) == 0);
	OK(verbena_destroy_recv_wrs(&recvs) == 0);
	OK(verbena_destroy_context(ctx) == 0);
}

/* More than the queue holds: nothing is left behind. */
static void test_too_many(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);
	struct verbena_context *ctx;
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;
	struct verbena_buf many = { .row = 1 };

	opt.max_send_wr = opt.max_recv_wr = 1;
	ctx = context_of(&opt);
	many.num_pkt =
		(ctx->max_send_wr > ctx->max_recv_wr ? ctx->max_send_wr : ctx->max_recv_wr) + 1;
	many.addr = calloc(many.num_pkt, 1);
	FAILS(verbena_create_send_wrs(ctx, &many, 1, (uint32_t)many.num_pkt, VERBENA_POST, &sends),
	      -1, ENOMEM);
	FAILS(verbena_create_recv_wrs(ctx, &many, 1, (uint32_t)many.num_pkt, VERBENA_POST, &recvs),
	      -1, ENOMEM);
	OK(verbena_destroy_context(ctx) == 0);
	free(many.addr);
}

static void test_addresses(const struct verbena_context_options *opt)
{
	struct verbena_context *ctx = context_of(opt);
	struct verbena_address self, bad;

	if (opt->qp_type == IBV_QPT_RAW_PACKET) {
		FAILS(verbena_get_address(ctx, &self), -1, EOPNOTSUPP);
		FAILS(verbena_connect(ctx, &(struct verbena_address){ 0 }), -1, EOPNOTSUPP);
		OK(verbena_destroy_context(ctx) == 0);
		return;
	}
	CHECK_EQ(sizeof(self), 32);
	OK(verbena_get_address(ctx, &self) == 0);
	CHECK_EQ(self.qpn, ctx->qp->qp_num);
	CHECK_EQ(self.qkey, QKEY);
	CHECK_EQ(self.gid.raw[10], 0xff); /* IPv4 first */
	FAILS(verbena_get_address(NULL, &self), -1, EINVAL);
	FAILS(verbena_get_address(ctx, NULL), -1, EINVAL);
	FAILS(verbena_connect(NULL, &self), -1, EINVAL);
	FAILS(verbena_connect(ctx, NULL), -1, EINVAL);
#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		bad = self;                                                                        \
		bad.member = (value);                                                              \
		FAILS(verbena_connect(ctx, &bad), -1, EINVAL);                                     \
	} while (0)
	REFUSED(qpn, 1 << 24);
	REFUSED(psn, 1 << 24);
	REFUSED(mtu, 0);
	REFUSED(mtu, 6);
	REFUSED(reserved, 1);
	REFUSED(gid, (union ibv_gid){ 0 });
	/* To itself, and once more for a datagram queue pair, which keeps one address handle. */
	OK(verbena_connect(ctx, &self) == 0);
	OK(verbena_post_recv_wrs(ctx, &(struct ibv_recv_wr){ 0 }, true) == 0);
	CHECK_EQ(ctx->ah != NULL, opt->qp_type == IBV_QPT_UD);
	if (opt->qp_type == IBV_QPT_UD)
		OK(verbena_connect(ctx, &self) == 0);
	else
		FAILS(verbena_connect(ctx, &self), -1, EISCONN);
	OK(verbena_destroy_context(ctx) == 0);
}

int main(int argc, char **argv)
{
	struct verbena_context_options opt = options_of(type_named(argv[1]));
	struct verbena_context *ctx;

	opt.max_send_wr = opt.max_recv_wr = ROWS;
	opt.max_send_sge = 2;
	opt.max_recv_sge = 3;
	ctx = context_of(&opt);
	test_sges();
	test_bad_bufs(ctx);
	test_bad_arguments(ctx);
	test_create(ctx);
	OK(verbena_destroy_context(ctx) == 0);
	test_addresses(&opt);
	test_post_refused(&opt);
	test_too_many(opt.qp_type);
	if (opt.qp_type != IBV_QPT_RAW_PACKET)
		test_post(&opt);
	return 0;
}
