/* SPDX-License-Identifier: BSD-2-Clause */
/* See pair.h. */
#include "pair.h"

#include "util/compiler.h"

struct pair pair_new(const char *name, const struct net_config *net, const struct sim_qp_attr *a,
		     const struct sim_qp_attr *b)
{
	static const struct net_config plain = { .delay = 5000 };
	struct pair p = { .size = PAIR_MEM, .next_recv = 0x100 };

	p.w = world_new(name, 1, net ? net : &plain);
	for (int i = 0; i < 2; i++) {
		p.h[i] = world_add_host(p.w, PAIR_MEM);
		p.mr[i] = sim_reg_mr(p.h[i], 1, p.h[i]->base, PAIR_MEM,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
					     IBV_ACCESS_FLUSH_GLOBAL |
					     IBV_ACCESS_FLUSH_PERSISTENT);
	}
	p.a = sim_create_qp(p.h[0], a);
	p.b = sim_create_qp(p.h[1], b ? b : a);
	if (a->type != IBV_QPT_UD)
		sim_connect(p.a, PAIR_PSN, p.b, PAIR_PSN + 0x5000);
	return p;
}

static void count_packet(struct world *w, const struct net_packet *pkt, const struct roce_pkt *d)
{
	struct pair *p = w->user;

	if (pkt->src == 0)
		p->sent_a++;
	else
		p->sent_b++;
	if (pkt->src == 1 && d->bth.opcode % 32 == 17 && d->aeth.syndrome & 0x60) {
		p->naks++;
		p->last_syndrome = d->aeth.syndrome;
	}
}

void pair_watch(struct pair *p)
{
	p->w->user = p;
	p->w->tap = count_packet;
}

void pair_free(struct pair *p)
{
	world_free(p->w);
}

struct sim_wr pair_wr(struct pair *p, uint32_t opcode, uint32_t len)
{
	return (struct sim_wr){
		.opcode = opcode,
		.flags = IBV_SEND_SIGNALED,
		.length = len,
		.num_sge = opcode == IBV_WR_ATOMIC_WRITE || opcode == IBV_WR_FLUSH ? 0 : 1,
		.sge = { { .addr = p->h[0]->base, .length = len, .lkey = p->mr[0]->lkey } },
		.rkey = p->mr[1]->rkey,
		.remote_addr = p->h[1]->base + p->size / 2,
		.imm = 0x01020304,
	};
}

void pair_post(struct pair *p, struct sim_wr wr)
{
	wr.wr_id = p->next_wr++;
	world_check(p->w, sim_post_send(p->a, &wr), "send queue is full");
}

void pair_recv(struct pair *p, uint32_t len)
{
	uint64_t n = p->next_recv - 0x100;
	struct sim_rwr r = {
		.wr_id = p->next_recv++,
		.num_sge = 1,
		.sge = { { .addr = p->h[1]->base + p->size / 2 + n * 4096, .length = len,
			   .lkey = p->mr[1]->lkey } },
	};

	world_check(p->w, sim_post_recv(p->b, &r), "receive queue is full");
}

void pair_go(struct pair *p)
{
	world_kick(p->w, p->a);
	world_kick(p->w, p->b);
	world_run(p->w);
}

static void expect(struct pair *p, const char *side, const struct sim_cqes *c, uint32_t index,
		   uint64_t wr_id, enum ibv_wc_status status)
{
	world_check(p->w, index < c->n, "%s: only %u completions", side, c->n);
	world_check(p->w, c->v[index].wr_id == wr_id && c->v[index].status == status,
		    "%s completion %u: wr_id 0x%llx %s instead of 0x%llx %s", side, index,
		    (unsigned long long)c->v[index].wr_id, trace_status(c->v[index].status),
		    (unsigned long long)wr_id, trace_status(status));
}

void pair_expect_send(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status)
{
	expect(p, "send", &p->a->send_cqes, index, wr_id, status);
}

void pair_expect_recv(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status)
{
	expect(p, "receive", &p->b->recv_cqes, index, wr_id, status);
}

void pair_expect_counts(struct pair *p, uint32_t sends, uint32_t recvs)
{
	world_check(p->w, p->a->send_cqes.n == sends, "%u send completions instead of %u",
		    p->a->send_cqes.n, sends);
	world_check(p->w, p->b->recv_cqes.n == recvs, "%u receive completions instead of %u",
		    p->b->recv_cqes.n, recvs);
}

void pair_expect_event(struct pair *p, struct sim_qp *qp, enum ibv_event_type type, uint32_t count)
{
	for (uint32_t e = 0; e < ARRAY_SIZE(qp->events); e++) {
		uint32_t wanted = e == type ? count : 0;

		world_check(p->w, qp->events[e] == wanted,
			    "QP 0x%x: event %u was raised %u times, not %u", qp->wq.qpn, e,
			    qp->events[e], wanted);
	}
}
