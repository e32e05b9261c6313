/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random requests of all kinds, both ends at once, many outstanding: mix [SEED [COUNT]]. Each end
 * knows the other's plan by the seed, and so what must have happened to its memory, in which order,
 * and how often: once, whatever the network did.
 *
 * atomic_write_mix, a19_mix [SEED [COUNT [END]]]: one end, 0 the client, 1 the server, also uses
 * ATOMIC WRITE; ATOMIC WRITE and FLUSH. Soft RoCE repeats these with address 0, so its end is the
 * other one.
 */
#include <arpa/inet.h>

#include "probe.h"

enum {
	LIMIT_MS = 30000,
	WINDOW = 24,		/* requests outstanding */
	MAX_LEN = 16384,
	COUNT = 300,
	/* Where things are in the buffer. */
	TARGET_AT = 0,		/* the other end writes here */
	TARGET_LEN = 1 << 17,
	SOURCE_AT = TARGET_AT + TARGET_LEN, /* and reads here */
	SOURCE_LEN = 1 << 17,
	COUNTER_AT = SOURCE_AT + SOURCE_LEN,
	RECV_AT = 1 << 19,	/* WINDOW slots of MAX_LEN */
	LOCAL_AT = 1 << 20,	/* WINDOW slots of MAX_LEN */
};

static const uint64_t RECV = 1ull << 32;	/* in a wr_id */

static const uint64_t A19_OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;

enum kind {
	SEND, SEND_IMM, WRITE, WRITE_IMM, READ, FETCH_ADD, KINDS,
	ATOMIC_WRITE = KINDS, FLUSH, A19_KINDS,
};

static const enum ibv_wr_opcode opcodes[KINDS] = {
	IBV_WR_SEND,       IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/* One end's requests, one after the other. */
struct plan {
	uint32_t random;
	unsigned mtu;
	unsigned kinds;		/* those that there are */
	uint32_t number;	/* of the request that the rest describes */
	enum kind kind;
	uint32_t len, offset;
};

static uint32_t next_random(struct plan *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 17;
	p->random ^= p->random << 5;
	return p->random;
}

static uint32_t random_len(struct plan *p)
{
	switch (next_random(p) % 4) {
	case 0:
		return next_random(p) % 65;
	case 1: /* where the packets end */
		return p->mtu * (1 + next_random(p) % 3) - 2 + next_random(p) % 5;
	case 2:
		return next_random(p) % 4096;
	default:
		return next_random(p) % MAX_LEN;
	}
}

static void advance(struct plan *p)
{
	p->number++;
	p->kind = next_random(p) % p->kinds;
	p->len = p->kind == FETCH_ADD || p->kind == ATOMIC_WRITE ? 8 : random_len(p);
	p->offset = next_random(p) % (TARGET_LEN - MAX_LEN);
	if (p->kind == ATOMIC_WRITE)
		p->offset &= ~7u;
}

static struct plan new_plan(unsigned seed, bool client, unsigned mtu, unsigned kinds)
{
	struct plan p = { .random = (seed * 2 + client) * 2654435761u | 1, .mtu = mtu,
			  .kinds = kinds };

	for (int i = 0; i < 8; i++)
		next_random(&p);
	return p;
}

static bool takes_recv(enum kind kind)
{
	return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM;
}

static char payload(uint32_t number, uint32_t i)
{
	return (char)(number * 37 + i * 11 + (i >> 8));
}

static char source(uint32_t i)
{
	return (char)(i * 2654435761u >> 13);
}

struct mix {
	struct end *e;
	unsigned count;
	struct plan mine;	/* the request posted last */
	struct plan done[WINDOW]; /* slots of requests outstanding */
	uint32_t completed;
	uint64_t added;		/* by us to the other end's counter */
	struct plan theirs;	/* the request whose receive completed last */
	unsigned to_receive;
	char *model;		/* of our target */
};

/* ---- requester ------------------------------------------------------------------------------- */

static void post_a19(struct end *e, const struct plan *p, uint64_t slot)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);
	const uint64_t at = e->theirs.addr + TARGET_AT + p->offset;
	char word[8];

	ibv_wr_start(ex);
	ex->wr_id = slot;
	if (p->kind == FLUSH) {
		ibv_wr_flush(ex, e->theirs.rkey, at, p->len, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	} else {
		for (uint32_t i = 0; i < sizeof(word); i++)
			word[i] = payload(p->number, i);
		ibv_wr_atomic_write(ex, e->theirs.rkey, at, word);
	}
	CHECK_EQ(ibv_wr_complete(ex), 0);
}

static void post_next(struct mix *m)
{
	struct end *e = m->e;
	struct plan *p = &m->mine;
	uint32_t slot = p->number % WINDOW;
	char *local = e->buf + LOCAL_AT + (size_t)slot * MAX_LEN;
	struct ibv_sge sge = { .addr = (uintptr_t)local, .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	advance(p);
	m->done[slot] = *p;
	if (p->kind >= ATOMIC_WRITE) {
		post_a19(e, p, slot);
		return;
	}
	wr.opcode = opcodes[p->kind];
	sge.length = p->len;
	wr.imm_data = htonl(p->number);
	if (p->kind == FETCH_ADD) {
		wr.wr.atomic.remote_addr = e->theirs.addr + COUNTER_AT;
		wr.wr.atomic.rkey = e->theirs.rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (p->kind >= WRITE) {
		wr.wr.rdma.remote_addr =
			e->theirs.addr + p->offset + (p->kind == READ ? SOURCE_AT : TARGET_AT);
		wr.wr.rdma.rkey = e->theirs.rkey;
	}
	if (p->kind < READ) {
		for (uint32_t i = 0; i < p->len; i++)
			local[i] = payload(p->number, i);
		if (p->len <= 64 && p->number % 2)
			wr.send_flags = IBV_SEND_INLINE;
	}
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void request_done(struct mix *m, const struct ibv_wc *wc)
{
	const struct plan *p = &m->done[m->completed % WINDOW];
	const char *local = m->e->buf + LOCAL_AT + wc->wr_id * MAX_LEN;
	uint64_t before;

	CHECK_EQ(wc->wr_id, m->completed % WINDOW);
	m->completed++;
	if (p->kind == READ)
		for (uint32_t i = 0; i < p->len; i++)
			CHECK_EQ(local[i], source(p->offset + i));
	if (p->kind == FETCH_ADD) {
		memcpy(&before, local, sizeof(before));
		CHECK_EQ(before, m->added);
		m->added++;
	}
}

/* ---- responder ------------------------------------------------------------------------------- */

static void post_receive(struct mix *m, uint64_t slot)
{
	end_recv(m->e, RECV | slot, RECV_AT + (size_t)slot * MAX_LEN, MAX_LEN);
}

static void message_came(struct mix *m, const struct ibv_wc *wc)
{
	struct plan *p = &m->theirs;
	uint64_t slot = wc->wr_id & ~RECV;
	const char *data = m->e->buf + RECV_AT + slot * MAX_LEN;

	do
		advance(p);
	while (!takes_recv(p->kind));
	CHECK_EQ(wc->byte_len, p->len);
	CHECK_EQ(!!(wc->wc_flags & IBV_WC_WITH_IMM), p->kind != SEND);
	if (p->kind != SEND)
		CHECK_EQ(ntohl(wc->imm_data), p->number);
	if (p->kind != WRITE_IMM)
		for (uint32_t i = 0; i < p->len; i++)
			CHECK_EQ(data[i], payload(p->number, i));
	m->to_receive--;
	post_receive(m, slot);
}

/* What their plan does to our target; how often it adds, and how many receives it takes. */
static uint64_t run_model(struct mix *m)
{
	struct plan p = m->theirs;
	uint64_t adds = 0;

	m->model = calloc(1, TARGET_LEN);
	CHECK(m->model);
	for (unsigned n = 0; n < m->count; n++) {
		advance(&p);
		adds += p.kind == FETCH_ADD;
		m->to_receive += takes_recv(p.kind);
		if (p.kind == WRITE || p.kind == WRITE_IMM || p.kind == ATOMIC_WRITE)
			for (uint32_t i = 0; i < p.len; i++)
				m->model[p.offset + i] = payload(p.number, i);
	}
	return adds;
}

static void drive(struct mix *m)
{
	struct ibv_wc wc;

	while (m->completed < m->count || m->to_receive > 0) {
		while (m->mine.number < m->count && m->mine.number - m->completed < WINDOW)
			post_next(m);
		if (!end_poll(m->e, &wc, LIMIT_MS)) {
			printf("stuck: %u of %u done, %u to receive\n", m->completed, m->count,
			       m->to_receive);
			exit(1);
		}
		if (wc.status != IBV_WC_SUCCESS) {
			printf("%s of %u: %s, kind %d, %u bytes\n",
			       wc.wr_id & RECV ? "receive" : "request", m->completed,
			       status_name(wc.status), m->done[m->completed % WINDOW].kind,
			       m->done[m->completed % WINDOW].len);
			exit(1);
		}
		if (wc.wr_id & RECV)
			message_came(m, &wc);
		else
			request_done(m, &wc);
	}
}

/* 0: it is no mix. */
static unsigned kinds_of(const char *name)
{
	if (!strcmp(name, "mix"))
		return KINDS;
	if (!strcmp(name, "atomic_write_mix"))
		return ATOMIC_WRITE + 1;
	return strcmp(name, "a19_mix") ? 0 : A19_KINDS;
}

bool probe_mix(struct end *e, const char *name)
{
	unsigned seed = probe_number(0, 1), mtu = 128u << e->place.mtu;
	struct mix m = { .e = e, .count = probe_number(1, COUNT) };
	const unsigned kinds = kinds_of(name);
	const bool client = !probe_number(2, 0);	/* its end uses them all */
	const unsigned clients = client ? kinds : KINDS, servers = client ? KINDS : kinds;
	struct end_setup setup = { .type = IBV_QPT_RC };
	uint64_t adds, counter;

	if (!kinds)
		return false;
	if (kinds > KINDS) {
		setup.send_ops = A19_OPS;
		setup.mr_access = setup.qp_access = END_ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL;
	}
	end_connect(e, &setup);
	m.mine = new_plan(seed, e->client, mtu, e->client ? clients : servers);
	m.theirs = new_plan(seed, !e->client, mtu, e->client ? servers : clients);
	adds = run_model(&m);
	for (uint32_t i = 0; i < SOURCE_LEN; i++)
		e->buf[SOURCE_AT + i] = source(i);
	for (uint64_t slot = 0; slot < WINDOW; slot++)
		post_receive(&m, slot);
	end_meet(e);
	drive(&m);
	end_meet(e);
	CHECK_MEM(e->buf + TARGET_AT, m.model, TARGET_LEN);
	memcpy(&counter, e->buf + COUNTER_AT, sizeof(counter));
	CHECK_EQ(counter, adds);
	free(m.model);
	printf("%s %u: all %u right\n", name, seed, m.count);
	return true;
}
