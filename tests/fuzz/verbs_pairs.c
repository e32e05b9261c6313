/* SPDX-License-Identifier: BSD-2-Clause */
/* See verbs_pairs.h. */
#include "fuzz/verbs_pairs.h"

#include <arpa/inet.h>
#include <errno.h>

#include "fuzz/threads.h"
#include "util/atomic.h"

struct world w[WORLDS];
struct ibv_cq *cqs[WORLDS][CQS];
struct srq srqs[WORLDS], xsrq;
struct pair pairs[PAIRS];
uint64_t tick, completions, fetched_adds, stop;

static pthread_mutex_t ordered[WORLDS] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

int world_of(const struct pair *p, int side)
{
	return side ? (int)(p - pairs) % WORLDS : 0;
}

uint64_t wr_id(enum kind kind, const struct pair *p, int side, uint32_t index)
{
	return (uint64_t)kind << 60 | (uint64_t)(p - pairs) << 48 | (uint64_t)side << 47 |
	       (uint64_t)(p->gen & 0x7fff) << 32 | index;
}

static uint8_t pattern(uint32_t key, uint32_t i)
{
	return (uint8_t)(key * 31 + i * 7 + i / 251);
}

static uint32_t key_of(const struct pair *p, int side, uint32_t seq)
{
	return (uint32_t)(p - pairs) * 1000003 + (uint32_t)side * 77 + p->gen * 7919 + seq * 13;
}

struct head {
	uint32_t pair, side, gen, seq;
};

_Static_assert(sizeof(struct head) == HEAD, "HEAD");

void fill(uint8_t *to, const struct pair *p, int side, uint32_t seq, uint32_t len)
{
	struct head h = { (uint32_t)(p - pairs), (uint32_t)side, p->gen, seq };
	uint32_t i = 0;

	if (len >= sizeof(h)) {
		memcpy(to, &h, sizeof(h));
		i = sizeof(h);
	}
	for (; i < len; i++)
		to[i] = pattern(key_of(p, side, seq), i);
}

static void check_data(const uint8_t *at, const struct pair *p, int side, uint32_t seq,
		       uint32_t len, const char *what)
{
	struct head h = { (uint32_t)(p - pairs), (uint32_t)side, p->gen, seq };
	uint32_t i = 0;

	if (len >= sizeof(h)) {
		struct head is;

		memcpy(&is, at, sizeof(is));
		EXPECT(!memcmp(at, &h, sizeof(h)),
		       "%s pair %u side %d gen %u seq %u len %u type %d: is %u %u %u %u", what,
		       h.pair, side, h.gen, seq, len, p->type, is.pair, is.side, is.gen, is.seq);
		i = sizeof(h);
	}
	for (; i < len; i++)
		EXPECT(at[i] == pattern(key_of(p, side, seq), i),
		       "%s pair %d side %d seq %u len %u at %u type %d", what, (int)(p - pairs),
		       side, seq, len, i, p->type);
}

uint8_t *send_slot(struct side *s, uint32_t i)
{
	return s->mem + i % DEPTH * SLOT;
}

static uint8_t *recv_slot(struct side *s, uint32_t i)
{
	return s->mem + (DEPTH + i % DEPTH) * SLOT;
}

uint8_t *rdma_slot(struct side *s, uint32_t i)
{
	return s->mem + (2 * DEPTH + i % DEPTH) * SLOT;
}

uint8_t *source(struct side *s)
{
	return s->mem + 3 * DEPTH * SLOT;
}

/* ---- Receives ---- */

void refill(struct pair *p, int side)
{
	struct side *s = &p->side[side];
	bool unordered = s->cq[1] == FREE_FOR_ALL;

	while (s->srq < 0 && s->recvs - s->recvs_done < DEPTH) {
		uint32_t i = s->recvs;
		struct ibv_sge sge = { (uintptr_t)recv_slot(s, i), SLOT, s->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = wr_id(RECV, p, side, i), .sg_list = &sge,
					  .num_sge = 1 }, *bad;

		if (s->recv_posted[i % DEPTH]) {
			EXPECT(unordered, "receive slot in use");
			return;
		}
		s->recv_posted[i % DEPTH] = true;
		s->recvs++;
		EXPECT(ibv_post_recv(s->qp, &wr, &bad) == 0, "post_recv %m state %d", s->qp->state);
	}
}

void srq_refill(struct srq *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->num_free) {
		uint32_t i = s->free[s->num_free - 1];
		struct ibv_sge sge = world_sge(&s->buf, (size_t)i * SRQ_SLOT, SRQ_SLOT);
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)SHARED << 60 | s->mark | i,
					  .sg_list = &sge, .num_sge = 1 }, *bad;
		int r;

		s->posted[i] = true;
		s->num_free--;
		r = ibv_post_srq_recv(s->srq, &wr, &bad);
		if (r) {
			EXPECT(r == ENOMEM, "post_srq_recv %d", r);
			s->posted[i] = false;
			s->free[s->num_free++] = i;
			break;
		}
	}
	if (s->num_free < 64)
		store_release(&stop, 1);
	pthread_mutex_unlock(&s->lock);
}

/* ---- Completions. Under p->lock ---- */

static bool ended(const struct pair *p, uint32_t gen, uint64_t since, const struct ibv_wc *wc)
{
	if ((p->gen & 0x7fff) == gen && p->state != CLOSED)
		return false;
	EXPECT(((p->gen - gen) & 0x7fff) < GENERATIONS && p->ended_at[gen % GENERATIONS] > since,
	       "a completion of a QP that is gone: wr_id %llx, %s, generation %u",
	       (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), p->gen);
	return true;
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode o)
{
	switch (o) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return IBV_WC_SEND;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

static void check_success(struct pair *p, int side, uint32_t i, const struct op *o)
{
	struct side *s = &p->side[side], *peer = &p->side[!side];

	switch (o->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (p->type == IBV_QPT_RC || p->type == IBV_QPT_XRC_SEND)
			check_data(rdma_slot(peer, i), p, side, o->seq, o->len, "written");
		break;
	case IBV_WR_RDMA_READ:
		check_data(send_slot(s, i), p, !side, SOURCE_SEQ, o->len, "read");
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		fetch_add_relaxed(&fetched_adds, 1);
		break;
	default:
		break;
	}
}

static bool in_order(const struct side *s, int queue)
{
	return s->cq[queue] != FREE_FOR_ALL;
}

/* A peer in ERR or gone does not answer; a bad request fails by its own fault. */
static void check_failure(const struct pair *p, const struct side *s, const struct op *o,
			  const struct ibv_wc *wc)
{
	bool flushed = wc->status == IBV_WC_WR_FLUSH_ERR;

	EXPECT(p->state == BROKEN || p->state == CLOSING, "type %d failed: %s, vendor_err %u",
	       p->type, ibv_wc_status_str(wc->status), wc->vendor_err);
	EXPECT(flushed || wc->status == IBV_WC_RETRY_EXC_ERR || p->interfered ||
	       (o->bad && wc->status == IBV_WC_REM_ACCESS_ERR), "%s, vendor_err %u",
	       ibv_wc_status_str(wc->status), wc->vendor_err);
	EXPECT(flushed || !s->failed || !in_order(s, 0), "%s after a failure",
	       ibv_wc_status_str(wc->status));
}

static void sent(struct pair *p, int side, uint32_t i, const struct ibv_wc *wc)
{
	struct side *s = &p->side[side];
	struct op *o = &s->op[i % DEPTH];

	EXPECT(i - s->done < s->posted - s->done && !o->done, "%u completed; %u to %u were posted",
	       i, s->done, s->posted);
	EXPECT(wc->qp_num == s->qpn, "QP 0x%x, not 0x%x", wc->qp_num, s->qpn);
	for (uint32_t j = s->done; in_order(s, 0) && j != i; j++)
		EXPECT(!s->op[j % DEPTH].signaled && !s->failed, "%u completed before %u: %s", i, j,
		       ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS) {
		EXPECT(!s->failed || !in_order(s, 0), "success after a failure");
		EXPECT(!o->bad && wc->opcode == wc_opcode(o->opcode), "bad %d, opcode %d", o->bad,
		       wc->opcode);
		check_success(p, side, i, o);
	} else {
		check_failure(p, s, o, wc);
		s->failed = true;
	}
	o->done = true;
	if (in_order(s, 0))
		s->done = i + 1;
	while (s->done != s->posted && s->op[s->done % DEPTH].done)
		s->done++;
}

/* A message of the peer of a side. */
static void arrived(struct pair *p, int side, const uint8_t *data, const struct ibv_wc *wc,
		    uint32_t hidden)
{
	struct side *s = &p->side[side];
	uint32_t seq, len = wc->byte_len - hidden;
	uint32_t ahead;

	EXPECT(wc->opcode == IBV_WC_RECV || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM, "opcode");
	EXPECT(wc->wc_flags & IBV_WC_WITH_IMM, "no immediate");
	seq = ntohl(wc->imm_data);
	ahead = seq - s->seq_in;
	if (in_order(s, 1) && p->type != IBV_QPT_UD && p->type != IBV_QPT_UC)
		EXPECT(ahead == 0, "message %u came, not %u, type %d", seq, s->seq_in, p->type);
	else if (in_order(s, 1))
		EXPECT(ahead < 1u << 31, "message %u came after %u, type %d", seq, s->seq_in - 1,
		       p->type);
	if (ahead < 1u << 31) {
		s->seen = ahead >= 63 ? 1 : s->seen << (ahead + 1) | 1;
		s->seq_in = seq + 1;
	} else if (s->seq_in - 1 - seq < 64) {
		EXPECT(!(s->seen >> (s->seq_in - 1 - seq) & 1), "message %u came twice", seq);
		s->seen |= 1ull << (s->seq_in - 1 - seq);
	}
	if (wc->opcode == IBV_WC_RECV)
		check_data(data + hidden, p, !side, seq, len, "received");
}

static void received(struct pair *p, int side, uint32_t i, const struct ibv_wc *wc)
{
	struct side *s = &p->side[side];

	EXPECT(s->recv_posted[i % DEPTH], "receive completed twice");
	EXPECT(wc->qp_num == s->qpn, "qp_num");
	if (in_order(s, 1))
		EXPECT(i == s->recvs_done, "receive %u, not %u, %s", i, s->recvs_done,
		       ibv_wc_status_str(wc->status));
	if (wc->status == IBV_WC_SUCCESS)
		arrived(p, side, recv_slot(s, i), wc,
			p->type == IBV_QPT_UD ? sizeof(struct ibv_grh) : 0);
	else
		EXPECT(p->state != OPEN && (wc->status == IBV_WC_WR_FLUSH_ERR || p->interfered),
		       "%s", ibv_wc_status_str(wc->status));
	s->recv_posted[i % DEPTH] = false;
	s->recvs_done++;
	if (!p->no_refill)
		refill(p, side);
}

static void shared(struct srq *s, uint32_t slot, const struct ibv_wc *wc, uint64_t since)
{
	uint8_t *at = s->buf.data + (size_t)slot * SRQ_SLOT;
	struct head h = { .pair = 0 };

	pthread_mutex_lock(&s->lock);
	EXPECT(s->posted[slot], "SRQ receive completed twice");
	pthread_mutex_unlock(&s->lock);
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV) {
		struct pair *p;

		EXPECT(wc->byte_len >= sizeof(h), "short");
		memcpy(&h, at, sizeof(h));
		EXPECT(h.pair < PAIRS && h.side < 2, "pair");
		p = &pairs[h.pair];
		pthread_mutex_lock(&p->lock);
		if (h.gen != p->gen || p->state == CLOSED) {
			/* An XRC QP has no CQ: what it received stays. */
			if (s != &xsrq)
				ended(p, h.gen & 0x7fff, since, wc);
		} else {
			if (p->type == IBV_QPT_RC)
				EXPECT(wc->qp_num == p->side[!h.side].qpn, "qp_num");
			arrived(p, !h.side, at, wc, 0);
		}
		pthread_mutex_unlock(&p->lock);
	} else if (wc->status == IBV_WC_SUCCESS) {
		EXPECT(false, "no write with immediate goes to an SRQ");
	}
	pthread_mutex_lock(&s->lock);
	EXPECT(s->posted[slot], "SRQ receive completed twice");
	s->posted[slot] = false;
	s->free[s->num_free++] = slot;
	pthread_mutex_unlock(&s->lock);
	srq_refill(s);
}

static void handle(const struct ibv_wc *wc, int world, uint64_t since)
{
	enum kind kind = (enum kind)(wc->wr_id >> 60);
	struct pair *p;
	uint32_t index = (uint32_t)wc->wr_id;

	fetch_add_relaxed(&completions, 1);
	if (kind == SHARED) {
		shared(index & XRC_MARK ? &xsrq : &srqs[world], index & 0xffffff, wc, since);
		return;
	}
	EXPECT(kind == SEND || kind == RECV, "wr_id %llx", (unsigned long long)wc->wr_id);
	p = &pairs[wc->wr_id >> 48 & 0xfff];
	pthread_mutex_lock(&p->lock);
	if (!ended(p, wc->wr_id >> 32 & 0x7fff, since, wc)) {
		if (kind == SEND)
			sent(p, wc->wr_id >> 47 & 1, index, wc);
		else
			received(p, wc->wr_id >> 47 & 1, index, wc);
	}
	pthread_mutex_unlock(&p->lock);
}

int poll_cq(int world, int cq)
{
	struct ibv_wc wc[8];
	uint64_t since = load_acquire(&tick);
	int n = ibv_poll_cq(cqs[world][cq], 1 + (int)below(8), wc);

	EXPECT(n >= 0, "poll_cq %d", n);
	for (int i = 0; i < n; i++)
		handle(&wc[i], world, since);
	return n;
}

int poll_some(void)
{
	int world = (int)below(WORLDS), n = 0;

	if (below(2))
		return poll_cq(world, FREE_FOR_ALL);
	if (pthread_mutex_trylock(&ordered[world]) == 0) {
		n = poll_cq(world, ORDERED);
		pthread_mutex_unlock(&ordered[world]);
	}
	return n;
}

