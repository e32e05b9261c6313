/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows at the responder, and invalidation from afar. The requester writes through the
 * window, does what the scenario says to it, and writes again; both print the statuses that they
 * got.
 */
#include "probe.h"

enum {
	LIMIT_MS = 20000,
	WINDOW_AT = 4096,
	WINDOW_LEN = 4096,
	LEN = 2500,
	RECV_AT = 1 << 20,
	WRITE_ID = 1, INV_ID, BIND_ID, RECV_ID,
};

enum ending { OUTSIDE, SEND_INV, LOCAL_INV, UNBIND, WRONG_INV };

static const struct window {
	const char *name;
	enum ibv_mw_type type;
	enum ending ending;
} windows[] = {
	{ "window1_outside", IBV_MW_TYPE_1, OUTSIDE },
	{ "window1_unbound", IBV_MW_TYPE_1, UNBIND },
	{ "window2_outside", IBV_MW_TYPE_2, OUTSIDE },
	{ "window2_send_inv", IBV_MW_TYPE_2, SEND_INV },
	{ "window2_local_inv", IBV_MW_TYPE_2, LOCAL_INV },
	{ "window2_wrong_inv", IBV_MW_TYPE_2, WRONG_INV },
};

static bool print_next(struct end *e)
{
	struct ibv_wc wc;

	if (!end_poll(e, &wc, LIMIT_MS)) {
		printf(" NOTHING");
		return false;
	}
	printf(" %s", status_name(wc.status));
	if (wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_INV)
		printf("+INV");
	return wc.status == IBV_WC_SUCCESS;
}

/* ---- requester ------------------------------------------------------------------------------- */

static bool write_through(struct end *e, uint32_t rkey, size_t offset)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf, .length = LEN, .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = WRITE_ID,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	wr.wr.rdma.remote_addr = e->theirs.addr + offset;
	wr.wr.rdma.rkey = rkey;
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	return print_next(e);
}

static void send_inv(struct end *e, uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf, .length = LEN, .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = INV_ID,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .invalidate_rkey = rkey };
	struct ibv_send_wr *bad;

	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	print_next(e);
}

static void request(struct end *e, const struct window *w)
{
	uint32_t rkey = 0;
	bool lives = false, theirs;

	end_swap(e, &rkey, &rkey, sizeof(rkey));
	write_through(e, rkey, WINDOW_AT);
	if (w->ending == SEND_INV || w->ending == WRONG_INV)
		send_inv(e, w->ending == SEND_INV ? rkey : rkey ^ 1);
	end_meet(e);
	end_meet(e);	/* the responder has done its part */
	if (w->ending != WRONG_INV)
		lives = write_through(e, rkey,
				      w->ending == OUTSIDE ? WINDOW_AT + WINDOW_LEN - LEN + 1
							   : WINDOW_AT);
	end_swap(e, &lives, &theirs, sizeof(lives));
}

/* ---- responder ------------------------------------------------------------------------------- */

static void bind(struct end *e, struct ibv_mw *mw, enum ibv_mw_type type, size_t len)
{
	struct ibv_mw_bind_info info = { .mr = e->mr,
					 .addr = (uintptr_t)e->buf + WINDOW_AT,
					 .length = len,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (type == IBV_MW_TYPE_1) {
		struct ibv_mw_bind one = { .wr_id = BIND_ID,
					   .send_flags = IBV_SEND_SIGNALED,
					   .bind_info = info };

		CHECK_EQ(ibv_bind_mw(e->qp, mw, &one), 0);
	} else {
		struct ibv_send_wr wr = { .wr_id = BIND_ID, .opcode = IBV_WR_BIND_MW }, *bad;

		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
		CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
		mw->rkey = wr.bind_mw.rkey;
	}
	print_next(e);
}

static void local_inv(struct end *e, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = INV_ID,
				  .opcode = IBV_WR_LOCAL_INV,
				  .invalidate_rkey = rkey },
			   *bad;

	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	print_next(e);
}

static void respond(struct end *e, const struct window *w)
{
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, w->type);
	uint32_t rkey, theirs;
	bool lives = false;

	CHECK(mw);
	end_recv(e, RECV_ID, RECV_AT, LEN);
	bind(e, mw, w->type, WINDOW_LEN);
	rkey = mw->rkey;
	end_swap(e, &rkey, &theirs, sizeof(rkey));
	end_meet(e);
	if (w->ending == LOCAL_INV)
		local_inv(e, rkey);
	else if (w->ending == UNBIND)
		bind(e, mw, w->type, 0);
	end_meet(e);
	end_swap(e, &lives, &lives, sizeof(lives));
	if (!lives)
		print_next(e);	/* the receive: flushed, unless it took the invalidation */
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
}

bool probe_window(struct end *e, const char *name)
{
	struct end_setup setup = { .type = IBV_QPT_RC };

	for (size_t i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
		if (strcmp(windows[i].name, name))
			continue;
		end_connect(e, &setup);
		printf("%s", e->client ? "requester" : "responder");
		if (e->client)
			request(e, &windows[i]);
		else
			respond(e, &windows[i]);
		printf("\n");
		return true;
	}
	return false;
}
