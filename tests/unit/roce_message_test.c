/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs as messages against an oracle: the engine itself, which sends the same requests as packets.
 * Both worlds get the same posts, receives and errors; where requests may be messages each is one
 * or a packet at random. Completions, memory, PSNs and counters come out the same.
 */
#include "roce_env.h"

#include <stdlib.h>
#include <string.h>

#include "roce/message.h"
#include "random.h"

enum {
	WORLDS = 300,
	STEPS = 60,
	ROUNDS = 200,
	RECV = 600,		/* bytes of each receive */
	RECEIVED = 65536,	/* receives lie behind this */
	READ_FROM = 40000,
	READ_TO = 4000,
};

/* Two connected ends; how the first sends. */
struct world {
	struct roce_env *a, *b;
	bool messages;
	unsigned int sent;	/* as messages */
};

static struct world start(bool messages)
{
	struct roce_env *p = calloc(2, sizeof(*p));

	for (int i = 0; i < 2; i++)
		env_init(&p[i], IBV_QPT_RC);
	env_connect(&p[0], &p[1]);
	for (int i = 0; i < 2; i++) {
		p[i].wq.pkey = ROCE_PKEY_DEFAULT;
		memset(p[1].mem, 0, ENV_MEM);
		env_rts(&p[i]);
	}
	for (uint32_t i = 0; i < RECV + 1; i++)
		p[1].mem[READ_FROM + i] = i;
	return (struct world){ .a = &p[0], .b = &p[1], .messages = messages };
}

static void end(struct world *w)
{
	free(w->a);
}

/* The next request of `a` as a message, received as the packet that it stands for. */
static bool carry_message(struct world *w)
{
	struct roce_piggyback_ack ack;
	uint8_t buf[ROCE_MAX_MTU];
	struct message m;
	struct roce_pkt pkt;

	if (!roce_message_output(&w->a->qp, &m, buf, &ack, w->a->now))
		return false;
	assert_int_equal(m.qpn, w->b->wq.qpn);
	roce_message_packet(&m, &pkt);
	pkt.path = w->b->wq.path;
	pkt.path.src = w->b->wq.path.dst;
	pkt.path.dst = w->b->wq.path.src;
	pkt.ack = ack.any ? &ack : NULL;
	w->sent++;
	w->b->now = w->a->now;
	env_input(w->b, &pkt);
	return true;
}

static bool waits(const struct world *w)
{
	return w->a->wq.state == IBV_QPS_RTS && w->a->wq.sq.done != w->a->wq.sq.head &&
	       w->a->qp.retry.rnr_deadline == VRB_NEVER;
}

/* Until all is done or waits for a receive. Only so much leaves at a time. */
static void run(struct world *w)
{
	for (int round = 0; round == 0 || (waits(w) && round < ROUNDS); round++) {
		w->b->now = w->a->now = w->a->now + 4 * VRB_USEC;
		roce_timeout(&w->a->qp, w->a->now);
		roce_timeout(&w->b->qp, w->b->now);
		while (w->messages && random_below(3) && carry_message(w))
			;
		env_pump(w->a, w->b);
	}
}

static void want_same(const struct roce_env *x, const struct roce_env *y)
{
	assert_int_equal(x->wq.state, y->wq.state);
	assert_int_equal(x->num_cqes, y->num_cqes);
	for (uint32_t i = 0; i < x->num_cqes; i++)
		assert_memory_equal(&x->cqes[i], &y->cqes[i], sizeof(x->cqes[i]));
	assert_int_equal(x->num_events, y->num_events);
	assert_memory_equal(x->mem + RECEIVED, y->mem + RECEIVED, ENV_MEM - RECEIVED);
	/* A QP that dies may lose answers that were under way. */
	if (x->wq.state == IBV_QPS_RTS) {
		assert_memory_equal(x->mem, y->mem, RECEIVED);
		assert_int_equal(x->qp.req.psn, y->qp.req.psn);
		assert_int_equal(x->qp.req.ssn, y->qp.req.ssn);
		assert_int_equal(x->qp.comp.una, y->qp.comp.una);
	}
	assert_int_equal(x->qp.resp.epsn, y->qp.resp.epsn);
	assert_int_equal(x->qp.resp.msn, y->qp.resp.msn);
	assert_int_equal(x->qp.counters.rdma_sends, y->qp.counters.rdma_sends);
	assert_int_equal(x->qp.counters.rdma_recvs, y->qp.counters.rdma_recvs);
	assert_int_equal(x->invalidated, y->invalidated);
}

struct request {
	uint32_t opcode, flags, len, imm, lkey;
};

static struct request any_request(void)
{
	static const uint32_t opcodes[] = { IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
					    IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE,
					    IBV_WR_RDMA_READ };
	struct request r = { .opcode = opcodes[random_below(ARRAY_SIZE(opcodes))],
			     .len = random_below(3) ? random_below(257) : random_below(RECV),
			     .imm = random_u64(), .lkey = ENV_KEY };

	r.flags = random_below(2) ? WQE_SIGNALED : 0;
	r.flags |= random_below(4) ? 0 : IBV_SEND_SOLICITED;
	r.flags |= random_below(4) ? 0 : IBV_SEND_FENCE;
	if (random_below(200) == 0)
		r.lkey = 0;	/* a key that nobody has */
	if (random_below(200) == 0)
		r.len = RECV + 1;	/* and a receive too short */
	return r;
}

static void post(struct world *w, const struct request *r)
{
	struct send_wqe *s;

	if (w->a->wq.state != IBV_QPS_RTS || w->a->wq.sq.head - w->a->wq.sq.done >= ENV_DEPTH / 2 ||
	    w->a->num_cqes + ENV_DEPTH >= ENV_MAX_CQES)
		return;
	/* Memory that nothing else reads or writes: an answer is built, and comes, at any time. */
	s = env_post(w->a, r->opcode, r->opcode == IBV_WR_RDMA_READ ? READ_TO : 1000, r->len);
	if (r->opcode == IBV_WR_RDMA_READ)
		s->remote_addr = ENV_VA + READ_FROM;
	s->flags = r->flags;
	s->imm = r->imm;
	for (uint32_t i = 0; i < s->num_sge; i++)
		s->sge[i].lkey = r->lkey;
}

/* What waits for a receive: the peer's RNR timer runs off. */
static void wait_for_receives(struct world *w)
{
	if (w->a->qp.retry.rnr_deadline != VRB_NEVER)
		env_expire(w->a);
}

static void receive(struct world *w, uint32_t offset)
{
	if (w->b->wq.rq.head - w->b->wq.rq.next < ENV_DEPTH / 2)
		env_post_recv(w->b, offset, RECV);
}

static uint32_t any_place(void)
{
	return RECEIVED + 1024 * random_below(64);
}

static void step(struct world *packets, struct world *mixed)
{
	struct request r = any_request();
	uint64_t choice = random_below(5);
	uint32_t to = any_place();

	if (choice < 3) {
		post(packets, &r);
		post(mixed, &r);
		receive(packets, to);
		receive(mixed, to);
	} else if (choice == 3) {
		post(packets, &r);
		post(mixed, &r);
	} else {
		run(packets);
		run(mixed);
		wait_for_receives(packets);
		wait_for_receives(mixed);
	}
}

static unsigned int compare(void)
{
	struct world packets = start(false), mixed = start(true);
	unsigned int sent;

	for (int i = 0; i < STEPS; i++)
		step(&packets, &mixed);
	for (int i = 0; i < ENV_DEPTH; i++) {
		uint32_t to = any_place();

		receive(&packets, to);
		receive(&mixed, to);
		run(&packets);
		run(&mixed);
		wait_for_receives(&packets);
		wait_for_receives(&mixed);
	}
	want_same(packets.a, mixed.a);
	want_same(packets.b, mixed.b);
	sent = mixed.sent;
	end(&packets);
	end(&mixed);
	return sent;
}

static void messages_do_what_packets_do(void **state)
{
	unsigned int sent = 0;

	for (int i = 0; i < WORLDS; i++)
		sent += compare();
	assert_true(sent > WORLDS);
}

static void only_plain_requests_are_messages(void **state)
{
	static const struct {
		uint32_t opcode, len;
		bool message;
	} rows[] = {
		{ IBV_WR_SEND, 0, true },
		{ IBV_WR_SEND, 256, true },
		{ IBV_WR_SEND, 257, false },
		{ IBV_WR_SEND_WITH_IMM, 8, true },
		{ IBV_WR_SEND_WITH_INV, 8, true },
		{ IBV_WR_RDMA_WRITE, 8, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 8, false },
		{ IBV_WR_RDMA_READ, 8, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world w = start(true);

		env_post(w.a, rows[i].opcode, 0, rows[i].len);
		assert_int_equal(carry_message(&w), rows[i].message);
		end(&w);
	}
}

/* What the QP, its peer or its path makes unusual goes as a packet. */
static void what_is_unusual_is_declined(void **state)
{
	struct world w = start(true);

	env_post(w.a, IBV_WR_SEND, 0, 8);
	w.a->wq.pkey = 0x7fff;
	assert_false(carry_message(&w));
	w.a->wq.pkey = ROCE_PKEY_DEFAULT;
	w.a->wq.mig_state = IBV_MIG_ARMED;
	assert_false(carry_message(&w));
	w.a->wq.mig_state = IBV_MIG_MIGRATED;
	w.a->wq.rate_kbps = 1000;
	assert_false(carry_message(&w));
	w.a->wq.rate_kbps = 0;
	/* No receive: RNR, and the request, which was used, goes again as a packet. */
	assert_true(carry_message(&w));
	env_pump(w.a, w.b);
	assert_int_equal(w.a->qp.counters.rcvd_rnr_err, 1);
	assert_false(carry_message(&w));
	env_expire(w.a);
	assert_false(carry_message(&w));
	env_post_recv(w.b, 0, 8);
	env_pump(w.a, w.b);
	env_expect_cqe(w.a, 0, 0, IBV_WC_SUCCESS);
	env_post_recv(w.b, 0, 8);
	env_post(w.a, IBV_WR_SEND, 0, 8);
	assert_true(carry_message(&w));
	end(&w);
}

/* Probes and the window go by it. */
static void messages_time_round_trips(void **state)
{
	struct world w = start(true);
	uint64_t sent;

	env_post_recv(w.b, 0, 8);
	env_post(w.a, IBV_WR_SEND, 0, 8);
	sent = w.a->now;
	assert_true(carry_message(&w));
	w.b->now = w.a->now = sent + 5 * VRB_MSEC;
	env_pump(w.a, w.b);
	env_expect_cqe(w.a, 0, 0, IBV_WC_SUCCESS);
	assert_int_equal(w.a->qp.cc.rtt, 5 * VRB_MSEC);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_do_what_packets_do),
		cmocka_unit_test(only_plain_requests_are_messages),
		cmocka_unit_test(what_is_unusual_is_declined),
		cmocka_unit_test(messages_time_round_trips),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
