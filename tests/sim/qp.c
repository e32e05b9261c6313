/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of simulated hosts: create, connect, post. */
#include <stdlib.h>
#include <string.h>

#include "core/rx/reorder.h"
#include "util/compiler.h"
#include "world.h"

struct sim_qp_attr sim_qp_defaults(void)
{
	return (struct sim_qp_attr){
		.type = IBV_QPT_RC, .mtu = 1024, .sq_depth = 64, .rq_depth = 64, .max_sge = 4,
		.max_rd_atomic = 16, .max_dest_rd_atomic = 16, .timeout = 8, .retry_cnt = 7,
		.rnr_retry = 7, .min_rnr_timer = 1, .pd = 1,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL |
			  IBV_ACCESS_FLUSH_PERSISTENT,
	};
}

static void make_ring(struct wq_ring *r, uint32_t depth, uint32_t stride, uint32_t max_sge)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	*r = (struct wq_ring){
		.slots = calloc(size, stride), .stride = stride, .mask = size - 1,
		.limit = depth, .max_sge = max_sge,
	};
}

static uint32_t new_qpn(struct world *w)
{
	/* Different on each host: equal numbers would hide that two are swapped. */
	return 0x10 + rng_below(&w->rng, 0x8000) * 0x101 % 0xfffff0;
}

struct sim_qp *sim_create_qp(struct sim_host *h, const struct sim_qp_attr *a)
{
	struct sim_qp *qp = calloc(1, sizeof(*qp));
	struct wq_qp *wq = &qp->wq;

	world_check(h->world, h->nqps < SIM_MAX_QPS, "too many QPs");
	qp->host = h;
	qp->srq = a->srq;
	qp->pd = a->pd;
	*wq = (struct wq_qp){
		.ops = &sim_ops, .qpn = new_qpn(h->world) + h->nqps, .type = a->type,
		.state = IBV_QPS_RESET, .mtu = a->mtu, .max_msg = 1u << 31, .access = a->access,
		.pkey = 0xffff, .max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic, .min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout, .retry_cnt = a->retry_cnt, .rnr_retry = a->rnr_retry,
		.has_srq = a->srq || a->type == IBV_QPT_XRC_RECV, .use_grh_area = true,
		.xrcd = a->xrcd,
	};
	make_ring(&wq->sq.ring, a->sq_depth, sizeof(struct send_wqe) + SIM_MAX_INLINE,
		  a->max_sge);
	make_ring(&wq->rq.ring, a->rq_depth,
		  sizeof(struct recv_wqe) + SIM_MAX_SGE * sizeof(struct ibv_sge), a->max_sge);
	wq->sq.max_inline = SIM_MAX_INLINE;
	wq->sq.sig_all = a->sig_all;
	qp->holds = !a->goes_back;
	qp->roce.ud = a->type == IBV_QPT_UD ? &qp->ud : NULL;
	roce_qp_init(&qp->roce, wq, qp->rd_atomic, ROCE_MAX_RD_ATOMIC);
	h->qp[h->nqps++] = qp;
	return qp;
}

static void forget_received(struct sim_qp *qp)
{
	qp->taken = NULL;
	reorder_free(&qp->held);
}

void sim_modify(struct sim_qp *qp, enum ibv_qp_state to)
{
	struct world *w = qp->host->world;
	enum ibv_qp_state from = qp->wq.state;

	trace_note(w->trace, w->now, TRACE_STATE, qp->host->number, qp->wq.qpn, from, to, 0);
	qp->wq.state = to;
	if (to == IBV_QPS_RESET)
		forget_received(qp);
	roce_qp_moved(&qp->roce, from);
	world_kick(w, qp);
}

void sim_to_rtr(struct sim_qp *qp, const struct sim_qp *peer, uint32_t rq_psn)
{
	sim_modify(qp, IBV_QPS_INIT);
	qp->wq.path = sim_path(qp->host, peer->host);
	qp->wq.dest_qpn = peer->wq.qpn;
	qp->wq.rq_psn = rq_psn & 0xffffff;
	sim_modify(qp, IBV_QPS_RTR);
}

void sim_to_rts(struct sim_qp *qp, uint32_t sq_psn)
{
	qp->wq.sq_psn = sq_psn & 0xffffff;
	sim_modify(qp, IBV_QPS_RTS);
}

void sim_connect(struct sim_qp *a, uint32_t a_psn, struct sim_qp *b, uint32_t b_psn)
{
	sim_to_rtr(a, b, b_psn);
	sim_to_rtr(b, a, a_psn);
	sim_to_rts(a, a_psn);
	sim_to_rts(b, b_psn);
}

void sim_ud_ready(struct sim_qp *qp, uint32_t qkey)
{
	qp->wq.qkey = qkey;
	sim_modify(qp, IBV_QPS_INIT);
	sim_modify(qp, IBV_QPS_RTR);
	sim_to_rts(qp, rng_next(&qp->host->world->rng));
}

static uint32_t sge_sum(const struct ibv_sge *sge, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += sge[i].length;
	return min(sum, (uint64_t)UINT32_MAX);
}

/* The members of the union that the opcode or the QP type uses. */
static void fill_special(struct send_wqe *w, const struct sim_wr *wr, enum ibv_qp_type type)
{
	if (type == IBV_QPT_UD) {
		w->ud.path = wr->path;
		w->ud.qpn = wr->qpn;
		w->ud.qkey = wr->qkey;
	} else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->atomic.compare_add = wr->compare_add;
		w->atomic.swap = wr->swap;
	} else if (wr->opcode == IBV_WR_ATOMIC_WRITE) {
		w->atomic_write = wr->compare_add;
	} else if (wr->opcode == IBV_WR_FLUSH) {
		w->flush.placement = wr->compare_add;
		w->flush.selectivity = wr->swap;
	}
}

bool sim_post_send(struct sim_qp *qp, const struct sim_wr *wr)
{
	struct send_queue *sq = &qp->wq.sq;
	struct world *world = qp->host->world;
	struct send_wqe *w = sq_wqe(sq, sq->head);

	if (sq->head - sq->released >= sq->ring.limit)
		return false;
	*w = (struct send_wqe){
		.wr_id = wr->wr_id, .opcode = wr->opcode, .flags = wr->flags, .imm = wr->imm,
		.rkey = wr->rkey, .remote_addr = wr->remote_addr, .srqn = wr->srqn,
		.length = wr->length,
	};
	fill_special(w, wr, qp->wq.type);
	if (sq->sig_all || wr->flags & IBV_SEND_SIGNALED)
		w->flags |= WQE_SIGNALED;
	if (wr->flags & IBV_SEND_INLINE) {
		w->flags |= WQE_DATA_INLINE;
		memcpy(wqe_inline_data(w), wr->inline_data, wr->length);
	} else {
		w->num_sge = wr->num_sge;
		if (wr->num_sge)
			w->length = sge_sum(wr->sge, wr->num_sge);
		memcpy(w->sge, wr->sge, wr->num_sge * sizeof(wr->sge[0]));
	}
	sq->head++;
	trace_note(world->trace, world->now, TRACE_POST_SEND, qp->host->number, qp->wq.qpn,
		   wr->wr_id, wr->opcode, w->length);
	return true;
}

static void fill_recv(struct recv_wqe *w, const struct sim_rwr *wr)
{
	w->wr_id = wr->wr_id;
	w->num_sge = wr->num_sge;
	w->length = sge_sum(wr->sge, wr->num_sge);
	w->skip = w->clip = 0;
	memcpy(w->sge, wr->sge, wr->num_sge * sizeof(wr->sge[0]));
}

bool sim_post_recv(struct sim_qp *qp, const struct sim_rwr *wr)
{
	struct recv_queue *rq = &qp->wq.rq;
	struct world *w = qp->host->world;

	if (rq->head - rq->released >= rq->ring.limit)
		return false;
	fill_recv(rq_wqe(rq, rq->head++), wr);
	trace_note(w->trace, w->now, TRACE_POST_RECV, qp->host->number, qp->wq.qpn, wr->wr_id, 0,
		   sge_sum(wr->sge, wr->num_sge));
	if (qp->wq.state != IBV_QPS_RESET && qp->wq.state != IBV_QPS_INIT)
		roce_recv_posted(&qp->roce);
	return true;
}

void sim_post_srq_recv(struct world *w, struct sim_srq *srq, const struct sim_rwr *wr)
{
	struct recv_wqe *wqe = malloc(sizeof(*wqe) + sizeof(wr->sge));

	if (srq->n == srq->cap) {
		srq->cap = srq->cap ? 2 * srq->cap : 64;
		srq->wqe = realloc(srq->wqe, srq->cap * sizeof(srq->wqe[0]));
	}
	fill_recv(wqe, wr);
	srq->wqe[srq->n++] = wqe;
	trace_note(w->trace, w->now, TRACE_POST_RECV, 0, srq->number, wr->wr_id, 0, wqe->length);
}
