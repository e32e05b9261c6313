/* SPDX-License-Identifier: BSD-2-Clause */
/* See fan.h. */
#include "fan.h"

#include <stdlib.h>

static void post_more(struct fan_leg *leg)
{
	const struct fan_config *cfg = leg->fan->cfg;

	while ((!cfg->messages || leg->posted < cfg->messages) &&
	       leg->posted - leg->requester->send_cqes.n < cfg->depth) {
		leg->wr.wr_id = leg->posted++;
		world_check(leg->fan->w, sim_post_send(leg->requester, &leg->wr),
			    "send queue is full");
	}
}

static void start_leg(struct world *w, void *arg)
{
	struct fan_leg *leg = arg;

	leg->began = w->now;
	post_more(leg);
	world_kick(w, leg->requester);
}

static void completed(struct world *w, struct sim_qp *qp)
{
	struct fan_leg *leg = qp->user;

	if (!leg || leg->requester != qp)
		return;
	for (uint32_t i = 0; i < qp->send_cqes.n; i++)
		world_check(w, qp->send_cqes.v[i].status == IBV_WC_SUCCESS, "message %u: %s", i,
			    trace_status(qp->send_cqes.v[i].status));
	leg->ended = w->now;
	post_more(leg);
}

static void connect_leg(struct fan *f, struct fan_leg *leg, struct sim_host *hub, uint32_t i)
{
	const uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_WRITE;
	const struct fan_config *cfg = f->cfg;
	struct sim_host *leaf =
		i && cfg->one_host ? f->leg[0].leaf->host : world_add_host(f->w, cfg->len);
	struct sim_key *leaf_mr = sim_reg_mr(leaf, 1, leaf->base, leaf->size, access);
	struct sim_key *hub_mr = sim_reg_mr(hub, 1, hub->base, hub->size, access);
	struct sim_qp *at_hub = sim_create_qp(hub, &cfg->qp);
	bool reads = cfg->opcode == IBV_WR_RDMA_READ;

	leg->fan = f;
	leg->leaf = sim_create_qp(leaf, &cfg->qp);
	leg->requester = reads ? at_hub : leg->leaf;
	leg->responder = reads ? leg->leaf : at_hub;
	leg->requester->user = leg;
	leg->wr = (struct sim_wr){
		.opcode = cfg->opcode,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = { { .addr = reads ? hub->base : leaf->base,
			   .length = cfg->len,
			   .lkey = reads ? hub_mr->lkey : leaf_mr->lkey } },
		.rkey = reads ? leaf_mr->rkey : hub_mr->rkey,
		.remote_addr = reads ? leaf->base : hub->base,
	};
	sim_connect(leg->leaf, 0x100 * i, at_hub, 0x800000 + 0x100 * i);
	world_at(f->w, f->w->now + i * cfg->start_interval, start_leg, leg);
}

struct fan *fan_new(const char *name, uint64_t seed, const struct fan_config *cfg)
{
	struct fan *f = calloc(1, sizeof(*f));
	struct sim_host *hub;

	f->cfg = cfg;
	f->w = world_new(name, seed, &cfg->net);
	f->w->progress = completed;
	f->w->answer_delay = cfg->answer_delay;
	hub = world_add_host(f->w, cfg->len);
	for (uint32_t i = 0; i < cfg->leaves; i++)
		connect_leg(f, &f->leg[i], hub, i);
	return f;
}

void fan_free(struct fan *f)
{
	world_free(f->w);
	free(f);
}

uint32_t fan_done(const struct fan *f, uint32_t leaf)
{
	return f->leg[leaf].requester->send_cqes.n;
}

struct roce_counters fan_counters(const struct fan *f)
{
	struct roce_counters sum = { 0 };

	for (uint32_t i = 0; i < f->cfg->leaves; i++) {
		const struct sim_qp *qps[] = { f->leg[i].requester, f->leg[i].responder };

		for (int k = 0; k < 2; k++) {
			const struct roce_counters *c = roce_qp_counters(&qps[k]->roce);

			sum.retransmitted_pkts += c->retransmitted_pkts;
			sum.completer_retry_err += c->completer_retry_err;
			sum.ecn_marked += c->ecn_marked;
			sum.cnp_sent += c->cnp_sent;
			sum.cnp_rcvd += c->cnp_rcvd;
		}
	}
	return sum;
}
