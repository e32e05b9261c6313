/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layout, posting and configuration of random work. plan_wr.c creates the requests.
 */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "plan_wr.h"
#include "util/compiler.h"

/* --- configuration --- */

static struct net_config random_net(struct rng *r)
{
	static const uint32_t rates[] = { 0, 0, 2000, 10000, 30000 };	/* ppm */
	/* A little out of order; later than the retry it causes; much later. */
	static const uint32_t late[] = { 30000, 30000, 6000000, 30000000 };	/* ns */
	struct net_config c = {
		.delay = rng_range(r, 500, 20000),
		.jitter = rng_percent(r, 50) ? rng_below(r, 10000) : 0,
		.reorder_delay = late[rng_below(r, ARRAY_SIZE(late))],
	};

	if (rng_percent(r, 25))
		c.mbit_per_s = 1000 << rng_below(r, 5);
	if (rng_percent(r, 40)) /* no losses in 40 % of the runs */
		return c;
	c.loss_ppm = rates[rng_below(r, ARRAY_SIZE(rates))];
	c.dup_ppm = rates[rng_below(r, ARRAY_SIZE(rates))];
	c.reorder_ppm = rates[rng_below(r, ARRAY_SIZE(rates))];
	c.corrupt_ppm = rates[rng_below(r, ARRAY_SIZE(rates))];
	return c;
}

static struct sim_qp_attr random_qp(struct rng *r)
{
	struct sim_qp_attr a = sim_qp_defaults();

	a.mtu = 256 << rng_below(r, 5);
	a.sq_depth = rng_range(r, 2, 80);
	a.rq_depth = rng_range(r, 1, 80);
	a.max_sge = rng_range(r, 1, SIM_MAX_SGE);
	a.max_rd_atomic = rng_range(r, 1, 16);
	a.max_dest_rd_atomic = rng_range(r, a.max_rd_atomic, 16);
	a.timeout = rng_range(r, 7, 9);
	a.min_rnr_timer = rng_range(r, 1, 8);
	a.sig_all = rng_percent(r, 20);
	return a;
}

struct plan_config plan_random_config(uint64_t seed)
{
	struct rng r;
	struct plan_config c;

	rng_seed(&r, seed ^ 0x706c616e);
	c = (struct plan_config){
		.net = random_net(&r),
		.qp = random_qp(&r),
		.pairs = rng_percent(&r, 70) ? 1 : rng_range(&r, 2, 4),
		.both_ways = rng_percent(&r, 50),
		.srq = rng_percent(&r, 25),
		.late_receives = rng_percent(&r, 30),
		.ipv6 = rng_percent(&r, 25),
		.ops = rng_range(&r, 1, 40),
		.kinds = rng_percent(&r, 60) ? PLAN_ALL : 1 + rng_below(&r, PLAN_ALL),
		.wraps = rng_percent(&r, 30),
		.answer_delay = rng_percent(&r, 30) ? rng_range(&r, 1, 5000) : 0,
		.spread_ns = rng_below(&r, 100000),
	};
	c.max_len = rng_percent(&r, 85) ? 5 * c.qp.mtu + 1 : rng_range(&r, 1, 300000);
	if (c.max_len > 100000)
		c.ops = min(c.ops, 6u);
	if (c.srq)
		c.max_len = min(c.max_len, 5 * c.qp.mtu);
	c.merge = rng_percent(&r, 50) ? rng_range(&r, 1, 20000) : 0;
	return c;
}

/* --- layout --- */

static struct area carve(struct sim_host *h, uint64_t *used, uint32_t len, uint32_t access)
{
	struct area a = { .va = h->base + *used, .len = len };
	struct sim_key *k = sim_reg_mr(h, 1, a.va, len, access);

	a.lkey = k->lkey;
	a.rkey = k->rkey;
	*used += len;
	return a;
}

static uint32_t requester_host(const struct plan *p, uint32_t flow)
{
	return p->cfg->both_ways ? flow & 1 : 0;
}

static void relocate_recvs(struct sim_rwr *rwr, uint32_t n, const struct area *a)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < rwr[i].num_sge; s++) {
			rwr[i].sge[s].addr += a->va;
			rwr[i].sge[s].lkey = a->lkey;
		}
}

static void lay_out_flow(struct plan *p, uint32_t i, uint64_t used[2])
{
	struct flow *f = &p->flow[i];
	uint32_t from = requester_host(p, i), to = !from;
	struct sim_host *src = p->w->host[from], *dst = p->w->host[to];
	const uint32_t remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;

	f->local = carve(src, &used[from], f->local.len, IBV_ACCESS_LOCAL_WRITE);
	f->remote = carve(dst, &used[to], f->remote.len, remote);
	f->recv = carve(dst, &used[to], f->recv.len, IBV_ACCESS_LOCAL_WRITE);
	for (uint32_t k = 0; k < ARRAY_SIZE(f->window); k++)
		f->window[k] = sim_bind_window(dst, 1, f->remote.va, f->remote.len, remote,
					       k ? f->resp->wq.qpn : 0)->rkey;
	for (uint32_t k = 0; k < ARRAY_SIZE(f->stale); k++)
		f->stale[k] = sim_bind_window(src, 1, f->local.va, 8, remote, 0)->rkey;
	memset(sim_ptr(dst, f->remote.va), 0, PLAN_COUNTERS * 8);
	plan_relocate(f);
	relocate_recvs(f->rwr, f->nrecv, &f->recv);
}

static uint32_t round_up8(uint32_t n)
{
	return (n + 7) & ~7u;
}

/* A receive for a message of `len` bytes: as long or longer, with a random number of SGEs. */
static void make_recv(struct plan *p, struct sim_rwr *r, uint32_t len, uint32_t *used)
{
	uint32_t room = len + (rng_percent(&p->rng, 50) ? 0 : rng_below(&p->rng, 100));

	r->num_sge = plan_split(&p->rng, r->sge, p->cfg->qp.max_sge, room, *used);
	*used += round_up8(room + PLAN_GAP * SIM_MAX_SGE);
}

static void make_flow_recvs(struct plan *p, struct flow *f)
{
	uint32_t used = 0;

	f->rwr = calloc(f->n + 1, sizeof(*f->rwr));
	for (uint32_t i = 0; i < f->n && !p->cfg->srq; i++) {
		const struct sim_wr *wr = &f->wr[i];
		bool write = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

		if (!plan_needs_recv(wr->opcode))
			continue;
		f->rwr[f->nrecv].wr_id = 0x10000 + f->nrecv;
		make_recv(p, &f->rwr[f->nrecv++], write ? 0 : wr->length, &used);
	}
	f->recv.len = used;
}

static void make_srq_recvs(struct plan *p, struct srq_recvs *d, uint32_t messages, uint32_t longest)
{
	uint32_t used = 0;

	d->world = p->w;
	d->trickle = p->cfg->late_receives;
	d->rwr = calloc(messages + 1, sizeof(*d->rwr));
	for (d->n = 0; d->n < messages; d->n++) {
		d->rwr[d->n].wr_id = 0x20000 + d->n;
		make_recv(p, &d->rwr[d->n], longest, &used);
	}
	d->recv.len = used;
}

static void make_all_srq_recvs(struct plan *p)
{
	uint32_t messages[2] = { 0 }, longest[2] = { 0 };

	for (uint32_t i = 0; i < p->nflows; i++) {
		uint32_t to = !requester_host(p, i);

		messages[to] += p->flow[i].messages;
		for (uint32_t k = 0; k < p->flow[i].n; k++)
			longest[to] = max(longest[to], p->flow[i].wr[k].length);
	}
	for (uint32_t h = 0; h < 2; h++)
		make_srq_recvs(p, &p->srq_recvs[h], messages[h], longest[h]);
}

static void begin_late(struct wq_qp *wq)
{
	wq->sq.head = wq->sq.next = wq->sq.done = wq->sq.released = UINT32_MAX - 2;
	wq->rq.head = wq->rq.next = wq->rq.released = UINT32_MAX - 2;
}

static uint32_t initial_psn(struct plan *p)
{
	return p->cfg->wraps ? 0xffffff - rng_below(&p->rng, 40) :
			       rng_next(&p->rng) & 0xffffff;
}

static void make_pair(struct plan *p, uint32_t pair)
{
	uint32_t per = p->cfg->both_ways ? 2 : 1;
	struct sim_qp_attr attr = p->cfg->qp;
	struct sim_qp *qp[2];

	for (uint32_t h = 0; h < 2; h++) {
		attr.srq = p->srq_recvs[h].srq;
		qp[h] = sim_create_qp(p->w->host[h], &attr);
		qp[h]->user = p;
		if (p->cfg->wraps)
			begin_late(&qp[h]->wq);
	}
	for (uint32_t k = 0; k < per; k++) {
		struct flow *f = &p->flow[pair * per + k];

		f->req = qp[k];
		f->resp = qp[!k];
	}
	sim_connect(qp[0], initial_psn(p), qp[1], initial_psn(p));
}

/* Creates the hosts with the memory that flows and SRQs need. */
static void make_hosts(struct plan *p)
{
	uint64_t size[2] = { p->srq_recvs[0].recv.len, p->srq_recvs[1].recv.len };

	for (uint32_t i = 0; i < p->nflows; i++) {
		size[requester_host(p, i)] += p->flow[i].local.len;
		size[!requester_host(p, i)] += p->flow[i].remote.len + p->flow[i].recv.len;
	}
	for (uint32_t h = 0; h < 2; h++) {
		world_add_host(p->w, size[h]);
		if (p->cfg->srq)
			p->srq_recvs[h].srq = sim_create_srq(p->w->host[h], 0x500 + h, 0);
	}
}

static void on_progress(struct world *w, struct sim_qp *qp)
{
	struct plan *p = qp->user;

	for (uint32_t i = 0; i < p->nflows; i++)
		if (p->flow[i].req == qp || p->flow[i].resp == qp)
			plan_post(&p->flow[i]);
}

struct plan *plan_new(const char *name, uint64_t seed, const struct plan_config *cfg)
{
	struct plan *p = calloc(1, sizeof(*p));
	uint64_t used[2] = { 0 };

	p->cfg = cfg;
	p->w = world_new(name, seed, &cfg->net);
	p->w->ipv6 = cfg->ipv6;
	p->w->answer_delay = cfg->answer_delay;
	p->w->merge = cfg->merge;
	p->w->user = p;
	p->w->progress = on_progress;
	rng_seed(&p->rng, seed ^ 0x776f726b);
	p->nflows = cfg->pairs * (cfg->both_ways ? 2 : 1);
	p->flow = calloc(p->nflows, sizeof(*p->flow));
	for (uint32_t i = 0; i < p->nflows; i++) {
		p->flow[i].plan = p;
		plan_make_wrs(p, &p->flow[i]);
		make_flow_recvs(p, &p->flow[i]);
	}
	if (cfg->srq)
		make_all_srq_recvs(p);
	make_hosts(p);
	for (uint32_t i = 0; i < cfg->pairs; i++)
		make_pair(p, i);
	for (uint32_t i = 0; i < p->nflows; i++)
		lay_out_flow(p, i, used);
	for (uint32_t h = 0; h < 2 && cfg->srq; h++) {
		struct srq_recvs *d = &p->srq_recvs[h];

		d->recv = carve(p->w->host[h], &used[h], d->recv.len, IBV_ACCESS_LOCAL_WRITE);
		relocate_recvs(d->rwr, d->n, &d->recv);
	}
	return p;
}

/* --- posting --- */

static bool post_one_recv(struct flow *f)
{
	if (f->recv_posted == f->nrecv || !sim_post_recv(f->resp, &f->rwr[f->recv_posted]))
		return false;
	f->recv_posted++;
	return true;
}

void plan_post(struct flow *f)
{
	uint32_t room = f->burst;
	bool receives = false;

	while (!f->trickle && post_one_recv(f))
		receives = true;
	if (receives)
		world_kick(f->plan->w, f->resp);
	while (room-- && f->posted < f->n && sim_post_send(f->req, &f->wr[f->posted]))
		f->posted++;
	world_kick(f->plan->w, f->req);
}

/* Repeats until all requests are posted: f->burst limits each call of plan_post(). */
static void send_tick(struct world *w, void *arg)
{
	struct flow *f = arg;

	plan_post(f);
	if (f->posted < f->n)
		world_at(w, w->now + rng_range(&f->plan->rng, 1000, 60000), send_tick, f);
}

static void recv_tick(struct world *w, void *arg)
{
	struct flow *f = arg;
	uint32_t n = rng_range(&f->plan->rng, 1, 4);

	while (n-- && post_one_recv(f))
		;
	world_kick(w, f->resp);
	if (f->recv_posted < f->nrecv && f->req->wq.state != IBV_QPS_ERR)
		world_at(w, w->now + rng_range(&f->plan->rng, 1000, 300000), recv_tick, f);
}

static void srq_recv_tick(struct world *w, void *arg)
{
	struct srq_recvs *d = arg;
	uint32_t n = d->trickle ? rng_range(&w->rng, 1, 4) : d->n;

	while (n-- && d->posted < d->n)
		sim_post_srq_recv(w, d->srq, &d->rwr[d->posted++]);
	if (d->posted < d->n)
		world_at(w, w->now + rng_range(&w->rng, 1000, 300000), srq_recv_tick, d);
}

void plan_start(struct plan *p)
{
	for (uint32_t h = 0; h < 2; h++)
		if (p->srq_recvs[h].n)
			world_at(p->w, 0, srq_recv_tick, &p->srq_recvs[h]);
	for (uint32_t i = 0; i < p->nflows; i++) {
		struct flow *f = &p->flow[i];
		uint64_t start = p->w->now + rng_below(&p->rng, p->cfg->spread_ns + 1);

		f->trickle = p->cfg->late_receives;
		f->burst = rng_percent(&p->rng, 50) ? 1000 : rng_range(&p->rng, 1, 8);
		if (f->trickle)
			world_at(p->w, start, recv_tick, f);
		world_at(p->w, start, send_tick, f);
	}
}

void plan_free(struct plan *p)
{
	for (uint32_t i = 0; i < p->nflows; i++) {
		free(p->flow[i].wr);
		free(p->flow[i].rwr);
		free(p->flow[i].inline_pool);
	}
	for (uint32_t h = 0; h < 2; h++)
		free(p->srq_recvs[h].rwr);
	world_free(p->w);
	free(p->flow);
	free(p);
}

struct roce_counters plan_counters(const struct plan *p)
{
	struct roce_counters sum = { 0 };
	uint64_t *s = (uint64_t *)&sum;

	for (uint32_t h = 0; h < p->w->nhosts; h++)
		for (uint32_t i = 0; i < p->w->host[h]->nqps; i++) {
			const uint64_t *c = (const uint64_t *)roce_qp_counters(
				&p->w->host[h]->qp[i]->roce);

			for (uint32_t k = 0; k < sizeof(sum) / sizeof(*s); k++)
				s[k] += c[k];
		}
	return sum;
}
