/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs and WRITEs with immediate as local messages, against an oracle: the engine itself, which
 * sends the same requests as packets. Both environments get the same posts, receives and errors.
 * Requests that may be messages are randomly sent as messages or packets, executed as messages or
 * as the packets they replace, and acknowledged by packets or by published progress. Completions,
 * memory, PSNs and counters must be equal; but not PSNs where messages are longer than the MTU,
 * which have one each. Such a message that was declined is repeated for the receiver to fetch, and
 * as packets if that fails.
 */
#include "roce_env.h"

#include <stdlib.h>
#include <string.h>

#include "roce/message.h"
#include "roce/psn.h"
#include "random.h"

enum {
	WORLDS = 300,
	STEPS = 60,
	ROUNDS = 200,
	RECV = 600,		/* bytes of each receive */
	WHOLE_MAX = 512,	/* of a message; the MTU is 256 */
	RECEIVED = 65536,	/* offset of the receives */
	READ_FROM = 40000,
	READ_TO = 4000,
};

/* Two connected ends, and how the first one sends. */
struct world {
	struct roce_env *a, *b;
	bool messages;
	unsigned int sent;	/* as messages */
	unsigned int whole;	/* of them, longer than the MTU */
	unsigned int executed;	/* as messages */
	unsigned int published;	/* ACKs */
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

static bool input(struct world *w, const struct message *m, struct roce_piggyback_ack *word)
{
	if (!roce_message_input(&w->b->qp, m, word))
		return false;
	roce_message_complete(&w->b->qp, m, word->any);
	return true;
}

static void execute(struct world *w, const struct message *m, struct roce_pkt *pkt)
{
	struct roce_piggyback_ack word = { .allowed = random_below(4) };

	if (random_below(3)) {
		if (pkt->ack)
			roce_ack_input(&w->b->qp, pkt->ack, w->b->now);
		pkt->ack = NULL;
		if (roce_message_input(&w->b->qp, m, &word)) {
			w->executed++;
			if (word.any)
				roce_ack_input(&w->a->qp, &word, w->a->now);
			roce_message_complete(&w->b->qp, m, false);
			w->published += word.any;
			return;
		}
	}
	env_input(w->b, pkt);
}

/* The next request of `a` as a message. */
static bool carry_message(struct world *w)
{
	struct roce_piggyback_ack ack;
	uint8_t buf[WHOLE_MAX];
	struct message m;
	struct roce_pkt pkt;

	if (!roce_is_plain(&w->a->qp) || !roce_message_output(&w->a->qp, &m, buf, &ack))
		return false;
	assert_int_equal(m.qpn, w->b->wq.qpn);
	roce_message_packet(&m, &pkt);
	pkt.path = w->b->wq.path;
	pkt.path.src = w->b->wq.path.dst;
	pkt.path.dst = w->b->wq.path.src;
	pkt.ack = ack.any ? &ack : NULL;
	w->sent++;
	w->whole += m.flags & MESSAGE_WHOLE ? 1 : 0;
	w->b->now = w->a->now;
	execute(w, &m, &pkt);
	return true;
}

static bool waits(const struct world *w)
{
	return w->a->wq.state == IBV_QPS_RTS && w->a->wq.sq.done != w->a->wq.sq.head &&
	       w->a->qp.retry.rnr_deadline == VRB_NEVER;
}

/*
 * Runs until all requests are complete or wait for a receive. Only a limited number is sent at a
 * time.
 */
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

/* y: the environment that sends messages. */
static void expect_same(const struct roce_env *x, const struct roce_env *y, bool whole)
{
	assert_int_equal(x->wq.state, y->wq.state);
	assert_int_equal(x->num_cqes, y->num_cqes);
	for (uint32_t i = 0; i < x->num_cqes; i++)
		assert_memory_equal(&x->cqes[i], &y->cqes[i], sizeof(x->cqes[i]));
	assert_int_equal(x->num_events, y->num_events);
	assert_memory_equal(x->mem + RECEIVED, y->mem + RECEIVED, ENV_MEM - RECEIVED);
	/* a QP that fails may lose responses in flight */
	if (x->wq.state == IBV_QPS_RTS) {
		assert_memory_equal(x->mem, y->mem, RECEIVED);
		assert_int_equal(x->qp.req.ssn, y->qp.req.ssn);
	}
	if (x->wq.state == IBV_QPS_RTS && !whole) {
		assert_int_equal(x->qp.req.psn, y->qp.req.psn);
		assert_int_equal(x->qp.comp.una, y->qp.comp.una);
	}
	if (!whole)
		assert_int_equal(x->qp.resp.epsn, y->qp.resp.epsn);
	assert_int_equal(x->qp.resp.msn, y->qp.resp.msn);
	assert_int_equal(x->qp.counters.rdma_sends, y->qp.counters.rdma_sends);
	assert_int_equal(x->qp.counters.rdma_recvs, y->qp.counters.rdma_recvs);
	assert_int_equal(x->invalidated, y->invalidated);
}

struct request {
	uint32_t opcode, flags, len, imm, lkey, rkey;
};

/*
 * whole: long ones may be messages. Then each rkey is valid: a WRITE with immediate that fails with
 * its FIRST packet takes no receive, but as one packet it does.
 */
static struct request any_request(bool whole)
{
	static const uint32_t opcodes[] = { IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
					    IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE,
					    IBV_WR_RDMA_WRITE_WITH_IMM,
					    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ };
	struct request r = { .opcode = opcodes[random_below(ARRAY_SIZE(opcodes))],
			     .len = random_below(whole ? 2 : 3) ? random_below(257)
								: random_below(RECV),
			     .imm = random_u64(), .lkey = ENV_KEY, .rkey = ENV_KEY };

	r.flags = random_below(2) ? WQE_SIGNALED : 0;
	r.flags |= random_below(4) ? 0 : IBV_SEND_SOLICITED;
	r.flags |= random_below(4) ? 0 : IBV_SEND_FENCE;
	if (random_below(200) == 0)
		r.lkey = 0;	/* an invalid key */
	if (random_below(200) == 0 && !whole)
		r.rkey = 0;
	if (random_below(200) == 0)
		r.len = RECV + 1;	/* or a receive that is too short */
	return r;
}

static void post(struct world *w, const struct request *r)
{
	struct send_wqe *s;

	if (w->a->wq.state != IBV_QPS_RTS || w->a->wq.sq.head - w->a->wq.sq.done >= ENV_DEPTH / 2 ||
	    w->a->num_cqes + ENV_DEPTH >= ENV_MAX_CQES)
		return;
	/* Memory that nothing else accesses: a response may be built and arrive at any time. */
	s = env_post(w->a, r->opcode, r->opcode == IBV_WR_RDMA_READ ? READ_TO : 1000, r->len);
	if (r->opcode == IBV_WR_RDMA_READ)
		s->remote_addr = ENV_VA + READ_FROM;
	s->flags = r->flags;
	s->imm = r->imm;
	s->rkey = r->rkey;
	for (uint32_t i = 0; i < s->num_sge; i++)
		s->sge[i].lkey = r->lkey;
}

/* For requests that wait for a receive: expires the peer's RNR timer. */
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

static uint32_t any_offset(void)
{
	return RECEIVED + 1024 * random_below(64);
}

static void step(struct world *packets, struct world *mixed)
{
	struct request r = any_request(mixed->a->wq.whole_max > 0);
	uint64_t choice = random_below(5);
	uint32_t to = any_offset();

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

static bool at_times(void)
{
	return random_below(3) == 0;
}

static void compare(struct world *total, bool whole)
{
	struct world packets = start(false), mixed = start(true);

	mixed.a->wq.whole_max = whole ? WHOLE_MAX : 0;
	mixed.b->refuses_pull = at_times;
	for (int i = 0; i < STEPS; i++)
		step(&packets, &mixed);
	for (int i = 0; i < ENV_DEPTH; i++) {
		uint32_t to = any_offset();

		receive(&packets, to);
		receive(&mixed, to);
		run(&packets);
		run(&mixed);
		wait_for_receives(&packets);
		wait_for_receives(&mixed);
	}
	expect_same(packets.a, mixed.a, whole);
	expect_same(packets.b, mixed.b, whole);
	total->sent += mixed.sent;
	total->whole += mixed.whole;
	total->executed += mixed.executed;
	total->published += mixed.published;
	end(&packets);
	end(&mixed);
}

static void messages_do_what_packets_do(void **state)
{
	struct world total = { 0 };

	for (int i = 0; i < WORLDS; i++)
		compare(&total, i % 2);
	assert_true(total.whole > WORLDS / 8);
	assert_true(total.sent > WORLDS);
	assert_true(total.executed > WORLDS && total.executed < total.sent);
	assert_true(total.published > WORLDS && total.published < total.sent);
}

static void only_plain_requests_are_messages(void **state)
{
	static const struct {
		uint32_t opcode, len, whole_max, flags;
		bool message;
	} rows[] = {
		{ IBV_WR_SEND, 0, 0, 0, true },
		{ IBV_WR_SEND, 256, 0, 0, true },
		{ IBV_WR_SEND, 257, 0, 0, false },
		{ IBV_WR_SEND, 257, WHOLE_MAX, 0, true },
		{ IBV_WR_SEND, WHOLE_MAX, WHOLE_MAX, 0, true },
		{ IBV_WR_SEND, WHOLE_MAX + 1, WHOLE_MAX, 0, false },
		{ IBV_WR_SEND, 257, WHOLE_MAX, WQE_DATA_INLINE, false },
		{ IBV_WR_SEND, 257, WHOLE_MAX, WQE_BY_PACKET, false },
		{ IBV_WR_SEND_WITH_IMM, 8, 0, 0, true },
		{ IBV_WR_SEND_WITH_INV, 8, 0, 0, true },
		{ IBV_WR_SEND_WITH_INV, 257, WHOLE_MAX, 0, true },
		{ IBV_WR_RDMA_WRITE, 8, WHOLE_MAX, 0, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 256, 0, 0, true },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 257, 0, 0, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 257, WHOLE_MAX, 0, true },
		{ IBV_WR_RDMA_READ, 8, WHOLE_MAX, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world w = start(true);

		w.a->wq.whole_max = rows[i].whole_max;
		env_post(w.a, rows[i].opcode, 0, rows[i].len)->flags |= rows[i].flags;
		assert_int_equal(carry_message(&w), rows[i].message);
		end(&w);
	}
}

/* Requests made unusual by the QP, its peer or its path are sent as packets. */
static void unusual_requests_are_declined(void **state)
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
	/* No receive: RNR, and the request, which is already a message, is resent as a packet. */
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

/* A message does not overtake answers or what holds packets up; and errors are told by packets. */
static void a_message_overtakes_nothing(void **state)
{
	enum { NOTHING, RESPONSE, NAK, CNP, FENCE, CREDITS, PACE, ERROR, CASES };

	for (int i = 0; i < CASES; i++) {
		struct world w = start(true);
		struct roce_qp *qp = &w.a->qp;
		struct send_wqe *s;

		if (i == RESPONSE)
			env_request(w.a, ROCE_RC_READ_REQUEST, ENV_PSN, 0);
		if (i == NAK)
			env_request(w.a, ROCE_RC_SEND_ONLY, ENV_PSN + 1, 8);
		qp->resp.cnp_pending = i == CNP;
		if (i == FENCE || i == CREDITS) {
			env_post(w.a, IBV_WR_RDMA_READ, READ_TO, 8);
			assert_true(env_output(w.a));
		}
		qp->comp.lsn_known = i == CREDITS;
		if (i == PACE) {
			qp->cc.window = 1;
			qp->cc.rtt = 1000 * VRB_MSEC;
		}
		s = env_post(w.a, IBV_WR_SEND, 0, 8);
		s->flags |= i == FENCE ? IBV_SEND_FENCE : 0;
		s->error = i == ERROR ? REASON_WR_OPCODE : REASON_NONE;
		env_post_recv(w.b, RECEIVED, RECV);
		w.b->qp.resp.epsn = qp->req.psn;
		if (carry_message(&w) != (i == NOTHING))
			fail_msg("case %d", i);
		end(&w);
	}
}

/* What the receiver leaves to packets. */
static void what_the_receiver_declines(void **state)
{
	enum {
		NOTHING, LATER, EARLIER, INVALIDATE, PKEY, PATH, RIGHT, KEY, NO_KEY_NEEDED, FAILED,
		NEW, ESTABLISHED, LONG, WHOLE, REFUSED, WITHIN, TOO_LONG, SKIPPED, CASES,
	};

	for (int i = 0; i < CASES; i++) {
		bool taken = i == NOTHING || i == NO_KEY_NEEDED || i == ESTABLISHED || i == WHOLE;
		struct world w = start(true);
		struct roce_piggyback_ack ack;
		static uint8_t buf[2 * RECV];
		struct message m;

		env_post_recv(w.b, RECEIVED, RECV);
		env_post(w.a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8);
		assert_true(roce_message_output(&w.a->qp, &m, buf, &ack));
		m.psn = psn_add(m.psn, i == LATER ? 1 : i == EARLIER ? -1 : 0);
		if (i == INVALIDATE)
			m.op = MESSAGE_SEND_INV;
		if (i == PKEY)
			w.b->wq.pkey = 0x7fff;
		if (i == PATH)
			w.b->wq.mig_state = IBV_MIG_ARMED;
		if (i == RIGHT)
			w.b->wq.access &= ~IBV_ACCESS_REMOTE_WRITE;
		if (i == KEY || i == NO_KEY_NEEDED)
			m.rkey = 0;
		if (i == NO_KEY_NEEDED)
			m.len = 0;
		if (i == FAILED)
			w.b->wq.state = IBV_QPS_ERR;
		if (i == NEW || i == ESTABLISHED)
			w.b->wq.state = IBV_QPS_RTR;
		w.b->qp.resp.established = i != NEW;
		if (i == LONG || i == WHOLE || i == REFUSED)
			m.len = WHOLE_MAX;
		if (i == WHOLE || i == REFUSED || i == TOO_LONG)
			m.flags |= MESSAGE_WHOLE;
		w.b->qp.resp.pull_refused = i == REFUSED;
		if (i == WITHIN) {
			struct roce_pkt pkt = env_pkt(w.b, ROCE_RC_WRITE_FIRST, ENV_PSN,
						      w.b->wq.mtu);

			pkt.reth.len = 2 * w.b->wq.mtu;
			env_input(w.b, &pkt);
			m.psn = w.b->qp.resp.epsn;
		}
		if (i == TOO_LONG || i == SKIPPED)
			m.op = MESSAGE_SEND;
		if (i == TOO_LONG)
			m.len = RECV + 1;
		if (i == SKIPPED)
			rq_wqe(&w.b->wq.rq, 0)->skip = 1;
		if (roce_message_input(&w.b->qp, &m, &ack) != taken || w.b->wq.rq.next != taken)
			fail_msg("case %d", i);
		end(&w);
	}
}

/*
 * A long message is declined for want of a receive; the receiver cannot fetch it either, and gets
 * packets, which have one PSN for each MTU.
 */
static bool always(void)
{
	return true;
}

static void a_long_message_is_repeated_as_packets(void **state)
{
	struct world w = start(true);

	w.a->wq.whole_max = WHOLE_MAX;
	w.b->refuses_pull = always;
	for (uint32_t i = 0; i < 2; i++) {
		env_post(w.a, IBV_WR_SEND, 0, WHOLE_MAX);
		assert_true(carry_message(&w));
	}
	assert_int_equal(w.a->qp.req.psn, psn_add(ENV_PSN, 2));
	env_pump(w.a, w.b);
	assert_int_equal(w.a->qp.counters.rcvd_rnr_err, 1);
	for (uint32_t i = 0; i < 2; i++)
		env_post_recv(w.b, RECEIVED + i * WHOLE_MAX, WHOLE_MAX);
	env_expire(w.a);
	env_pump(w.a, w.b);
	for (uint32_t i = 0; i < 2; i++) {
		env_expect_cqe(w.a, i, i, IBV_WC_SUCCESS);
		assert_memory_equal(w.a->mem, w.b->mem + RECEIVED + i * WHOLE_MAX, WHOLE_MAX);
	}
	assert_int_equal(w.a->qp.req.psn, psn_add(ENV_PSN, 4));
	assert_int_equal(w.a->qp.comp.una, w.a->qp.req.psn);
	end(&w);
}

/*
 * Sent again as packets, it is no message any more: an ACK of as many PSNs as it has, and of a
 * message behind it, completes these two.
 */
static void an_ack_counts_the_packets_of_a_repeated_message(void **state)
{
	struct world w = start(true);
	struct roce_piggyback_ack word = { .allowed = true }, beside;
	uint8_t buf[WHOLE_MAX];
	struct message m;

	w.a->wq.whole_max = WHOLE_MAX;
	w.b->refuses_pull = always;
	env_post(w.a, IBV_WR_SEND, 0, WHOLE_MAX);
	assert_true(carry_message(&w));
	env_pump(w.a, w.b);
	assert_int_equal(w.a->qp.counters.rcvd_rnr_err, 1);
	for (uint32_t i = 0; i < 2; i++)
		env_post_recv(w.b, RECEIVED + i * WHOLE_MAX, WHOLE_MAX);
	env_expire(w.a);
	assert_true(env_carry(w.a, w.b));	/* whose payload cannot be fetched */
	assert_true(env_carry(w.b, w.a));
	assert_int_equal(w.a->qp.counters.rcvd_seq_err, 1);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(env_carry(w.a, w.b));
	for (uint32_t i = 0; i < 3; i++)
		env_post(w.a, IBV_WR_SEND, 0, 8);
	assert_true(roce_message_output(&w.a->qp, &m, buf, &beside));
	assert_int_equal(m.psn, psn_add(ENV_PSN, 2));
	assert_true(input(&w, &m, &word) && word.any);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(roce_message_output(&w.a->qp, &m, buf, &beside));
	w.a->qp.cc.timing = false;	/* else the ACK is no shortcut anyway */
	roce_ack_input(&w.a->qp, &word, w.a->now);
	assert_int_equal(w.a->num_cqes, 2);
	assert_int_equal(w.a->qp.comp.una, psn_add(ENV_PSN, 3));
	end(&w);
}

/* A READ returns what the memory held before later requests were executed. */
static void a_message_waits_for_the_response_to_a_read(void **state)
{
	struct world w = start(true);
	struct roce_pkt read = env_pkt(w.b, ROCE_RC_READ_REQUEST, w.b->qp.resp.epsn, 0);
	struct roce_piggyback_ack ack = { .allowed = true };
	uint8_t byte = 0;
	struct message m = { .op = MESSAGE_WRITE_IMM, .qpn = w.b->wq.qpn, .len = 1,
			     .payload = &byte, .va = ENV_VA, .rkey = ENV_KEY };

	read.reth.len = 8;
	env_input(w.b, &read);
	env_post_recv(w.b, 0, 8);
	m.psn = w.b->qp.resp.epsn;
	assert_false(input(&w, &m, &ack));
	assert_int_equal(env_drain(w.b), 1);
	assert_true(input(&w, &m, &ack));
	end(&w);
}

/* An ACK that is published and then repeated beside a message counts once, and is not lost. */
static void a_repeated_ack_counts_once(void **state)
{
	struct world w = start(true), back = { .a = w.b, .b = w.a };
	struct roce_piggyback_ack ack = { .allowed = true }, again;
	const struct roce_counters *c = &w.a->qp.counters;
	uint8_t buf[ROCE_MAX_MTU];
	struct message m;

	env_post_recv(w.b, 0, 8);
	env_post(w.a, IBV_WR_SEND, 0, 8);
	assert_true(roce_message_output(&w.a->qp, &m, buf, &again));
	assert_true(input(&w, &m, &ack));
	assert_true(ack.any);
	roce_ack_input(&w.a->qp, &ack, w.a->now);
	env_expect_cqe(w.a, 0, 0, IBV_WC_SUCCESS);
	env_post(back.a, IBV_WR_SEND, 0, 8);
	assert_true(roce_message_output(&back.a->qp, &m, buf, &again));
	assert_true(again.any);
	assert_int_equal(again.psn, ack.psn);
	roce_ack_input(&w.a->qp, &again, w.a->now);
	assert_int_equal(c->rcvd_pkts, 1);
	assert_int_equal(c->dropped_pkts, 0);
	end(&w);
}

/* Without messages in flight there is no timer. */
static void messages_have_a_timer_once_they_are_watched(void **state)
{
	struct roce_piggyback_ack ack = { .allowed = true }, beside;
	struct world w = start(true);
	uint8_t buf[ROCE_MAX_MTU];
	struct message m;

	roce_watch(&w.a->qp, w.a->now);
	assert_true(roce_next_timeout(&w.a->qp) == VRB_NEVER);
	for (int i = 0; i < 2; i++) {
		env_post_recv(w.b, 0, 8);
		env_post(w.a, IBV_WR_SEND, 0, 8);
		assert_true(roce_message_output(&w.a->qp, &m, buf, &beside));
		assert_true(roce_next_timeout(&w.a->qp) == VRB_NEVER);
		if (i)
			roce_watch(&w.a->qp, w.a->now);
		assert_int_equal(roce_next_timeout(&w.a->qp) != VRB_NEVER, i);
		assert_true(input(&w, &m, &ack));
		assert_false(roce_ack_input(&w.a->qp, &ack, w.a->now));
		env_expect_cqe(w.a, i, i, IBV_WC_SUCCESS);
		assert_true(roce_next_timeout(&w.a->qp) == VRB_NEVER);
	}
	end(&w);
}

/* They are no packets: the rate of packets does not hold them, but an ACK leaves before them. */
static void direct_requests_run_at_once(void **state)
{
	struct world w = start(true);
	struct roce_qp *qp = &w.a->qp;

	w.a->wq.direct = true;
	w.a->direct_max = 1;
	qp->cc.rtt = TUNE_CC_PACED_RTT;
	qp->cc.window = qp->cc.limit - 1;
	assert_true(roce_cc_is_paced(&qp->cc));
	for (int i = 0; i < 2; i++)
		env_post(w.a, i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, 8);
	assert_true(roce_runs_direct(qp));
	assert_true(roce_run_direct(qp));
	for (int i = 0; i < 2; i++)
		env_expect_cqe(w.a, i, i, IBV_WC_SUCCESS);
	assert_true(roce_next_timeout(qp) == VRB_NEVER);

	env_post(w.a, IBV_WR_RDMA_WRITE, 0, 8);
	qp->resp.ack.pending = true;
	assert_false(roce_run_direct(qp));
	assert_int_equal(w.a->wq.sq.next, 2);
	qp->resp.ack.pending = false;
	w.a->direct_max = 0;
	assert_false(roce_run_direct(qp));
	assert_int_equal(w.a->wq.sq.next, 2);
	assert_false(roce_runs_direct(qp));
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_do_what_packets_do),
		cmocka_unit_test(only_plain_requests_are_messages),
		cmocka_unit_test(unusual_requests_are_declined),
		cmocka_unit_test(a_message_overtakes_nothing),
		cmocka_unit_test(what_the_receiver_declines),
		cmocka_unit_test(a_long_message_is_repeated_as_packets),
		cmocka_unit_test(an_ack_counts_the_packets_of_a_repeated_message),
		cmocka_unit_test(a_message_waits_for_the_response_to_a_read),
		cmocka_unit_test(a_repeated_ack_counts_once),
		cmocka_unit_test(messages_have_a_timer_once_they_are_watched),
		cmocka_unit_test(direct_requests_run_at_once),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
