/* SPDX-License-Identifier: BSD-2-Clause */
/* Applies requests byte by byte, and compares the result with the engines'. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"

/* The state of the check of one flow. */
struct walk {
	struct oracle *o;
	struct flow *f;
	uint32_t send_at, recv_at;      /* next completion to check */
	uint32_t message;		/* messages that consumed a receive so far */
};

void oracle_init(struct oracle *o, struct plan *p)
{
	*o = (struct oracle){ .plan = p };
	for (uint32_t h = 0; h < 2; h++) {
		uint64_t size = p->w->host[h]->size;

		o->image[h] = malloc(size + 1);
		o->undefined[h] = calloc(1, size + 1);
		memcpy(o->image[h], p->w->host[h]->mem, size);
	}
}

void oracle_free(struct oracle *o)
{
	for (uint32_t h = 0; h < 2; h++) {
		free(o->image[h]);
		free(o->undefined[h]);
	}
}

/* --- memory --- */

static uint8_t *at(struct oracle *o, uint32_t host, uint64_t va)
{
	struct sim_host *h = o->plan->w->host[host];

	world_check(o->plan->w, va - h->base < h->size, "the plan accesses other memory");
	return &o->image[host][va - h->base];
}

/* A bad request may access addresses outside of memory. */
static void mark_undefined(struct oracle *o, uint32_t host, uint64_t va, uint64_t len)
{
	const struct sim_host *h = o->plan->w->host[host];

	for (; len--; va++)
		if (va - h->base < h->size)
			o->undefined[host][va - h->base] = 1;
}

/* Address of byte i of an SGE list. */
static uint64_t sge_va(const struct ibv_sge *sge, uint32_t num, uint64_t i)
{
	for (uint32_t s = 0; s < num; s++) {
		if (i < sge[s].length)
			return sge[s].addr + i;
		i -= sge[s].length;
	}
	return 0;
}

static uint32_t requester_host(const struct walk *w)
{
	return w->f->req->host->number;
}

static uint32_t responder_host(const struct walk *w)
{
	return w->f->resp->host->number;
}

static uint32_t total(const struct sim_wr *wr)
{
	uint64_t sum = wr->length;

	if (wr->num_sge) {
		sum = 0;
		for (uint32_t s = 0; s < wr->num_sge; s++)
			sum += wr->sge[s].length;
	}
	return sum;
}

static uint8_t source_byte(struct walk *w, const struct sim_wr *wr, uint32_t i)
{
	if (wr->flags & IBV_SEND_INLINE)
		return wr->inline_data[i];
	return *at(w->o, requester_host(w), sge_va(wr->sge, wr->num_sge, i));
}

static void do_send(struct walk *w, const struct sim_wr *wr, const struct sim_rwr *r)
{
	for (uint32_t i = 0; i < total(wr); i++)
		*at(w->o, responder_host(w), sge_va(r->sge, r->num_sge, i)) = source_byte(w, wr, i);
}

static void do_write(struct walk *w, const struct sim_wr *wr)
{
	for (uint32_t i = 0; i < total(wr); i++)
		*at(w->o, responder_host(w), wr->remote_addr + i) = source_byte(w, wr, i);
}

static void do_read(struct walk *w, const struct sim_wr *wr)
{
	for (uint32_t i = 0; i < total(wr); i++)
		*at(w->o, requester_host(w), sge_va(wr->sge, wr->num_sge, i)) =
			*at(w->o, responder_host(w), wr->remote_addr + i);
}

static void do_atomic(struct walk *w, const struct sim_wr *wr)
{
	uint64_t old, new;

	memcpy(&old, at(w->o, responder_host(w), wr->remote_addr), 8);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		new = old + wr->compare_add;
	else
		new = old == wr->compare_add ? wr->swap : old;
	memcpy(at(w->o, responder_host(w), wr->remote_addr), &new, 8);
	memcpy(at(w->o, requester_host(w), wr->sge[0].addr), &old, 8);
}

/* --- the completions --- */

static uint32_t send_opcode(const struct sim_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV: return IBV_WC_LOCAL_INV;
	case IBV_WR_FLUSH: return IBV_WC_FLUSH;
	case IBV_WR_ATOMIC_WRITE: return IBV_WC_ATOMIC_WRITE;
	default: return IBV_WC_SEND;
	}
}

static const struct wq_cqe *next_send_cqe(struct walk *w, const struct sim_wr *wr)
{
	struct sim_qp *qp = w->f->req;

	world_check(w->o->plan->w, w->send_at < qp->send_cqes.n,
		    "QP 0x%x: request %llu has no completion", qp->wq.qpn,
		    (unsigned long long)wr->wr_id);
	return &qp->send_cqes.v[w->send_at++];
}

static void expect_send(struct walk *w, const struct sim_wr *wr)
{
	struct world *world = w->o->plan->w;
	const struct wq_cqe *c;
	uint32_t qpn = w->f->req->wq.qpn;

	if (!(wr->flags & IBV_SEND_SIGNALED) && !w->f->req->wq.sq.sig_all)
		return;
	c = next_send_cqe(w, wr);
	world_check(world, c->wr_id == wr->wr_id, "QP 0x%x: completion of %llu instead of %llu",
		    qpn, (unsigned long long)c->wr_id, (unsigned long long)wr->wr_id);
	world_check(world, c->status == IBV_WC_SUCCESS, "QP 0x%x: request %llu failed: %s", qpn,
		    (unsigned long long)wr->wr_id, trace_status(c->status));
	world_check(world, c->opcode == send_opcode(wr) && c->byte_len == total(wr) &&
			   c->reason == REASON_NONE,
		    "QP 0x%x: request %llu: opcode %u length %u reason %u", qpn,
		    (unsigned long long)wr->wr_id, c->opcode, c->byte_len, c->reason);
}

static const struct sim_rwr *find_srq_recv(struct srq_recvs *d, uint64_t wr_id)
{
	for (uint32_t i = 0; i < d->n; i++)
		if (d->rwr[i].wr_id == wr_id) {
			d->rwr[i].wr_id = ~0ull; /* each is used once */
			return &d->rwr[i];
		}
	return NULL;
}

/*
 * The receive of the next message: the flow's next one; with an SRQ the one with the completion's
 * wr_id.
 */
static const struct sim_rwr *pick_recv(struct walk *w, const struct wq_cqe *c)
{
	const struct sim_rwr *r;

	if (!w->o->plan->cfg->srq) {
		r = &w->f->rwr[w->message];
		return r->wr_id == c->wr_id ? r : NULL;
	}
	return find_srq_recv(&w->o->plan->srq_recvs[responder_host(w)], c->wr_id);
}

static void expect_recv_fields(struct walk *w, const struct sim_wr *wr, const struct wq_cqe *c)
{
	struct world *world = w->o->plan->w;
	uint32_t qpn = w->f->resp->wq.qpn, flags = 0, imm = 0, opcode = IBV_WC_RECV;

	if (wr->opcode == IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		flags = IBV_WC_WITH_IMM;
	if (wr->opcode == IBV_WR_SEND_WITH_INV)
		flags = IBV_WC_WITH_INV;
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	if (flags)
		imm = wr->imm;
	world_check(world, c->status == IBV_WC_SUCCESS, "QP 0x%x: receive 0x%llx failed: %s", qpn,
		    (unsigned long long)c->wr_id, trace_status(c->status));
	world_check(world, c->opcode == opcode && c->byte_len == total(wr),
		    "QP 0x%x: receive for request %llu: opcode %u length %u", qpn,
		    (unsigned long long)wr->wr_id, c->opcode, c->byte_len);
	world_check(world, (c->wc_flags & ~IBV_WC_GRH) == flags && (!flags || c->imm == imm),
		    "QP 0x%x: receive for request %llu: flags 0x%x immediate 0x%x", qpn,
		    (unsigned long long)wr->wr_id, c->wc_flags, c->imm);
	world_check(world, c->solicited == !!(wr->flags & IBV_SEND_SOLICITED),
		    "QP 0x%x: receive for request %llu: solicited %u", qpn,
		    (unsigned long long)wr->wr_id, c->solicited);
}

static const struct sim_rwr *expect_recv(struct walk *w, const struct sim_wr *wr)
{
	struct sim_qp *qp = w->f->resp;
	const struct wq_cqe *c = &qp->recv_cqes.v[w->recv_at];
	const struct sim_rwr *r;

	world_check(w->o->plan->w, w->recv_at < qp->recv_cqes.n,
		    "QP 0x%x: message of request %llu was not received", qp->wq.qpn,
		    (unsigned long long)wr->wr_id);
	r = pick_recv(w, c);
	world_check(w->o->plan->w, r, "QP 0x%x: request %llu went to receive 0x%llx", qp->wq.qpn,
		    (unsigned long long)wr->wr_id, (unsigned long long)c->wr_id);
	w->recv_at++;
	w->message++;
	expect_recv_fields(w, wr, c);
	return r;
}

static void apply(struct walk *w, const struct sim_wr *wr)
{
	const struct sim_rwr *r = plan_needs_recv(wr->opcode) ? expect_recv(w, wr) : NULL;

	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		do_write(w, wr);
		break;
	case IBV_WR_RDMA_READ:
		do_read(w, wr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		do_atomic(w, wr);
		break;
	case IBV_WR_ATOMIC_WRITE:
		memcpy(at(w->o, responder_host(w), wr->remote_addr), &wr->compare_add, 8);
		break;
	case IBV_WR_FLUSH:
	case IBV_WR_LOCAL_INV:
		break;
	default:
		do_send(w, wr, r);
	}
}

/* --- comparing --- */

static bool inside(const struct area *a, uint64_t va)
{
	return va - a->va < a->len;
}

static void report_difference(struct oracle *o, uint32_t host, uint64_t offset)
{
	struct world *w = o->plan->w;
	uint64_t va = w->host[host]->base + offset;

	for (uint32_t i = 0; i < o->plan->nflows; i++) {
		const struct flow *f = &o->plan->flow[i];
		const struct area *area[] = { &f->local, &f->remote, &f->recv };
		static const char *const name[] = { "local", "remote", "receive" };

		for (uint32_t k = 0; k < ARRAY_SIZE(area); k++)
			if (inside(area[k], va))
				world_fail(w,
					   "host %u: %s area of flow %u differs at +%llu (0x%llx): "
					   "%02x, not %02x",
					   host, name[k], i, (unsigned long long)(va - area[k]->va),
					   (unsigned long long)va, w->host[host]->mem[offset],
					   o->image[host][offset]);
	}
	world_fail(w, "host %u differs at 0x%llx", host, (unsigned long long)va);
}

static void compare_memory(struct oracle *o)
{
	for (uint32_t h = 0; h < 2; h++) {
		const uint8_t *actual = o->plan->w->host[h]->mem;

		if (memcmp(actual, o->image[h], o->plan->w->host[h]->size) == 0)
			continue;
		for (uint64_t i = 0; i < o->plan->w->host[h]->size; i++)
			if (actual[i] != o->image[h][i] && !o->undefined[h][i])
				report_difference(o, h, i);
	}
}

static void expect_all_done(struct world *w, const struct sim_qp *qp)
{
	for (uint32_t e = 0; e < ARRAY_SIZE(qp->events); e++)
		world_check(w, !qp->events[e], "QP 0x%x: unexpected event %u", qp->wq.qpn, e);
	world_check(w, qp->wq.state == IBV_QPS_RTS, "QP 0x%x ended in state %u", qp->wq.qpn,
		    qp->wq.state);
	world_check(w, qp->wq.sq.done == qp->wq.sq.head, "QP 0x%x: %u requests not completed",
		    qp->wq.qpn, qp->wq.sq.head - qp->wq.sq.done);
	world_check(w, !qp->taken, "QP 0x%x still holds a receive", qp->wq.qpn);
}

static void check_flow(struct oracle *o, struct flow *f)
{
	struct walk w = { .o = o, .f = f };
	struct world *world = o->plan->w;

	world_check(world, f->posted == f->n, "QP 0x%x: %u of %u requests posted", f->req->wq.qpn,
		    f->posted, f->n);
	expect_all_done(world, f->req);
	expect_all_done(world, f->resp);
	for (uint32_t i = 0; i < f->n; i++) {
		apply(&w, &f->wr[i]);
		expect_send(&w, &f->wr[i]);
	}
	world_check(world, w.send_at == f->req->send_cqes.n, "QP 0x%x: %u completions too many",
		    f->req->wq.qpn, f->req->send_cqes.n - w.send_at);
	world_check(world, w.recv_at == f->resp->recv_cqes.n, "QP 0x%x: %u receives too many",
		    f->resp->wq.qpn, f->resp->recv_cqes.n - w.recv_at);
}

void oracle_check(struct oracle *o)
{
	for (uint32_t i = 0; i < o->plan->nflows; i++)
		check_flow(o, &o->plan->flow[i]);
	compare_memory(o);
}

/* --- runs that may fail --- */

/* Index of the request that failed first, or how many were posted. */
static uint32_t first_failure(struct walk *w, uint64_t allowed)
{
	const struct sim_cqes *c = &w->f->req->send_cqes;
	uint32_t i = 0;

	while (i < c->n && c->v[i].status == IBV_WC_SUCCESS)
		i++;
	if (i == c->n)
		return w->f->posted;
	world_check(w->o->plan->w, allowed >> c->v[i].status & 1, "QP 0x%x: request %llu: %s",
		    w->f->req->wq.qpn, (unsigned long long)c->v[i].wr_id,
		    trace_status(c->v[i].status));
	return c->v[i].wr_id;
}

static void expect_flushed(struct walk *w, uint32_t failed)
{
	struct world *world = w->o->plan->w;

	for (uint32_t i = failed; i < w->f->posted; i++) {
		const struct wq_cqe *c = next_send_cqe(w, &w->f->wr[i]);

		world_check(world, c->wr_id == i, "QP 0x%x: flush of %llu instead of %u",
			    w->f->req->wq.qpn, (unsigned long long)c->wr_id, i);
		world_check(world, i == failed || c->status == IBV_WC_WR_FLUSH_ERR,
			    "QP 0x%x: request %u after the failure: %s", w->f->req->wq.qpn, i,
			    trace_status(c->status));
	}
}

static bool writes_remote(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       opcode == IBV_WR_ATOMIC_WRITE;
}

static void mark_request(struct walk *w, const struct sim_wr *wr)
{
	if (writes_remote(wr->opcode) && total(wr))
		mark_undefined(w->o, responder_host(w), wr->remote_addr, total(wr));
	for (uint32_t s = 0; s < wr->num_sge; s++)
		mark_undefined(w->o, requester_host(w), wr->sge[s].addr, wr->sge[s].length);
}

static void mark_recvs(struct walk *w, const struct sim_rwr *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < r[i].num_sge; s++)
			mark_undefined(w->o, responder_host(w), r[i].sge[s].addr,
				       r[i].sge[s].length);
}

/* The responder may have received messages whose requests failed; other receives are flushed. */
static void check_rest_of_recvs(struct walk *w, uint32_t failed)
{
	const struct sim_cqes *c = &w->f->resp->recv_cqes;

	for (uint32_t i = failed; i < w->f->n && w->recv_at < c->n &&
	     c->v[w->recv_at].status == IBV_WC_SUCCESS; i++)
		if (plan_needs_recv(w->f->wr[i].opcode))
			expect_recv(w, &w->f->wr[i]);
	for (; w->recv_at < c->n; w->recv_at++)
		world_check(w->o->plan->w, c->v[w->recv_at].status == IBV_WC_WR_FLUSH_ERR,
			    "QP 0x%x: receive 0x%llx: %s", w->f->resp->wq.qpn,
			    (unsigned long long)c->v[w->recv_at].wr_id,
			    trace_status(c->v[w->recv_at].status));
}

static bool check_failing_flow(struct oracle *o, struct flow *f, uint64_t allowed)
{
	struct walk w = { .o = o, .f = f };
	uint32_t failed = first_failure(&w, allowed), before;

	for (uint32_t i = 0; i < failed; i++) {
		apply(&w, &f->wr[i]);
		expect_send(&w, &f->wr[i]);
	}
	expect_flushed(&w, failed);
	before = w.message;
	for (uint32_t i = failed; i < f->posted; i++)
		mark_request(&w, &f->wr[i]);
	if (!o->plan->cfg->srq)
		mark_recvs(&w, f->rwr + before, f->nrecv - before);
	else
		mark_recvs(&w, o->plan->srq_recvs[responder_host(&w)].rwr,
			   o->plan->srq_recvs[responder_host(&w)].n);
	check_rest_of_recvs(&w, failed);
	return failed < f->posted;
}

uint32_t oracle_check_failing(struct oracle *o, uint64_t allowed)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < o->plan->nflows; i++)
		failed += check_failing_flow(o, &o->plan->flow[i], allowed);
	compare_memory(o);
	return failed;
}
