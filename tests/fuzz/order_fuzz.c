/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two engines, core/rx/reorder.c at the responder, and between them a network that reorders,
 * repeats and loses their packets, and a third party that forges early requests; or a lane, which
 * keeps the order, loses what finds no room, and leaves long payloads for the responder to pull,
 * which may fail, or carries messages, also such as are longer than the MTU.  The oracle: what is
 * delivered is what was sent, in order and once, however the packets came; and all of it once the
 * path is good.
 *
 * The forged requests have too many missing packets in front of them to be accepted
 * (core/rx/reorder.h).  With fewer the responder could not distinguish them from the peer's, nor a
 * forged next one.
 *
 * The input is a program of one-byte steps with operands, as engine_fuzz.c has it.
 */
#include <string.h>

#include "fuzz/fuzz.h"
#include "unit/reorder_env.h"

#include "roce/message.h"
#include "util/tuning.h"

enum {
	SLOT = 2048,		/* of a message, at either end */
	SLOTS = 32,
	RECV_AT = 0,		/* receives of b */
	WRITE_AT = SLOTS * SLOT,	/* where WRITEs go, message by message */
	COUNTER_AT = 2 * WRITE_AT,	/* of FETCH_ADDs */
	RESULT_AT = COUNTER_AT + 8,	/* at a */
	FLIGHTS = 128,
	ROUNDS_MAX = 20000,
	REACH = REORDER_PACKETS - 1,	/* of a forged packet, in PSNs */
	PULL_MIN = 1000,
};

struct flight {
	struct roce_pkt pkt;
	uint8_t payload[PULL_MIN];
	bool to_b;
	bool is_message;
	struct message message;
	struct wq_seg seg;	/* len 0: the payload is here */
};

struct sent {
	uint32_t opcode, len;
};

static struct {
	struct roce_env a, b;
	struct reorder_queue *held;
	bool lane;
	bool messages;		/* by the lane */
	struct flight flight[FLIGHTS];
	uint32_t flights;
	struct sent sent[1 << 12];
	uint32_t posted, completed;	/* of sent[] */
	uint32_t received;		/* SENDs at b, */
	uint32_t next_send;		/* and where the next one of them is looked for in sent[] */
	uint32_t adds;
	uint8_t seen[1 << 16];	/* by PSN less ENV_PSN: has come to b */
	uint8_t model[SLOTS * SLOT]; /* what WRITEs have made of their place, in order of posting */
} w;

struct input {
	const uint8_t *p, *end;
};

static uint8_t byte(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static bool is_dead(void)
{
	return w.a.wq.state == IBV_QPS_ERR || w.b.wq.state == IBV_QPS_ERR;
}

/* The byte of a message that stands at i. */
static uint8_t content(uint32_t message, uint32_t i)
{
	return message * 31 + i * 7 + i / 256;
}

static void fill(uint8_t *to, uint32_t message, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = content(message, i);
}

static void give_receive(void)
{
	env_post_recv(&w.b, RECV_AT + w.b.wq.rq.head % SLOTS * SLOT, SLOT);
}

/* ---- what arrives ---- */

static void check_receive(const struct wq_cqe *cqe)
{
	const struct sent *m;
	const uint8_t *at;

	while (w.sent[w.next_send].opcode != IBV_WR_SEND)
		FUZZ_CHECK(++w.next_send < w.posted);
	m = &w.sent[w.next_send];
	FUZZ_CHECK(cqe->wr_id == 1000 + w.received);
	FUZZ_CHECK(cqe->byte_len == m->len);
	at = w.b.mem + RECV_AT + w.received % SLOTS * SLOT;
	for (uint32_t i = 0; i < m->len; i++)
		FUZZ_CHECK(at[i] == content(w.next_send, i));
	w.next_send++;
	w.received++;
	give_receive();
}

static void look_at_completions(void)
{
	for (uint32_t i = 0; i < w.b.num_cqes; i++)
		if (w.b.cqes[i].recv && w.b.cqes[i].status == IBV_WC_SUCCESS)
			check_receive(&w.b.cqes[i]);
	for (uint32_t i = 0; i < w.a.num_cqes; i++) {
		FUZZ_CHECK(w.a.cqes[i].wr_id == w.completed || is_dead());
		if (w.a.cqes[i].status == IBV_WC_SUCCESS)
			w.completed++;
	}
	w.a.num_cqes = w.b.num_cqes = w.a.num_events = w.b.num_events = 0;
}

/* Nothing but the network may end the connection, and only by running out of retries. */
static void check_death(void)
{
	for (uint32_t i = 0; i < w.a.num_cqes; i++)
		FUZZ_CHECK(w.a.cqes[i].status == IBV_WC_SUCCESS ||
			   w.a.cqes[i].status == IBV_WC_WR_FLUSH_ERR ||
			   w.a.cqes[i].status == IBV_WC_RETRY_EXC_ERR);
	FUZZ_CHECK(w.b.wq.state != IBV_QPS_ERR);
}

/* ---- the network ---- */

/* The next request of `a` as a message; the ACK beside it would be of requests of `b`. */
static bool collect_message(struct roce_env *e)
{
	struct flight *f = &w.flight[w.flights];
	struct roce_piggyback_ack none;

	if (!w.messages || e != &w.a || !roce_is_plain(&e->qp))
		return false;
	*f = (struct flight){ .to_b = true, .is_message = true };
	if (!roce_message_output(&e->qp, &f->message, f->payload, &none))
		return false;
	FUZZ_CHECK(!none.any);
	w.flights++;
	return true;
}

static void collect(struct roce_env *e)
{
	w.a.now = w.b.now = max(w.a.now, w.b.now);
	while (w.flights < FLIGHTS) {
		if (collect_message(e))
			continue;
		if (!env_output(e))
			break;
		struct flight *f = &w.flight[w.flights++];
		const struct send_wqe *left = roce_output_pull(&e->qp);

		*f = (struct flight){ .pkt = e->out, .to_b = e == &w.a };
		memcpy(f->payload, e->out.payload, e->out.payload_len);
		if (left)
			f->seg = (struct wq_seg){ (uintptr_t)e->mem + (left->sge[0].addr - ENV_VA),
						  left->length };
	}
}

static void deliver_request(struct roce_pkt *pkt, const struct wq_seg *seg, bool fails)
{
	struct wq_pull pull = { .pid = 1, .num_seg = 1, .seg = seg };

	w.seen[psn_add(pkt->bth.psn, 0 - ENV_PSN) % sizeof(w.seen)] = 1;
	if (!w.lane) {
		env_arrive(&w.b, &w.held, pkt);
		return;
	}
	if (seg->len) {
		pkt->pull = &pull;
		pkt->payload_len = seg->len;
	}
	w.b.fail_at = fails && seg->len ? 0 : -1;
	w.b.fail_why = REASON_PEER_DIED;
	env_input(&w.b, pkt);
	w.b.fail_at = -1;
}

/* Its ACK is published, and read at once; or the packet that it replaces arrives. */
static void deliver_message(struct message m, const uint8_t *payload)
{
	struct roce_piggyback_ack word = { .allowed = true };
	struct roce_pkt pkt;

	m.payload = payload;
	if (roce_message_input(&w.b.qp, &m, &word)) {
		if (word.any)
			roce_ack_input(&w.a.qp, &word, w.a.now);
		roce_message_complete(&w.b.qp, &m, word.any);
		return;
	}
	roce_message_packet(&m, &pkt);
	pkt.path = w.b.wq.path;
	pkt.path.src = w.b.wq.path.dst;
	pkt.path.dst = w.b.wq.path.src;
	env_input(&w.b, &pkt);
}

static void deliver(const struct flight *f, bool fails)
{
	struct roce_pkt pkt = f->pkt;

	pkt.payload = f->payload;
	w.a.now = w.b.now = max(w.a.now, w.b.now);
	if (f->is_message)
		deliver_message(f->message, f->payload);
	else if (f->to_b)
		deliver_request(&pkt, &f->seg, fails);
	else
		env_input(&w.a, &pkt);
	check_death();
	look_at_completions();
}

static void take_out(uint32_t i)
{
	memmove(&w.flight[i], &w.flight[i + 1], (--w.flights - i) * sizeof(w.flight[0]));
}

/* A lane is a queue each way. */
static uint32_t choose(uint8_t b)
{
	uint32_t i = 0;

	if (!w.lane)
		return b % w.flights;
	while (i < w.flights && w.flight[i].to_b != (b & 1))
		i++;
	return i == w.flights ? 0 : i;
}

static void carry(struct input *in, bool remains)
{
	uint32_t i;
	uint8_t b = byte(in);

	if (!w.flights)
		return;
	i = choose(b);
	deliver(&w.flight[i], w.lane && b >= 0xe0);
	if (!remains || w.lane)
		take_out(i);
}

static void lose(struct input *in)
{
	if (w.flights)
		take_out(byte(in) % w.flights);
}

/* ---- the forger ---- */

static bool has_come(uint32_t psn)
{
	return w.seen[psn_add(psn, 0 - ENV_PSN) % sizeof(w.seen)];
}

static void forge(struct input *in)
{
	static const uint8_t kinds[] = { ROCE_RC_SEND_ONLY,    ROCE_RC_WRITE_ONLY,
					 ROCE_RC_FETCH_ADD,    ROCE_RC_SEND_MIDDLE,
					 ROCE_RC_SEND_LAST,    ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE,
					 ROCE_RC_READ_REQUEST, 0xff };
	uint32_t epsn = roce_expected_psn(&w.b.qp), reach = byte(in), missing = 0, psn;
	uint8_t kind = kinds[byte(in) % ARRAY_SIZE(kinds)];
	struct flight f = { .to_b = true };

	for (uint32_t i = 0; i < reach; i++)
		missing += !has_come(psn_add(epsn, i));
	psn = psn_add(epsn, reach);
	if (missing <= TUNE_REORDER_TRUSTED || reach > REACH || w.lane || is_dead())
		return;
	f.pkt = env_pkt(&w.b, kind == 0xff ? ROCE_RC_SEND_ONLY : kind, psn,
			kind == ROCE_RC_SEND_MIDDLE ? 256 : 8);
	if (kind == ROCE_RC_FETCH_ADD || kind == ROCE_RC_READ_REQUEST)
		f.pkt.payload_len = 0;
	if (kind == 0xff)
		f.pkt.bth.pkey = 0x1234;
	f.pkt.bth.ack_req = byte(in) & 1;
	f.pkt.atomic.va = f.pkt.reth.va =
		ENV_VA + (kind == ROCE_RC_FETCH_ADD ? COUNTER_AT : WRITE_AT);
	f.pkt.atomic.rkey = ENV_KEY;
	f.pkt.atomic.swap_add = 1000;
	memset(f.payload, 0xee, sizeof(f.payload));
	f.pkt.payload = f.payload;
	w.b.now = max(w.a.now, w.b.now);
	env_arrive(&w.b, &w.held, &f.pkt);
	check_death();
	look_at_completions();
}

/* ---- the program at a ---- */

static void post(struct input *in)
{
	static const uint32_t lens[] = { 0, 1, 8, 256, 257, 700, PULL_MIN, 1300 };
	uint32_t n = w.posted, at = n % SLOTS * SLOT, kind = byte(in) % 4,
		 len = lens[byte(in) % ARRAY_SIZE(lens)];
	struct send_wqe *wqe;

	if (is_dead() || n + 1 == ARRAY_SIZE(w.sent) || w.a.wq.sq.head - w.a.wq.sq.done >= SLOTS)
		return;
	if (kind == 3) {
		wqe = env_post(&w.a, IBV_WR_ATOMIC_FETCH_AND_ADD, RESULT_AT, 8);
		wqe->remote_addr = ENV_VA + COUNTER_AT;
		wqe->atomic.swap = 0;
		wqe->atomic.compare_add = 1;
		w.adds++;
	} else {
		wqe = env_post(&w.a, kind ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, at, len);
		wqe->remote_addr = ENV_VA + WRITE_AT + at;
		fill(w.a.mem + at, n, len);
		if (!kind)
			fill(w.model + at, n, len);
	}
	w.sent[n] = (struct sent){ wqe->opcode, len };
	w.posted++;
}

/* A message starts no timer. */
static void watch(void)
{
	if (w.messages)
		roce_watch(&w.a.qp, w.a.now);
}

static void pass_time(struct input *in)
{
	uint64_t now = max(w.a.now, w.b.now), next;

	watch();
	next = roce_next_timeout(&w.a.qp);
	if (byte(in) & 1 && next != VRB_NEVER)
		now = max(now, next);
	else
		now += (uint64_t)byte(in) << (byte(in) % 24);
	w.a.now = w.b.now = now;
	roce_timeout(&w.a.qp, now);
	roce_timeout(&w.b.qp, now);
	check_death();
	look_at_completions();
}

static void step(struct input *in)
{
	uint8_t b = byte(in);

	if (b < 0x30)
		post(in);
	else if (b < 0x60)
		collect(&w.a);
	else if (b < 0x78)
		collect(&w.b);
	else if (b < 0xb8)
		carry(in, false);
	else if (b < 0xc4)
		carry(in, true);
	else if (b < 0xcc)
		lose(in);
	else if (b < 0xf4)
		forge(in);
	else
		pass_time(in);
}

/* ---- the end: a good network ---- */

static bool is_done(void)
{
	return w.completed == w.posted && !w.flights;
}

static void settle(void)
{
	struct input first = { NULL, NULL };

	for (uint32_t i = 0; !is_dead() && !is_done(); i++) {
		FUZZ_CHECK(i < ROUNDS_MAX);
		collect(&w.a);
		collect(&w.b);
		watch();
		if (!w.flights && roce_next_timeout(&w.a.qp) != VRB_NEVER) {
			w.a.now = max(w.a.now, roce_next_timeout(&w.a.qp));
			roce_timeout(&w.a.qp, w.a.now);
			check_death();
			look_at_completions();
		}
		while (w.flights)
			carry(&first, false);
	}
}

static void check_end(void)
{
	uint64_t counter;

	if (is_dead())
		return;
	memcpy(&counter, w.b.mem + COUNTER_AT, sizeof(counter));
	FUZZ_CHECK(counter == w.adds);
	FUZZ_CHECK(!memcmp(w.b.mem + WRITE_AT, w.model, sizeof(w.model)));
	while (w.next_send < w.posted)
		FUZZ_CHECK(w.sent[w.next_send++].opcode != IBV_WR_SEND);
}

static void start(void)
{
	memset(&w, 0, sizeof(w));
	env_init(&w.a, IBV_QPT_RC);
	env_init(&w.b, IBV_QPT_RC);
	env_connect(&w.a, &w.b);
	w.a.now = w.b.now = VRB_SECOND;
	env_rts(&w.a);
	env_rts(&w.b);
	memset(w.b.mem, 0, sizeof(w.b.mem));
	for (uint32_t i = 0; i < SLOTS; i++)
		give_receive();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t kind;

	start();
	kind = byte(&in);
	w.lane = kind & 1;
	w.messages = w.lane && kind & 2;
	w.a.wq.pull_min = w.lane ? PULL_MIN : 0;
	w.a.wq.whole_max = w.messages ? PULL_MIN - 1 : 0;
	while (in.p < in.end && !is_dead())
		step(&in);
	settle();
	check_end();
	reorder_free(&w.held);
	return 0;
}
