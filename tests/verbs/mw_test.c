/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows used through queue pairs: type 1 bound by ibv_bind_mw, type 2 bound by work
 * requests, and the lifetime of both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { LEN = 4096 };

struct setup {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b; /* b binds the window, a accesses it */
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

/* Replaces the queue pairs after an error. */
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
	/* A new bind invalidates the old key. */
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	second = mw->rkey;
	write_through(s, second, 496, IBV_WC_SUCCESS);
	write_through(s, first, 256, IBV_WC_REM_ACCESS_ERR);
	write_through(s, second, 497, IBV_WC_REM_ACCESS_ERR);
	/* Length 0 invalidates the window. */
	bind.bind_info.length = 0;
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	write_through(s, mw->rkey, 256, IBV_WC_REM_ACCESS_ERR);
	/* Access flags that a window cannot grant are ignored. */
	bind.bind_info.length = 256;
	bind.bind_info.mw_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	CHECK_EQ(ibv_bind_mw(s->b, mw, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_SUCCESS);
	write_through(s, mw->rkey, 256, IBV_WC_SUCCESS);
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
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
	/* Binds again under the next key, which the peer then invalidates. */
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

/* A failing bind ends with an error completion. */
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

/* Expects the completions of request 6 and receive 7 in any order. */
static void expect_both(struct setup *s, enum ibv_wc_status request, enum ibv_wc_status receive)
{
	struct ibv_wc wc[2];

	world_poll(s->cq, wc, 2);
	CHECK_EQ(wc[0].wr_id + wc[1].wr_id, 6 + 7);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, wc[i].wr_id == 6 ? request : receive);
	reconnect(s);
}

/*
 * A region's key cannot be invalidated. LOCAL_INV of it fails as a bind does. When a peer sends it
 * with SEND_WITH_INV, the peer's request succeeds, since its message was received, but the receive
 * fails (class J).
 */
static void failing_invalidations(struct setup *s)
{
	struct ibv_sge sge = world_sge(&s->local, 0, 16);
	struct ibv_send_wr inv = { .wr_id = 5, .opcode = IBV_WR_LOCAL_INV,
				   .invalidate_rkey = s->target.mr->rkey };
	struct ibv_send_wr send = { .wr_id = 6,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND_WITH_INV,
				    .send_flags = IBV_SEND_SIGNALED,
				    .invalidate_rkey = s->target.mr->rkey };

	world_post(s->b, &inv);
	world_expect(s->cq, 5, IBV_WC_MW_BIND_ERR);
	reconnect(s);
	world_recv(s->b, 7, sge);
	world_post(s->a, &send);
	expect_both(s, IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR);
}

/*
 * A WRITE with immediate data to memory outside the window completes its receive with a local
 * access error.
 */
static void write_with_immediate(struct setup *s)
{
	struct ibv_sge sge = world_sge(&s->local, 0, 16);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 6, &sge, &s->target, 0);

	world_recv(s->b, 7, sge);
	wr.wr.rdma.rkey = s->target.mr->rkey;
	world_post(s->a, &wr);
	expect_both(s, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
}

static void bind_through(struct setup *s, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t rkey,
			 enum ibv_wc_status status)
{
	struct ibv_send_wr bind = bind_request(s, mw, rkey);

	bind.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	world_post(qp, &bind);
	world_expect(s->cq, 4, status);
}

static void invalidate(struct setup *s, struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr inv = { .wr_id = 5, .opcode = IBV_WR_LOCAL_INV,
				   .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey };

	world_post(qp, &inv);
	world_expect(s->cq, 5, IBV_WC_SUCCESS);
}

/*
 * Only the low eight bits of the new key are chosen by the program; a window that is not bound can
 * be bound on another QP.
 */
static void type_2_lifetime(struct setup *s)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	uint32_t base = mw->rkey & ~0xffu;

	for (int round = 0; round < 4; round++) {
		struct ibv_qp *binder = round & 1 ? s->a : s->b;
		uint32_t tag = 0xba + round;

		bind_through(s, binder, mw, tag, IBV_WC_SUCCESS);
		if (binder == s->b)
			write_through(s, base | tag, 0, IBV_WC_SUCCESS);
		invalidate(s, binder, base | tag);
	}
	/* A bound window cannot be bound again. */
	bind_through(s, s->b, mw, 1, IBV_WC_SUCCESS);
	bind_through(s, s->b, mw, 2, IBV_WC_MW_BIND_ERR);
	reconnect(s);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

static int change_rights(struct setup *s, int access)
{
	return ibv_rereg_mr(s->target.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access);
}

/* Several windows over one region, each usable only through the QP that bound it. */
static void windows_of_several_qps(struct setup *s)
{
	struct ibv_mw *of_a = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	struct ibv_mw *of_b = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	uint32_t key_a = ibv_inc_rkey(of_a->rkey), key_b = ibv_inc_rkey(of_b->rkey);

	bind_through(s, s->a, of_a, key_a, IBV_WC_SUCCESS);
	bind_through(s, s->b, of_b, key_b, IBV_WC_SUCCESS);
	write_through(s, key_b, 0, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(s->target.mr), EBUSY);
	CHECK_EQ(change_rights(s, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(errno, EBUSY);
	write_through(s, key_b, 0, IBV_WC_SUCCESS);
	write_through(s, key_a, 0, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dealloc_mw(of_a), 0);
	CHECK_EQ(ibv_dealloc_mw(of_b), 0);
	/* None is bound any more. */
	of_b = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	key_b = ibv_inc_rkey(of_b->rkey);
	CHECK_EQ(change_rights(s, IBV_ACCESS_LOCAL_WRITE), 0);
	bind_through(s, s->b, of_b, key_b, IBV_WC_MW_BIND_ERR);
	reconnect(s);
	CHECK_EQ(change_rights(s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND), 0);
	bind_through(s, s->b, of_b, key_b, IBV_WC_SUCCESS);
	write_through(s, key_b, 0, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dealloc_mw(of_b), 0);
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void binds_in_error(struct setup *s)
{
	struct ibv_mw *one = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_1),
		      *two = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {
		.wr_id = 8,
		.bind_info = { s->target.mr, (uintptr_t)s->target.data, 256,
			       IBV_ACCESS_REMOTE_WRITE },
	};

	to_state(s->b, IBV_QPS_ERR);
	CHECK_EQ(ibv_bind_mw(s->b, one, &bind), 0);
	world_expect(s->cq, 8, IBV_WC_WR_FLUSH_ERR);
	bind_through(s, s->b, two, ibv_inc_rkey(two->rkey), IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_dealloc_mw(one), 0);
	CHECK_EQ(ibv_dealloc_mw(two), 0);
	reconnect(s);
}

/*
 * A queued bind whose window and region are destroyed before it runs; the program uses their memory
 * for something else.
 */
static void binds_of_destroyed_objects(struct setup *s)
{
	for (int gone = 0; gone < 2; gone++) {
		struct ibv_mw *mw = ibv_alloc_mw(s->w.pd, IBV_MW_TYPE_2);
		struct ibv_mr *mr = ibv_reg_mr(s->w.pd, s->target.data, LEN,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		struct ibv_send_wr bind = bind_request(s, mw, ibv_inc_rkey(mw->rkey));
		void *reused[64];

		bind.bind_mw.bind_info.mr = mr;
		to_state(s->b, IBV_QPS_SQD);
		world_post(s->b, &bind);
		CHECK_EQ(gone ? ibv_dereg_mr(mr) : ibv_dealloc_mw(mw), 0);
		for (int i = 0; i < 64; i++)
			reused[i] = memset(malloc(gone ? sizeof(*mr) + 64 : sizeof(*mw)), 0x7f,
					   sizeof(*mw));
		to_state(s->b, IBV_QPS_RTS);
		world_expect(s->cq, 4, IBV_WC_MW_BIND_ERR);
		for (int i = 0; i < 64; i++)
			free(reused[i]);
		CHECK_EQ(gone ? ibv_dealloc_mw(mw) : ibv_dereg_mr(mr), 0);
		reconnect(s);
	}
}

int main(void)
{
	struct setup s;

	open_all(&s);
	type_1(&s);
	type_2(&s);
	failing_bind(&s);
	failing_invalidations(&s);
	write_with_immediate(&s);
	type_2_lifetime(&s);
	windows_of_several_qps(&s);
	binds_in_error(&s);
	binds_of_destroyed_objects(&s);
	close_all(&s);
	return 0;
}
