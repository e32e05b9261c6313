/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows through queue pairs: type 1 by ibv_bind_mw, type 2 by work requests, and what they
 * keep.
 */
#include <errno.h>

#include "world.h"

enum { LEN = 4096 };

struct setup {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b; /* b binds, a accesses */
	struct buffer local, target;
};

static void open_all(struct setup *s)
{
	world_open(&s->w);
	s->cq = world_cq(&s->w, 32);
	s->a = world_qp(&s->w, IBV_QPT_RC, s->cq, NULL);
	s->b = world_qp(&s->w, IBV_QPT_RC, s->cq, NULL);
	world_connect(&s->w, s->a, s->b);
	s->local = world_buffer(&s->w, 64, IBV_ACCESS_LOCAL_WRITE);
	s->target = world_buffer(&s->w, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static void close_qps(struct setup *s)
{
	CHECK_EQ(ibv_destroy_qp(s->a), 0);
	CHECK_EQ(ibv_destroy_qp(s->b), 0);
	CHECK_EQ(ibv_destroy_cq(s->cq), 0);
}

static void close_all(struct setup *s)
{
	close_qps(s);
	world_free(&s->local);
	world_free(&s->target);
	world_close(&s->w);
}

/* Fresh queue pairs after an error. */
static void reconnect(struct setup *s)
{
	close_qps(s);
	s->cq = world_cq(&s->w, 32);
	s->a = world_qp(&s->w, IBV_QPT_RC, s->cq, NULL);
	s->b = world_qp(&s->w, IBV_QPT_RC, s->cq, NULL);
	world_connect(&s->w, s->a, s->b);
}

static void write_through(struct setup *s, uint32_t rkey, size_t offset, enum ibv_wc_status status)
{
	struct ibv_sge sge = world_sge(&s->local, 0, 16);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &s->target, offset);

	wr.wr.rdma.rkey = rkey;
	world_post(s->a, &wr);
	world_expect(s->cq, 3, status);
	if (status != IBV_WC_SUCCESS)
		reconnect(s);
}

static void type_1(struct setup *s)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 8,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { s->target.mr, (uintptr_t)s->target.data + 256, 256,
			       IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t first, second;

	CHECK(mw);
	first = mw->rkey;
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	CHECK(mw->rkey != first);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	first = mw->rkey;
	write_through(s, first, 256, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(s->target.mr), EBUSY);
	/* A new bind ends the old key. */
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	second = mw->rkey;
	write_through(s, second, 496, IBV_WC_SUCCESS);
	write_through(s, first, 256, IBV_WC_REM_ACCESS_ERR);
	write_through(s, second, 497, IBV_WC_REM_ACCESS_ERR);
	/* Length 0 unbinds. */
	bind.bind_info.length = 0;
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	write_through(s, mw->rkey, 256, IBV_WC_REM_ACCESS_ERR);
	bind.bind_info.mw_access_flags = IBV_ACCESS_LOCAL_WRITE;
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), EINVAL);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

static struct ibv_send_wr bind_request(struct setup *s, struct ibv_mw *mw, uint32_t rkey)
{
	return (struct ibv_send_wr){
		.wr_id = 4,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = rkey,
			.bind_info = { s->target.mr, (uintptr_t)s->target.data, 128,
				       IBV_ACCESS_REMOTE_WRITE },
		},
	};
}

static void type_2(struct setup *s)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr bind = bind_request(s, mw, key);
	struct ibv_send_wr inv = { .wr_id = 5,
				   .opcode = IBV_WR_LOCAL_INV,
				   .send_flags = IBV_SEND_SIGNALED,
				   .invalidate_rkey = key };
	struct ibv_send_wr send = { .wr_id = 6,
				    .opcode = IBV_WR_SEND_WITH_INV,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc[2];

	world_post(s->b, &bind);
	world_expect(s->cq, 4, IBV_WC_SUCCESS);
	write_through(s, key, 0, IBV_WC_SUCCESS);
	world_post(s->b, &inv);
	world_expect(s->cq, 5, IBV_WC_SUCCESS);
	/* Bound again under the next key, which the peer then takes away. */
	key = ibv_inc_rkey(key);
	bind = bind_request(s, mw, key);
	world_post(s->b, &bind);
	world_expect(s->cq, 4, IBV_WC_SUCCESS);
	world_recv(s->b, 7, world_sge(&s->local, 0, 16));
	send.invalidate_rkey = key;
	world_post(s->a, &send);
	world_poll(s->cq, wc, 2);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].wr_id != 7)
			continue;
		CHECK(wc[i].wc_flags & IBV_WC_WITH_INV);
		CHECK_EQ(wc[i].invalidated_rkey, key);
	}
	write_through(s, key, 0, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

/* A bind that fails is an error completion. */
static void failing_bind(struct setup *s)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = bind_request(s, mw, ibv_inc_rkey(mw->rkey));

	bind.bind_mw.bind_info.length = LEN + 1;
	world_post(s->b, &bind);
	world_expect(s->cq, 4, IBV_WC_MW_BIND_ERR);
	reconnect(s);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

int main(void)
{
	struct setup s;

	open_all(&s);
	type_1(&s);
	type_2(&s);
	failing_bind(&s);
	close_all(&s);
	return 0;
}
