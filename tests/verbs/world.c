/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, memory and connected queue pairs for the tests of the public API. */
#include "world.h"

#include <poll.h>
#include <time.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static int find_gid(struct world *w)
{
	static const union ibv_gid none;

	for (int i = 0; i < w->port.gid_tbl_len; i++)
		if (!ibv_query_gid(w->ctx, 1, i, &w->gid) && memcmp(&w->gid, &none, sizeof(none)))
			return i;
	return -1;
}

void world_open(struct world *w)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK(list);
	if (!n)
		SKIP("no network interface");
	w->ctx = ibv_open_device(list[n - 1]);
	CHECK(w->ctx);
	ibv_free_device_list(list);
	CHECK_EQ(ibv_query_port(w->ctx, 1, &w->port), 0);
	w->gid_index = find_gid(w);
	if (w->gid_index < 0)
		SKIP("the device has no address");
	w->pd = ibv_alloc_pd(w->ctx);
	CHECK(w->pd);
}

void world_close(struct world *w)
{
	CHECK_EQ(ibv_dealloc_pd(w->pd), 0);
	CHECK_EQ(ibv_close_device(w->ctx), 0);
}

struct buffer world_buffer(struct world *w, size_t len, int access)
{
	struct buffer b = { .len = len };

	b.data = aligned_alloc(64, (len + 63) & ~(size_t)63);
	CHECK(b.data);
	memset(b.data, 0, len);
	b.mr = ibv_reg_mr(w->pd, b.data, len, access);
	CHECK(b.mr);
	return b;
}

void world_free(struct buffer *b)
{
	CHECK_EQ(ibv_dereg_mr(b->mr), 0);
	free(b->data);
}

void world_destroy_pair(struct ibv_qp *a, struct ibv_qp *b, struct ibv_cq *cq_a,
			struct ibv_cq *cq_b)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq_a), 0);
	CHECK_EQ(ibv_destroy_cq(cq_b), 0);
}

struct ibv_sge world_sge(const struct buffer *b, size_t offset, uint32_t len)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)b->data + offset,
		.length = len,
		.lkey = b->mr->lkey,
	};
}

struct ibv_cq *world_cq(struct world *w, int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(w->ctx, cqe, NULL, NULL, 0);

	CHECK(cq);
	return cq;
}

struct ibv_qp *world_qp(struct world *w, enum ibv_qp_type type, struct ibv_cq *cq,
			struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4,
			 .max_recv_sge = 4, .max_inline_data = 64 },
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(w->pd, &attr);

	CHECK(qp);
	return qp;
}

static int init_attr(enum ibv_qp_type type, struct ibv_qp_attr *a)
{
	a->port_num = 1;
	if (type == IBV_QPT_RAW_PACKET)
		return IBV_QP_PORT;
	a->qkey = WORLD_QKEY;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC;
	return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_attr(struct world *w, enum ibv_qp_type type, uint32_t peer, struct ibv_qp_attr *a)
{
	int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (type == IBV_QPT_UD || type == IBV_QPT_RAW_PACKET)
		return 0;
	a->path_mtu = IBV_MTU_1024;
	a->dest_qp_num = peer;
	a->rq_psn = WORLD_PSN;
	a->ah_attr = (struct ibv_ah_attr){
		.grh = { .dgid = w->gid, .sgid_index = w->gid_index, .hop_limit = 64 },
		.is_global = 1,
		.port_num = 1,
	};
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV) {
		a->max_dest_rd_atomic = 4;
		a->min_rnr_timer = 1;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return mask;
}

static int rts_attr(enum ibv_qp_type type, struct ibv_qp_attr *a)
{
	if (type == IBV_QPT_RAW_PACKET)
		return 0;
	a->sq_psn = WORLD_PSN;
	if (type == IBV_QPT_XRC_RECV) {
		a->timeout = 14;
		return IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	}
	if (type != IBV_QPT_RC && type != IBV_QPT_XRC_SEND)
		return IBV_QP_SQ_PSN;
	a->timeout = 14;
	a->retry_cnt = 7;
	a->rnr_retry = 7;
	a->max_rd_atomic = 4;
	return IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

int world_attr(struct world *w, enum ibv_qp_type type, enum ibv_qp_state next, uint32_t peer,
	       struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = next;
	switch (next) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | init_attr(type, attr);
	case IBV_QPS_RTR:
		return IBV_QP_STATE | rtr_attr(w, type, peer, attr);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | rts_attr(type, attr);
	default:
		return IBV_QP_STATE;
	}
}

void world_move(struct world *w, struct ibv_qp *qp, enum ibv_qp_state next, uint32_t peer)
{
	struct ibv_qp_attr attr;
	int mask = world_attr(w, qp->qp_type, next, peer, &attr);

	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	CHECK_EQ(qp->state, next);
}

void world_connect(struct world *w, struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp *qp[] = { a, b };

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < (a == b ? 1 : 2); i++)
			world_move(w, qp[i], s, qp[!i]->qp_num);
}

void world_poll(struct ibv_cq *cq, struct ibv_wc *wc, int n)
{
	double end = seconds() + WORLD_LIMIT_S;
	int got = 0;

	while (got < n) {
		int more = KEEPS_ERRNO(ibv_poll_cq(cq, n - got, wc + got));

		CHECK(more >= 0);
		got += more;
		CHECK(more > 0 || seconds() < end);
	}
}

struct ibv_wc world_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	world_poll(cq, &wc, 1);
	CHECK_EQ(wc.wr_id, wr_id);
	CHECK_EQ(wc.status, status);
	return wc;
}

void world_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	CHECK_EQ(KEEPS_ERRNO(ibv_post_send(qp, wr, &bad)), 0);
	CHECK(!bad);
}

void world_send(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	world_post(qp, &wr);
}

void world_recv(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	CHECK_EQ(KEEPS_ERRNO(ibv_post_recv(qp, &wr, &bad)), 0);
	CHECK(!bad);
}

struct ibv_send_wr world_rdma(enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sge,
			      const struct buffer *remote, size_t offset)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote->data + offset;
		wr.wr.atomic.rkey = remote->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote->data + offset;
		wr.wr.rdma.rkey = remote->mr->rkey;
	}
	return wr;
}

void world_event(struct world *w, enum ibv_event_type type)
{
	struct pollfd fd = { .fd = w->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	CHECK_EQ(poll(&fd, 1, WORLD_LIMIT_S * 1000), 1);
	CHECK_EQ(ibv_get_async_event(w->ctx, &e), 0);
	CHECK_EQ(e.event_type, type);
	ibv_ack_async_event(&e);
}

bool world_has_event(struct world *w)
{
	struct pollfd fd = { .fd = w->ctx->async_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

struct ibv_qp *world_flushed(struct world *w, struct ibv_cq *cq, int n)
{
	struct ibv_qp *qp = world_qp(w, IBV_QPT_RC, cq, NULL);

	world_move(w, qp, IBV_QPS_INIT, 0);
	world_move(w, qp, IBV_QPS_ERR, 0);
	for (int i = 0; i < n; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;

		CHECK_EQ(KEEPS_ERRNO(ibv_post_recv(qp, &wr, &bad)), 0);
	}
	return qp;
}
