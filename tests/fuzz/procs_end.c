/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/procs_end.h"

#include <arpa/inet.h>

#include "util/compiler.h"

struct shared *shared;
struct world w;
struct ibv_cq *cqs[2];
struct end ends[CONNS];
int me;

void seed_ends(uint64_t seed)
{
	threads_random = seed;
}

/* ---- Bytes ---- */

uint32_t key_of(const struct end *e, int side, uint32_t number)
{
	return (uint32_t)(e - ends) * 1000003 + (uint32_t)side * 77 +
	       conn_of(e)->half[side].gen * 7919 + number * 13;
}

uint8_t pattern(uint32_t key, uint32_t i)
{
	return (uint8_t)(key * 31 + i * 7 + i / 251);
}

void fill(uint8_t *to, uint32_t key, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = pattern(key, i);
}

static uint8_t *send_slot(struct end *e, uint32_t i)
{
	return e->mem + (size_t)(i % DEPTH) * conn_of(e)->max;
}

static uint8_t *recv_slot(struct end *e, uint32_t i)
{
	return e->mem + (size_t)DEPTH * conn_of(e)->max + i % DEPTH * e->slot;
}

uint8_t *source_of(struct end *e)
{
	return e->target + TARGET + WORDS * sizeof(uint64_t);
}

static uint64_t wr_id(enum kind kind, const struct end *e, uint32_t index)
{
	return (uint64_t)kind << 60 | (uint64_t)(e - ends) << 48 |
	       (uint64_t)(mine(e)->gen & 0xffff) << 32 | index;
}

/* ---- Receives ---- */

/* Cuts a length into pieces, with gaps between them. */
static int cut(struct ibv_sge *sge, uint8_t *at, uint32_t len, uint32_t lkey, uint32_t gap)
{
	int n = 0;

	while (n < SGES - 1 && len > 1 && below(2)) {
		uint32_t piece = 1 + (uint32_t)below(len - 1);

		sge[n++] = (struct ibv_sge){ (uintptr_t)at, piece, lkey };
		at += piece + gap;
		len -= piece;
	}
	sge[n++] = (struct ibv_sge){ (uintptr_t)at, len, lkey };
	return n;
}

static void post_receive(struct end *e)
{
	uint32_t i = e->recvs, len = conn_of(e)->max + (is(e, IBV_QPT_UD) ? GRH : 0);
	struct receive *r = &e->recv[i % DEPTH];
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id(RECV, e, i), .sg_list = r->sge };
	int err;

	EXPECT(!r->posted, AT(e) "receive slot %u in use", WHERE(e), i);
	memset(recv_slot(e, i), CANARY, e->slot);
	r->n = wr.num_sge = cut(r->sge, recv_slot(e, i), len, e->mr->lkey, GAP);
	r->posted = true;
	e->recvs++;
	err = e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
	EXPECT(err == 0, AT(e) "post_recv: %d", WHERE(e), err);
}

void refill(struct end *e, uint32_t most)
{
	while (e->open && !e->stopped && most-- && e->recvs - e->recvs_done < DEPTH)
		post_receive(e);
}

/*
 * The bytes of a receive are those of the message, and what is behind them is unchanged. A message
 * of UC whose end is lost on the wire leaves bytes in the receive, which is that of the next one.
 */
static void check_bytes(struct end *e, uint32_t i, uint32_t seq, uint32_t len, uint32_t hidden)
{
	uint32_t key = key_of(e, !me, seq);
	const struct receive *r = &e->recv[i % DEPTH];
	const uint8_t *at = recv_slot(e, i), *end = at + e->slot;
	bool reused = is(e, IBV_QPT_UC) && !shared->lossless;
	uint32_t k = 0;

	for (int s = 0; s < r->n; s++) {
		const uint8_t *from = (const uint8_t *)(uintptr_t)r->sge[s].addr;

		for (; at < from; at++)
			EXPECT(reused || *at == CANARY, AT(e) "byte between SGEs", WHERE(e));
		for (; at < from + r->sge[s].length && k < hidden + len; at++, k++)
			EXPECT(k < hidden || *at == pattern(key, k - hidden),
			       AT(e) "message %u of %u bytes: byte %u is 0x%x", WHERE(e), seq,
			       len, k - hidden, *at);
	}
	for (; at < end; at++)
		EXPECT(reused || *at == CANARY, AT(e) "byte behind a message of %u", WHERE(e),
		       len);
}

static uint32_t imm_of(const struct end *e, int side, uint32_t seq)
{
	return htonl(conn_of(e)->half[side].gen << 20 | (seq & 0xfffff));
}

static bool has_imm(uint8_t opcode)
{
	return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/*
 * Which message it is, and that it has not come before. Unreliable ones may be lost; by the wire
 * one that another process has handed over may be late.
 */
static uint32_t number_of(struct end *e, const struct ibv_wc *wc)
{
	uint32_t from = ntohl(wc->imm_data), ahead = (from - e->next_in) & 0xfffff, seq;
	bool late = ahead >= LOG / 2;

	if (is(e, IBV_QPT_RC))
		return e->next_in++;
	EXPECT(from >> 20 == (peers(e)->gen & 0xfff), AT(e) "message %u of generation %u, not %u",
	       WHERE(e), from & 0xfffff, from >> 20, peers(e)->gen);
	seq = e->next_in + ahead - (late ? 1 << 20 : 0);
	EXPECT(!late || (!shared->lossless && e->next_in - seq < LOG / 2 &&
			 e->seen[seq % LOG] != seq + 1),
	       AT(e) "message %u after %u", WHERE(e), seq, e->next_in);
	e->seen[seq % LOG] = seq + 1;
	if (!late)
		e->next_in = seq + 1;
	return seq;
}

static void check_message(struct end *e, uint32_t i, const struct ibv_wc *wc)
{
	bool wrote = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	uint32_t hidden = is(e, IBV_QPT_UD) ? GRH : 0, seq = number_of(e, wc);
	const struct message *m;

	m = &peers(e)->log[seq % LOG];
	EXPECT(seq != load_acquire(&peers(e)->sent) && m->seq == seq,
	       AT(e) "message %u, of %u sent", WHERE(e), seq, peers(e)->sent);
	EXPECT(wrote == (m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
	       (wrote || wc->opcode == IBV_WC_RECV) && wc->byte_len == m->len + hidden,
	       AT(e) "message %u: opcode %d, %u bytes of %u", WHERE(e), seq, wc->opcode,
	       wc->byte_len, m->len);
	EXPECT((bool)(wc->wc_flags & IBV_WC_WITH_IMM) == has_imm(m->opcode) &&
	       (!has_imm(m->opcode) || wc->imm_data == imm_of(e, !me, seq)) &&
	       (bool)(wc->wc_flags & IBV_WC_WITH_INV) == (m->opcode == IBV_WR_SEND_WITH_INV) &&
	       (m->opcode != IBV_WR_SEND_WITH_INV || wc->invalidated_rkey == m->invalidates),
	       AT(e) "message %u: flags 0x%x, immediate 0x%x", WHERE(e), seq, wc->wc_flags,
	       wc->imm_data);
	check_bytes(e, i, seq, wrote ? 0 : m->len, wrote ? 0 : hidden);
	if (m->opcode == IBV_WR_SEND_WITH_INV) {
		EXPECT(e->bound == m->invalidates, AT(e) "window", WHERE(e));
		e->bound = 0;
	}
	shared->messages[me]++;
	shared->bytes[me] += m->len;
	store_release(&mine(e)->received, e->next_in);
}

static void received(struct end *e, uint32_t i, const struct ibv_wc *wc)
{
	EXPECT(e->recv[i % DEPTH].posted && i == e->recvs_done,
	       AT(e) "receive %u completed, not %u", WHERE(e), i, e->recvs_done);
	EXPECT(wc->qp_num == mine(e)->qpn, AT(e) "qp_num 0x%x", WHERE(e), wc->qp_num);
	if (wc->status == IBV_WC_SUCCESS)
		check_message(e, i, wc);
	else
		EXPECT(disturbed(e) & CHANGED ||
		       (disturbed(e) && wc->status == IBV_WC_WR_FLUSH_ERR),
		       AT(e) "receive: %s, vendor_err %u", WHERE(e),
		       ibv_wc_status_str(wc->status), wc->vendor_err);
	e->recv[i % DEPTH].posted = false;
	e->recvs_done++;
}

/* ---- Requests ---- */

static uint32_t some_length(const struct end *e)
{
	uint32_t max = conn_of(e)->max;

	switch (below(6)) {
	case 0:
		return (uint32_t)below(4);
	case 1:
		return max - (uint32_t)below(4);
	case 2:
		return (uint32_t)below(max + 1);
	default:
		return (uint32_t)below(min(max, 5000u));
	}
}

static enum ibv_wr_opcode some_opcode(struct end *e)
{
	static const enum ibv_wr_opcode all[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV,
	};
	enum ibv_wr_opcode o;

	if (is(e, IBV_QPT_UD))
		return IBV_WR_SEND_WITH_IMM;
	o = all[below(is(e, IBV_QPT_UC) ? 3 : ARRAY_SIZE(all))];
	if (o == IBV_WR_BIND_MW && (e->bound || e->bind_open || !e->mw))
		return IBV_WR_SEND;
	if (o == IBV_WR_SEND_WITH_INV && !load_acquire(&peers(e)->window))
		return IBV_WR_SEND;
	/* What is written behind a READ may show in it, if its answer is lost. */
	if (e->reading && (o == IBV_WR_RDMA_WRITE || o == IBV_WR_RDMA_WRITE_WITH_IMM))
		return IBV_WR_SEND_WITH_IMM;
	return o;
}

static bool is_message(enum ibv_wr_opcode o)
{
	return has_imm(o) || o == IBV_WR_SEND || o == IBV_WR_SEND_WITH_INV;
}

static bool is_atomic(enum ibv_wr_opcode o)
{
	return o == IBV_WR_ATOMIC_FETCH_AND_ADD || o == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static bool fetches(enum ibv_wr_opcode o)
{
	return o == IBV_WR_RDMA_READ || is_atomic(o);
}

/* The key of the peer's target: of the region, or of the window on it. */
static uint32_t some_rkey(const struct end *e)
{
	uint32_t window = load_acquire(&peers(e)->window);

	return window && below(2) ? window : peers(e)->rkey;
}

static void describe_atomic(struct end *e, struct op *o, struct ibv_send_wr *wr)
{
	uint64_t *word;

	o->at = (uint32_t)below(WORDS);
	o->len = sizeof(*word);
	word = &peers(e)->word[o->at];
	o->result = *word;
	wr->wr.atomic.remote_addr = peers(e)->target + TARGET + o->at * sizeof(*word);
	wr->wr.atomic.rkey = peers(e)->rkey;
	wr->wr.atomic.compare_add = o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? below(1000) :
				    below(3) ? *word : ~*word;
	wr->wr.atomic.swap = below(1000000);
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		*word += wr->wr.atomic.compare_add;
	else if (wr->wr.atomic.compare_add == *word)
		*word = wr->wr.atomic.swap;
}

static void describe_write(struct end *e, struct op *o, struct ibv_send_wr *wr, uint8_t *from)
{
	o->at = (uint32_t)below(TARGET - o->len + 1);
	wr->wr.rdma.remote_addr = peers(e)->target + o->at;
	wr->wr.rdma.rkey = o->bad ? 0x77 : some_rkey(e);
	fill(from, key_of(e, me, WRITTEN + e->posted), o->len);
	if (is(e, IBV_QPT_RC) && !o->bad && !e->failed)
		memcpy(peers(e)->image + o->at, from, o->len);
}

static void describe_read(struct end *e, struct op *o, struct ibv_send_wr *wr)
{
	o->len = min(o->len, (uint32_t)SOURCE);
	o->at = (uint32_t)below(SOURCE - o->len + 1);
	wr->wr.rdma.remote_addr = peers(e)->target + REMOTE - SOURCE + o->at;
	wr->wr.rdma.rkey = peers(e)->rkey;
	e->reading = true;
}

static void describe_bind(struct end *e, struct op *o, struct ibv_send_wr *wr)
{
	o->len = 0;
	o->at = e->window_key = ibv_inc_rkey(e->window_key);
	wr->bind_mw.mw = e->mw;
	wr->bind_mw.rkey = o->at;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = e->target_mr, .addr = (uintptr_t)e->target, .length = TARGET,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	e->bind_open = true;
}

static void describe_message(struct end *e, struct op *o, struct ibv_send_wr *wr, uint8_t *from)
{
	struct half *h = mine(e);

	o->seq = h->sent;
	h->log[o->seq % LOG] = (struct message){ o->seq, o->len, (uint8_t)o->opcode, 0 };
	wr->imm_data = imm_of(e, me, o->seq);
	if (o->opcode == IBV_WR_SEND_WITH_INV) {
		wr->invalidate_rkey = h->log[o->seq % LOG].invalidates = peers(e)->window;
		store_release(&peers(e)->window, 0);
	}
	if (o->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		fill(from, key_of(e, me, o->seq), o->len);
	if (is(e, IBV_QPT_UD)) {
		wr->wr.ud.ah = e->ah;
		wr->wr.ud.remote_qpn = peers(e)->qpn;
		wr->wr.ud.remote_qkey = WORLD_QKEY;
	}
	store_release(&h->sent, o->seq + 1);
}

/* A request of any kind, or this one. */
static void describe(struct end *e, struct ibv_send_wr *wr, struct ibv_sge *sge, bool signaled,
		     bool bad)
{
	uint8_t *from = send_slot(e, e->posted);
	struct op *o = &e->op[e->posted % DEPTH];

	*o = (struct op){ .opcode = bad ? IBV_WR_RDMA_WRITE : some_opcode(e),
			  .len = some_length(e), .bad = bad };
	if (bad)
		o->len += !o->len;
	o->message = is_message(o->opcode);
	*wr = (struct ibv_send_wr){ .wr_id = wr_id(SEND, e, e->posted), .sg_list = sge,
				    .opcode = o->opcode };
	if (is_atomic(o->opcode))
		describe_atomic(e, o, wr);
	else if (o->opcode == IBV_WR_RDMA_READ)
		describe_read(e, o, wr);
	else if (o->opcode == IBV_WR_BIND_MW)
		describe_bind(e, o, wr);
	else if (o->opcode == IBV_WR_RDMA_WRITE || o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		describe_write(e, o, wr, from);
	if (o->message)
		describe_message(e, o, wr, from);
	wr->num_sge = o->opcode == IBV_WR_BIND_MW ? 0 : cut(sge, from, o->len, e->mr->lkey, 0);
	o->signaled = signaled || fetches(o->opcode) || o->opcode == IBV_WR_BIND_MW || below(2) ||
		      e->posted - e->done == DEPTH - 1;
	if (o->signaled)
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (below(8) == 0 && o->message)
		wr->send_flags |= IBV_SEND_SOLICITED;
	if (o->len <= INLINE && below(2) && !fetches(o->opcode) && o->opcode != IBV_WR_BIND_MW)
		wr->send_flags |= IBV_SEND_INLINE;
	e->posted++;
}

void post(struct end *e, int max, bool signaled, bool bad)
{
	struct ibv_send_wr wr[4], *failed;
	struct ibv_sge sge[4][SGES];
	int n = 0, err;

	if (!e->open || e->stopped)
		return;
	while (n < max && e->posted - e->done < DEPTH) {
		describe(e, &wr[n], sge[n], signaled && n == max - 1, bad && !n);
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return;
	err = ibv_post_send(e->qp, wr, &failed);
	EXPECT(err == 0, AT(e) "post_send: %d, state %d", WHERE(e), err, e->qp->state);
	for (int i = 0; i < n; i++)
		for (int k = 0; wr[i].send_flags & IBV_SEND_INLINE && k < wr[i].num_sge; k++)
			memset((void *)(uintptr_t)sge[i][k].addr, 0xee, sge[i][k].length);
}

static void check_success(struct end *e, uint32_t i, const struct op *o)
{
	uint8_t *at = send_slot(e, i);

	EXPECT(!o->bad, AT(e) "a wrong key", WHERE(e));
	if (o->opcode == IBV_WR_RDMA_READ)
		for (uint32_t k = 0; k < o->len; k++)
			EXPECT(at[k] == pattern(key_of(e, !me, SOURCE_BYTES), o->at + k),
			       AT(e) "READ of %u bytes: byte %u", WHERE(e), o->len, k);
	if (is_atomic(o->opcode))
		EXPECT(!memcmp(at, &o->result, sizeof(o->result)), AT(e) "atomic", WHERE(e));
	if (o->opcode == IBV_WR_BIND_MW) {
		e->bound = o->at;
		e->bind_open = false;
		store_release(&mine(e)->window, o->at);
	}
}

static void check_failure(struct end *e, const struct op *o, const struct ibv_wc *wc)
{
	bool flushed = wc->status == IBV_WC_WR_FLUSH_ERR;
	uint32_t how = disturbed(e);

	EXPECT(how, AT(e) "opcode %d, %u bytes: %s, vendor_err %u", WHERE(e), o->opcode, o->len,
	       ibv_wc_status_str(wc->status), wc->vendor_err);
	EXPECT(flushed || !e->failed, AT(e) "%s after a failure", WHERE(e),
	       ibv_wc_status_str(wc->status));
	EXPECT(flushed || (is(e, IBV_QPT_RC) &&
			   (wc->status == IBV_WC_RETRY_EXC_ERR || how & CHANGED ||
			    (o->bad && wc->status == IBV_WC_REM_ACCESS_ERR))),
	       AT(e) "%s, vendor_err %u", WHERE(e), ibv_wc_status_str(wc->status),
	       wc->vendor_err);
	EXPECT(!is(e, IBV_QPT_RC) || !o->message || !shared->lossless || o->seq >= e->shown,
	       AT(e) "message %u of %u bytes, opcode %d, has arrived, of %u: %s", WHERE(e), o->seq,
	       o->len, o->opcode, e->shown, ibv_wc_status_str(wc->status));
}

static void sent(struct end *e, uint32_t i, const struct ibv_wc *wc)
{
	struct op *o = &e->op[i % DEPTH];

	EXPECT(i - e->done < e->posted - e->done, AT(e) "request %u completed, of %u to %u",
	       WHERE(e), i, e->done, e->posted);
	EXPECT(wc->qp_num == mine(e)->qpn, AT(e) "qp_num 0x%x", WHERE(e), wc->qp_num);
	for (uint32_t k = e->done; k != i; k++)
		EXPECT(!e->op[k % DEPTH].signaled && !e->failed,
		       AT(e) "request %u completed before %u", WHERE(e), i, k);
	if (wc->status == IBV_WC_SUCCESS) {
		EXPECT(!e->failed, AT(e) "success after a failure", WHERE(e));
		check_success(e, i, o);
	} else {
		/* What the peer had shown by then; later is no proof of an order. */
		if (!e->failed && wc->status != IBV_WC_WR_FLUSH_ERR)
			e->shown = load_acquire(&peers(e)->received);
		check_failure(e, o, wc);
		e->failed = true;
	}
	e->done = i + 1;
	e->reading = false;
	for (uint32_t k = e->done; k != e->posted; k++)
		e->reading |= e->op[k % DEPTH].opcode == IBV_WR_RDMA_READ;
}

unsigned int poll_cqs(void)
{
	unsigned int sum = 0;

	for (int c = 0; c < 2; c++) {
		struct ibv_wc wc[8];
		int n = ibv_poll_cq(cqs[c], 1 + (int)below(8), wc);

		EXPECT(n >= 0, "poll_cq: %d", n);
		for (int i = 0; i < n; i++) {
			struct end *e = &ends[wc[i].wr_id >> 48 & 0xfff];

			EXPECT(e->open && (wc[i].wr_id >> 32 & 0xffff) == (mine(e)->gen & 0xffff),
			       "a completion of a connection that is gone: %llx, %s",
			       (unsigned long long)wc[i].wr_id, ibv_wc_status_str(wc[i].status));
			if (wc[i].wr_id >> 60 == SEND)
				sent(e, (uint32_t)wc[i].wr_id, &wc[i]);
			else
				received(e, (uint32_t)wc[i].wr_id, &wc[i]);
		}
		sum += (unsigned int)n;
	}
	shared->completions[me] += sum;
	return sum;
}
