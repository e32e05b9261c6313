/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random requests that cannot race: their operations, lengths and addresses, and the fences they
 * need.
 */
#include "plan_wr.h"

#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"

/* Symbolic keys, which a request's rkey field holds before relocation. */
enum { KEY_REGION, KEY_WINDOW0, KEY_WINDOW1, KEY_STALE0, KEY_INVALID = 100 };

/* Memory that READs and atomics since the last fence may still access. */
struct range {
	uint64_t start, end;
};
struct hazards {
	struct range *read, *dst; /* remote ranges read; local ranges responses write to */
	uint32_t nread, ndst;
	bool window_used[2]; /* a READ or atomic uses this window */
	bool window_gone[2];
	uint32_t stale_used;
};

static const struct {
	uint32_t opcode;
	uint32_t kind;
	uint32_t weight;
} mix[] = {
	{ IBV_WR_SEND, PLAN_SEND, 15 },
	{ IBV_WR_SEND_WITH_IMM, PLAN_SEND, 8 },
	{ IBV_WR_RDMA_WRITE, PLAN_WRITE, 20 },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, PLAN_WRITE_IMM, 8 },
	{ IBV_WR_RDMA_READ, PLAN_READ, 20 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, PLAN_ATOMIC, 6 },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, PLAN_ATOMIC, 6 },
	{ IBV_WR_SEND_WITH_INV, PLAN_INVALIDATE, 3 },
	{ IBV_WR_LOCAL_INV, PLAN_INVALIDATE, 3 },
	{ IBV_WR_FLUSH, PLAN_EXTENDED, 4 },
	{ IBV_WR_ATOMIC_WRITE, PLAN_EXTENDED, 4 },
};

bool plan_needs_recv(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_write(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint32_t pick_opcode(struct rng *r, uint32_t kinds)
{
	uint32_t sum = 0, at;

	for (uint32_t i = 0; i < ARRAY_SIZE(mix); i++)
		sum += mix[i].kind & kinds ? mix[i].weight : 0;
	at = rng_below(r, sum);
	for (uint32_t i = 0;; i++) {
		uint32_t weight = mix[i].kind & kinds ? mix[i].weight : 0;

		if (at < weight)
			return mix[i].opcode;
		at -= weight;
	}
}

/* The boundaries of packetisation, and random lengths. */
static uint32_t pick_len(struct rng *r, const struct plan_config *c)
{
	uint32_t mtu = c->qp.mtu, k = rng_range(r, 2, 5), len = 0;

	if (c->fixed_len)
		return c->fixed_len;
	switch (rng_below(r, 10)) {
	case 0: len = 0; break;
	case 1: len = 1; break;
	case 2: len = mtu - 1; break;
	case 3: len = mtu; break;
	case 4: len = mtu + 1; break;
	case 5: len = k * mtu - 1; break;
	case 6: len = k * mtu; break;
	case 7: len = k * mtu + 1; break;
	case 8: len = rng_below(r, 64); break;
	case 9: len = rng_below(r, (uint64_t)c->max_len + 1); break;
	}
	return min(len, c->max_len);
}

uint32_t plan_split(struct rng *r, struct ibv_sge *sge, uint32_t max_sge, uint32_t len,
		    uint64_t start)
{
	uint32_t n = rng_percent(r, 40) ? 1 : rng_range(r, 1, max_sge);
	uint64_t at = start;

	if (len == 0 && rng_percent(r, 50))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t piece = i + 1 == n ? len : rng_below(r, len + 1);

		at += rng_below(r, PLAN_GAP + 1);
		sge[i] = (struct ibv_sge){ .addr = at, .length = piece };
		at += piece;
		len -= piece;
	}
	return n;
}

static bool overlaps(const struct range *v, uint32_t n, uint64_t start, uint64_t len)
{
	for (uint32_t i = 0; i < n; i++)
		if (start < v[i].end && v[i].start < start + len)
			return true;
	return false;
}

static bool source_in_flight(const struct hazards *h, const struct sim_wr *wr)
{
	for (uint32_t i = 0; i < wr->num_sge; i++)
		if (overlaps(h->dst, h->ndst, wr->sge[i].addr, wr->sge[i].length))
			return true;
	return false;
}

static bool needs_fence(const struct hazards *h, const struct sim_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return source_in_flight(h, wr);
	case IBV_WR_SEND_WITH_INV:
		return source_in_flight(h, wr) || h->window_used[wr->imm - KEY_WINDOW0];
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return source_in_flight(h, wr) ||
		       overlaps(h->read, h->nread, wr->remote_addr, wr->length);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_WRITE:
		return overlaps(h->read, h->nread, wr->remote_addr, 8);
	}
	return false;
}

static void note_dst(struct hazards *h, const struct sim_wr *wr)
{
	for (uint32_t i = 0; i < wr->num_sge; i++)
		h->dst[h->ndst++] =
			(struct range){ wr->sge[i].addr, wr->sge[i].addr + wr->sge[i].length };
}

static void apply_hazards(struct hazards *h, struct sim_wr *wr, struct rng *r)
{
	if (needs_fence(h, wr) || rng_percent(r, 5))
		wr->flags |= IBV_SEND_FENCE;
	if (wr->flags & IBV_SEND_FENCE) {
		h->nread = h->ndst = 0;
		memset(h->window_used, 0, sizeof(h->window_used));
	}
	if (wr->opcode == IBV_WR_RDMA_READ)
		h->read[h->nread++] = (struct range){ wr->remote_addr,
						      wr->remote_addr + wr->length };
	if (wr->opcode == IBV_WR_RDMA_READ || is_atomic(wr->opcode) ||
	    wr->opcode == IBV_WR_FLUSH || wr->opcode == IBV_WR_ATOMIC_WRITE) {
		note_dst(h, wr);
		if (wr->rkey == KEY_WINDOW0 || wr->rkey == KEY_WINDOW1)
			h->window_used[wr->rkey - KEY_WINDOW0] = true;
	}
}

static uint32_t pick_key(struct rng *r, const struct hazards *h)
{
	uint32_t k = rng_below(r, 10);

	return k < 2 && !h->window_gone[k] ? KEY_WINDOW0 + k : KEY_REGION;
}

static void make_payload(struct plan *p, struct flow *f, struct sim_wr *wr)
{
	bool may_inline = is_write(wr->opcode) || plan_needs_recv(wr->opcode);

	wr->length = pick_len(&p->rng, p->cfg);
	if (may_inline && wr->length <= SIM_MAX_INLINE && rng_percent(&p->rng, 20)) {
		wr->flags |= IBV_SEND_INLINE;
		wr->inline_data = f->inline_pool + f->inline_used;
		f->inline_used += wr->length;
		return;
	}
	wr->num_sge = plan_split(&p->rng, wr->sge, p->cfg->qp.max_sge, wr->length,
				 rng_below(&p->rng, p->cfg->max_len + 1));
}

static void make_one_sided(struct plan *p, struct flow *f, struct sim_wr *wr, struct hazards *h)
{
	wr->remote_addr = rng_below(&p->rng, f->remote.len - wr->length + 1);
	wr->rkey = pick_key(&p->rng, h);
	/* The key of an access of length 0 is not checked: IBTA 9.7.4.1.5. */
	if (wr->length == 0 && rng_percent(&p->rng, 50)) {
		wr->rkey = KEY_INVALID;
		wr->remote_addr = rng_next(&p->rng);
	}
}

static void make_atomic(struct plan *p, struct flow *f, struct sim_wr *wr, struct hazards *h)
{
	bool counter = rng_percent(&p->rng, 60);

	wr->length = 8;
	wr->remote_addr = 8 * rng_below(&p->rng, counter ? PLAN_COUNTERS : f->remote.len / 8);
	wr->compare_add = counter ? rng_below(&p->rng, 4) : rng_next(&p->rng);
	wr->swap = counter ? rng_below(&p->rng, 4) : rng_next(&p->rng);
	wr->rkey = pick_key(&p->rng, h);
	if (wr->opcode == IBV_WR_ATOMIC_WRITE)
		return;
	wr->num_sge = 1;
	wr->sge[0] = (struct ibv_sge){ .addr = rng_below(&p->rng, f->local.len - 7), .length = 8 };
}

/* FLUSH of one range to global visibility. */
static void make_flush(struct plan *p, struct flow *f, struct sim_wr *wr, struct hazards *h)
{
	wr->length = 1 + rng_below(&p->rng, f->remote.len / 2);
	wr->compare_add = 1;
	wr->swap = 0;
	make_one_sided(p, f, wr, h);
}

/* A SEND with invalidate needs a window that is still valid; without one it becomes a SEND. */
static void choose_window(struct plan *p, struct sim_wr *wr, struct hazards *h)
{
	uint32_t k = rng_below(&p->rng, 2);

	if (h->window_gone[k]) {
		wr->opcode = IBV_WR_SEND;
		return;
	}
	wr->imm = KEY_WINDOW0 + k;
}

static void make_local_inv(struct sim_wr *wr, struct hazards *h)
{
	if (h->stale_used == 4)
		wr->opcode = IBV_WR_RDMA_WRITE;
	else
		wr->imm = KEY_STALE0 + h->stale_used++;
}

static void make_wr(struct plan *p, struct flow *f, uint32_t i, struct hazards *h)
{
	struct sim_wr *wr = &f->wr[i];

	wr->wr_id = i;
	wr->opcode = pick_opcode(&p->rng, p->cfg->kinds);
	if (wr->opcode == IBV_WR_SEND_WITH_INV)
		choose_window(p, wr, h);
	if (wr->opcode == IBV_WR_LOCAL_INV)
		make_local_inv(wr, h);
	else
		wr->imm = wr->opcode == IBV_WR_SEND_WITH_INV ? wr->imm : rng_next(&p->rng);
	if (is_atomic(wr->opcode) || wr->opcode == IBV_WR_ATOMIC_WRITE)
		make_atomic(p, f, wr, h);
	else if (wr->opcode == IBV_WR_FLUSH)
		make_flush(p, f, wr, h);
	else if (wr->opcode != IBV_WR_LOCAL_INV)
		make_payload(p, f, wr);
	if (is_write(wr->opcode) || wr->opcode == IBV_WR_RDMA_READ)
		make_one_sided(p, f, wr, h);
	if (plan_needs_recv(wr->opcode)) {
		f->messages++;
		wr->flags |= rng_percent(&p->rng, 30) ? IBV_SEND_SOLICITED : 0;
	}
	apply_hazards(h, wr, &p->rng);
	if (wr->opcode == IBV_WR_SEND_WITH_INV)
		h->window_gone[wr->imm - KEY_WINDOW0] = true;
}

/* Without signaled requests the queue would never become free again. */
static void choose_signaled(struct plan *p, struct flow *f)
{
	uint32_t every = max(p->cfg->qp.sq_depth / 2, 1u);

	for (uint32_t i = 0; i < f->n; i++)
		if (rng_percent(&p->rng, 60) || i % every == every - 1 || i + 1 == f->n)
			f->wr[i].flags |= IBV_SEND_SIGNALED;
}

void plan_make_wrs(struct plan *p, struct flow *f)
{
	uint32_t n = p->cfg->ops;
	struct hazards h = { 0 };

	f->local.len = 2 * p->cfg->max_len + 8 + PLAN_GAP * SIM_MAX_SGE;
	f->local.len = (f->local.len + 7) & ~7u;
	f->remote.len = (max(2 * p->cfg->max_len, 256u) + 7) & ~7u;
	f->n = n;
	f->wr = calloc(n, sizeof(*f->wr));
	f->inline_pool = malloc((size_t)n * SIM_MAX_INLINE);
	rng_fill(&p->rng, f->inline_pool, (size_t)n * SIM_MAX_INLINE);
	h.read = calloc(n, sizeof(*h.read));
	h.dst = calloc((size_t)n * SIM_MAX_SGE, sizeof(*h.dst));
	for (uint32_t i = 0; i < n; i++)
		make_wr(p, f, i, &h);
	choose_signaled(p, f);
	free(h.read);
	free(h.dst);
}

static uint32_t real_key(const struct flow *f, uint32_t k)
{
	switch (k) {
	case KEY_REGION: return f->remote.rkey;
	case KEY_WINDOW0:
	case KEY_WINDOW1: return f->window[k - KEY_WINDOW0];
	case KEY_INVALID:
		return 0xdeadbeef;
	default: return f->stale[k - KEY_STALE0];
	}
}

void plan_relocate(struct flow *f)
{
	for (uint32_t i = 0; i < f->n; i++) {
		struct sim_wr *wr = &f->wr[i];

		if (wr->rkey != KEY_INVALID)
			wr->remote_addr += f->remote.va;
		wr->rkey = real_key(f, wr->rkey);
		if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV)
			wr->imm = real_key(f, wr->imm);
		for (uint32_t s = 0; s < wr->num_sge; s++) {
			wr->sge[s].addr += f->local.va;
			wr->sge[s].lkey = f->local.lkey;
		}
	}
}
