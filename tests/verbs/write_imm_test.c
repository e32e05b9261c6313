/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITEs with immediate: their errors leave the memory as it was, a shared receive queue serves
 * them in turn with SENDs, and a solicited one raises an event.
 */
#include <string.h>

#include "world.h"

enum {
	LEN = 256,
	DEPTH = 16,
	RECV_ID = 100,
	MESSAGES = 12,
};

static struct world w;
static struct ibv_comp_channel *channel;
static struct buffer src, dst;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;

/* To RTS; a request without a receive fails at once. */
static void to_rts(struct ibv_qp *qp, struct ibv_qp *peer, unsigned int access)
{
	struct ibv_qp_attr attr;
	int mask;

	world_move(&w, qp, IBV_QPS_INIT, peer->qp_num);
	attr.qp_access_flags = access;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	world_move(&w, qp, IBV_QPS_RTR, peer->qp_num);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, peer->qp_num, &attr);
	attr.rnr_retry = 0;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

static void open_pair(struct ibv_srq *srq, unsigned int access)
{
	cq_a = world_cq(&w, 2 * DEPTH);
	cq_b = ibv_create_cq(w.ctx, 2 * DEPTH, NULL, channel, 0);
	CHECK(cq_b);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, srq);
	to_rts(a, b, access);
	to_rts(b, a, access);
}

static void close_pair(void)
{
	world_destroy_pair(a, b, cq_a, cq_b);
}

static struct ibv_send_wr write_imm(uint64_t wr_id, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, wr_id, sge, &dst, 0);

	wr.imm_data = wr_id;
	return wr;
}

static void want_received(uint64_t recv, enum ibv_wc_opcode opcode, uint32_t imm, uint32_t len)
{
	struct ibv_wc wc = world_expect(cq_b, recv, IBV_WC_SUCCESS);

	CHECK_EQ(wc.opcode, opcode);
	CHECK_EQ(wc.byte_len, len);
	CHECK_EQ(wc.imm_data, imm);
}

/* ---- errors ---- */

static void no_key(struct ibv_send_wr *wr) { wr->wr.rdma.rkey ^= 0x5500; }
static void beyond(struct ibv_send_wr *wr) { wr->wr.rdma.remote_addr += LEN - 7; }
static void nothing(struct ibv_send_wr *wr) { }

static const struct row {
	const char *name;
	void (*change)(struct ibv_send_wr *wr);
	unsigned int access;
	bool receive;
	enum ibv_wc_status status;
} rows[] = {
	{ "no such key", no_key, WORLD_ACCESS, true, IBV_WC_REM_ACCESS_ERR },
	{ "beyond the region", beyond, WORLD_ACCESS, true, IBV_WC_REM_ACCESS_ERR },
	{ "the QP permits no WRITE", nothing, IBV_ACCESS_REMOTE_READ, true,
	  IBV_WC_REM_INV_REQ_ERR },
	{ "no receive", nothing, WORLD_ACCESS, false, IBV_WC_RNR_RETRY_EXC_ERR },
	{ "no error", nothing, WORLD_ACCESS, true, IBV_WC_SUCCESS },
};

static void one_error(const struct row *r)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr = write_imm(1, &sge);
	bool arrives = r->status == IBV_WC_SUCCESS;

	printf("%s\n", r->name);
	open_pair(NULL, r->access);
	memset(dst.data, 0x11, LEN);
	/* A request before it has already used the connection. */
	world_recv(b, RECV_ID, world_sge(&dst, 100, 8));
	world_send(a, 0, sge);
	world_expect(cq_a, 0, IBV_WC_SUCCESS);
	world_expect(cq_b, RECV_ID, IBV_WC_SUCCESS);
	if (r->receive)
		world_recv(b, RECV_ID + 1, world_sge(&dst, 0, 0));
	r->change(&wr);
	world_post(a, &wr);
	world_expect(cq_a, 1, r->status);
	if (arrives)
		want_received(RECV_ID + 1, IBV_WC_RECV_RDMA_WITH_IMM, 1, 8);
	for (int i = 0; i < LEN; i++) {
		bool written = (i >= 100 && i < 108) || (arrives && i < 8);

		CHECK_EQ(dst.data[i], written ? src.data[i % 100] : 0x11);
	}
	close_pair();
}

static void test_errors(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		one_error(&rows[i]);
}

/* A key of no bytes is not checked (IBTA vol 1, 9.7.4). */
static void test_empty(void)
{
	struct ibv_send_wr wr = write_imm(1, NULL);

	wr.num_sge = 0;
	wr.wr.rdma.rkey = 0;
	open_pair(NULL, WORLD_ACCESS);
	world_recv(b, RECV_ID, world_sge(&dst, 0, 0));
	world_post(a, &wr);
	want_received(RECV_ID, IBV_WC_RECV_RDMA_WITH_IMM, 1, 0);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	close_pair();
}

/* ---- a shared receive queue ---- */

static void post_srq(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = world_sge(&dst, 128, 128);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void test_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &attr);
	struct ibv_sge sge;

	CHECK(srq);
	open_pair(srq, WORLD_ACCESS);
	for (int i = 0; i < MESSAGES; i++)
		post_srq(srq, RECV_ID + i);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_send_wr wr = write_imm(i, &sge);

		sge = world_sge(&src, i, 4 * i);
		if (i % 3 == 0)
			wr.opcode = IBV_WR_SEND_WITH_IMM;
		world_post(a, &wr);
	}
	for (int i = 0; i < MESSAGES; i++) {
		want_received(RECV_ID + i, i % 3 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, i,
			      4 * i);
		world_expect(cq_a, i, IBV_WC_SUCCESS);
	}
	CHECK_MEM(dst.data, src.data + MESSAGES - 1, 4 * (MESSAGES - 1));
	close_pair();
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* ---- events ---- */

static void test_solicited(void)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr;
	struct ibv_cq *cq;
	void *context;

	open_pair(NULL, WORLD_ACCESS);
	for (int i = 0; i < MESSAGES; i++)
		world_recv(b, RECV_ID + i, world_sge(&dst, 0, 0));
	CHECK_EQ(ibv_req_notify_cq(cq_b, 1), 0);
	for (int i = 0; i < MESSAGES; i++) {
		wr = write_imm(i, &sge);
		if (i == MESSAGES - 1)
			wr.send_flags |= IBV_SEND_SOLICITED;
		world_post(a, &wr);
	}
	CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
	CHECK(cq == cq_b);
	ibv_ack_cq_events(cq, 1);
	/* The last one raised it, so all are there. */
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc;

		CHECK_EQ(ibv_poll_cq(cq_b, 1, &wc), 1);
		CHECK_EQ(wc.wr_id, RECV_ID + i);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < MESSAGES; i++)
		world_expect(cq_a, i, IBV_WC_SUCCESS);
	close_pair();
}

/*
 * A WRITE of several packets takes its receive with the last one, but is refused with the first: no
 * receive completes in error, nor is one needed. As on soft RoCE, and whatever carries it.
 */
static void refused(uint32_t len, bool receive, bool whole)
{
	struct buffer from = world_buffer(&w, len, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = world_sge(&from, 0, len);
	struct ibv_send_wr wr = write_imm(1, &sge);

	printf("%u bytes refused, receive %d\n", len, receive);
	open_pair(NULL, WORLD_ACCESS);
	world_recv(b, RECV_ID, world_sge(&dst, 0, 8));
	world_send(a, 0, world_sge(&src, 0, 8));
	world_expect(cq_a, 0, IBV_WC_SUCCESS);
	world_expect(cq_b, RECV_ID, IBV_WC_SUCCESS);
	if (receive)
		world_recv(b, RECV_ID + 1, world_sge(&dst, 0, 0));
	no_key(&wr);
	world_post(a, &wr);
	world_expect(cq_a, 1, receive || !whole ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RNR_RETRY_EXC_ERR);
	if (receive)
		world_expect(cq_b, RECV_ID + 1,
			     whole ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	if (!whole)
		world_event(&w, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(!world_has_event(&w));
	close_pair();
	world_free(&from);
}

static void test_refused(void)
{
	static const uint32_t lengths[] = { 1024, 1025, 4096, 9000, 200000 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (int receive = 0; receive < 2; receive++)
			refused(lengths[i], receive, lengths[i] <= 1024);
}

int main(void)
{
	world_open(&w);
	channel = ibv_create_comp_channel(w.ctx);
	CHECK(channel);
	src = world_buffer(&w, LEN, IBV_ACCESS_LOCAL_WRITE);
	dst = world_buffer(&w, LEN, WORLD_ACCESS);
	for (int i = 0; i < LEN; i++)
		src.data[i] = 3 * i + 1;
	test_errors();
	test_refused();
	test_empty();
	test_srq();
	test_solicited();
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&src);
	world_free(&dst);
	world_close(&w);
	return 0;
}
