/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory, keys, receive queues, completions and events of a simulated host; struct wq_ops over
 * them.
 */
#include "core/rx/reorder.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"
#include "world.h"

static struct sim_qp *to_sim(struct wq_qp *wq)
{
	return container_of(wq, struct sim_qp, wq);
}

static struct world *world_of(struct wq_qp *wq)
{
	return to_sim(wq)->host->world;
}

static bool key_taken(const struct sim_host *h, uint32_t key)
{
	for (uint32_t i = 0; i < h->nkeys; i++)
		if (h->key[i].lkey == key || h->key[i].rkey == key)
			return true;
	return key == 0;
}

static uint32_t new_key(struct sim_host *h)
{
	uint32_t key;

	do
		key = rng_next(&h->world->rng);
	while (key_taken(h, key));
	return key;
}

static struct sim_key *add_key(struct sim_host *h)
{
	world_check(h->world, h->nkeys < SIM_MAX_KEYS, "too many keys on host %u", h->number);
	return &h->key[h->nkeys++];
}

struct sim_key *sim_reg_mr(struct sim_host *h, uint32_t pd, uint64_t va, uint64_t len,
			   uint32_t access)
{
	uint32_t lkey = new_key(h), rkey = new_key(h);
	struct sim_key *k = add_key(h);

	*k = (struct sim_key){
		.lkey = lkey, .rkey = rkey, .va = va, .len = len, .access = access, .pd = pd,
		.valid = true,
	};
	return k;
}

struct sim_key *sim_bind_window(struct sim_host *h, uint32_t pd, uint64_t va, uint64_t len,
				uint32_t access, uint32_t only_qpn)
{
	uint32_t rkey = new_key(h);
	struct sim_key *k = add_key(h);

	*k = (struct sim_key){
		.rkey = rkey, .va = va, .len = len, .access = access, .pd = pd,
		.only_qpn = only_qpn, .window = true, .valid = true,
	};
	return k;
}

static struct sim_key *find_key(struct sim_host *h, uint32_t key, bool local)
{
	for (uint32_t i = 0; i < h->nkeys; i++) {
		struct sim_key *k = &h->key[i];

		if (k->valid && key && (local ? k->lkey : k->rkey) == key)
			return k;
	}
	return NULL;
}

static const uint32_t access_needed[] = {
	[MEM_LOCAL_READ] = 0,
	[MEM_LOCAL_WRITE] = IBV_ACCESS_LOCAL_WRITE,
	[MEM_RECV_WRITE] = IBV_ACCESS_LOCAL_WRITE,
	[MEM_REMOTE_READ] = IBV_ACCESS_REMOTE_READ,
	[MEM_REMOTE_WRITE] = IBV_ACCESS_REMOTE_WRITE,
	[MEM_REMOTE_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC,
	[MEM_REMOTE_FLUSH_GLOBAL] = IBV_ACCESS_FLUSH_GLOBAL,
	[MEM_REMOTE_FLUSH_PERSISTENT] = IBV_ACCESS_FLUSH_PERSISTENT,
};

static enum reason check(struct sim_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			 enum mem_access access, struct sim_key **found)
{
	bool local = !mem_access_is_remote(access);
	struct sim_key *k = find_key(qp->host, key, local);

	if (!k)
		return local ? REASON_LKEY_UNKNOWN : REASON_RKEY_UNKNOWN;
	if (k->pd != qp->pd)
		return local ? REASON_LKEY_PD : REASON_RKEY_PD;
	if (k->only_qpn && k->only_qpn != qp->wq.qpn)
		return REASON_RKEY_WINDOW_QP;
	if (va < k->va || len > k->len || va - k->va > k->len - len)
		return local ? REASON_LKEY_RANGE : REASON_RKEY_RANGE;
	if ((k->access & access_needed[access]) != access_needed[access])
		return local ? REASON_LKEY_ACCESS : REASON_RKEY_ACCESS;
	*found = k;
	return REASON_NONE;
}

static enum reason mem_check(struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
			     enum mem_access access)
{
	struct sim_key *k;

	return check(to_sim(wq), key, va, len, access, &k);
}

static enum reason mem_read(struct wq_qp *wq, uint32_t key, uint64_t va, void *dst, uint32_t len,
			    enum mem_access access)
{
	struct sim_key *k;
	enum reason why = check(to_sim(wq), key, va, len, access, &k);
	uint8_t *p = dst;

	if (why)
		return why;
	if (!k->fake)
		memcpy(dst, sim_ptr(to_sim(wq)->host, va), len);
	else if (len)
		for (uint32_t i = 0; i < len; i += max(len - 1, 1u))
			p[i] = sim_fake_byte(va + i);
	return REASON_NONE;
}

/* Checks the first and the last byte: they must be those of the sender's fake region at va. */
static void write_fake(struct sim_qp *qp, uint64_t va, const uint8_t *src, uint32_t len)
{
	struct sim_host *h = qp->host;

	world_check(h->world,
		    !len || (src[0] == sim_fake_byte(va) &&
			     src[len - 1] == sim_fake_byte(va + len - 1)),
		    "wrong data at 0x%llx", (unsigned long long)va);
	h->fake_bytes_written += len;
}

static enum reason mem_write(struct wq_qp *wq, uint32_t key, uint64_t va, const void *src,
			     uint32_t len, enum mem_access access)
{
	struct sim_key *k;
	enum reason why = check(to_sim(wq), key, va, len, access, &k);

	if (why)
		return why;
	if (k->fake)
		write_fake(to_sim(wq), va, src, len);
	else
		memcpy(sim_ptr(to_sim(wq)->host, va), src, len);
	return REASON_NONE;
}

static enum reason mem_atomic(struct wq_qp *wq, uint32_t rkey, uint64_t va, enum atomic_op op,
			      uint64_t compare_add, uint64_t swap, uint64_t *original)
{
	struct sim_qp *qp = to_sim(wq);
	struct sim_key *k;
	enum reason why = check(qp, rkey, va, 8, MEM_REMOTE_ATOMIC, &k);
	uint64_t v;

	world_check(qp->host->world, va % 8 == 0, "unaligned atomic reached memory");
	if (why)
		return why;
	memcpy(&v, sim_ptr(qp->host, va), 8);
	*original = v;
	if (op == ATOMIC_OP_FETCH_ADD)
		v += compare_add;
	else if (v == compare_add)
		v = swap;
	memcpy(sim_ptr(qp->host, va), &v, 8);
	return REASON_NONE;
}

static enum reason mem_atomic_write(struct wq_qp *wq, uint32_t rkey, uint64_t va, uint64_t value)
{
	struct sim_qp *qp = to_sim(wq);
	struct sim_key *k;
	enum reason why = check(qp, rkey, va, 8, MEM_REMOTE_WRITE, &k);

	world_check(qp->host->world, va % 8 == 0, "unaligned atomic write reached memory");
	if (!why)
		memcpy(sim_ptr(qp->host, va), &value, 8);
	return why;
}

static enum reason mem_flush(struct wq_qp *wq, uint32_t rkey, uint64_t va, uint64_t len,
			     uint8_t placement, uint8_t selectivity, bool *later)
{
	struct sim_qp *qp = to_sim(wq);
	struct sim_key *k;

	qp->flushes++;
	return selectivity ? check(qp, rkey, qp->host->base, 0, MEM_REMOTE_FLUSH_GLOBAL, &k) :
			     check(qp, rkey, va, len, MEM_REMOTE_FLUSH_GLOBAL, &k);
}

static enum reason invalidate(struct wq_qp *wq, uint32_t rkey, bool remote)
{
	struct sim_qp *qp = to_sim(wq);
	struct sim_key *k = find_key(qp->host, rkey, false);

	if (!k || !k->window || k->pd != qp->pd || (k->only_qpn && k->only_qpn != wq->qpn))
		return remote ? REASON_REQ_INVALIDATE : REASON_WR_INVALIDATE;
	k->valid = false;
	qp->invalidations++;
	return REASON_NONE;
}

static enum reason bind_mw(struct wq_qp *wq, const struct send_wqe *w)
{
	to_sim(wq)->binds++;
	return REASON_NONE;
}

static struct sim_srq *find_srq(struct sim_qp *qp, uint32_t srqn, enum reason *why)
{
	struct sim_host *h = qp->host;

	if (qp->srq)
		return qp->srq;
	for (uint32_t i = 0; i < h->nsrqs; i++)
		if (h->srq[i]->number == srqn && h->srq[i]->xrcd == qp->wq.xrcd)
			return h->srq[i];
	*why = REASON_REQ_XRC_SRQ;
	return NULL;
}

static struct recv_wqe *take_srq_recv(struct sim_qp *qp, uint32_t srqn, enum reason *why)
{
	struct sim_srq *srq = find_srq(qp, srqn, why);

	if (!srq || srq->next == srq->n)
		return NULL;
	return srq->wqe[srq->next++];
}

static struct recv_wqe *recv_take(struct wq_qp *wq, uint32_t srqn, const struct wq_head *head,
				  enum reason *why)
{
	struct sim_qp *qp = to_sim(wq);

	world_check(world_of(wq), !qp->taken, "QP 0x%x takes a second receive", wq->qpn);
	*why = REASON_NONE;
	if (wq->has_srq)
		qp->taken = take_srq_recv(qp, srqn, why);
	else if (wq->rq.next != wq->rq.head)
		qp->taken = rq_wqe(&wq->rq, wq->rq.next++);
	return qp->taken;
}

/* Makes wqe the next one to be taken, before those that other QPs took meanwhile. */
static void return_srq_recv(struct world *w, struct sim_srq *srq, struct recv_wqe *wqe)
{
	uint32_t i = srq ? srq->next : 0;

	world_check(w, i, "no receive to return");
	while (i-- && srq->wqe[i] != wqe)
		;
	srq->next--;
	memmove(&srq->wqe[i], &srq->wqe[i + 1], (srq->next - i) * sizeof(*srq->wqe));
	srq->wqe[srq->next] = wqe;
}

static void recv_untake(struct wq_qp *wq)
{
	struct sim_qp *qp = to_sim(wq);

	world_check(world_of(wq), qp->taken, "QP 0x%x returns a receive it does not hold", wq->qpn);
	if (wq->has_srq)
		return_srq_recv(world_of(wq), qp->srq, qp->taken);
	else
		wq->rq.next--;
	qp->taken = NULL;
}

static void append_cqe(struct sim_cqes *c, const struct wq_cqe *cqe)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 32;
		c->v = realloc(c->v, c->cap * sizeof(*c->v));
	}
	c->v[c->n++] = *cqe;
}

static void complete_recv(struct sim_qp *qp, const struct wq_cqe *cqe)
{
	struct world *w = qp->host->world;
	struct wq_qp *wq = &qp->wq;

	if (qp->taken)
		world_check(w, cqe->wr_id == qp->taken->wr_id,
			    "completion of receive 0x%llx while 0x%llx is held",
			    (unsigned long long)cqe->wr_id, (unsigned long long)qp->taken->wr_id);
	else
		world_check(w, cqe->status == IBV_WC_WR_FLUSH_ERR,
			    "receive completion %u without a receive", cqe->status);
	qp->taken = NULL;
	if (!wq->has_srq) {
		world_check(w, cqe->release == wq->rq.next, "receive releases %u instead of %u",
			    cqe->release, wq->rq.next);
		wq->rq.released = cqe->release;
	}
	append_cqe(&qp->recv_cqes, cqe);
}

static void complete(struct wq_qp *wq, struct wq_cqe *cqe)
{
	struct sim_qp *qp = to_sim(wq);
	struct world *w = world_of(wq);

	trace_cqe(w->trace, w->now, qp->host->number, wq->qpn, cqe);
	w->last_cqe = w->now;
	qp->progressed = true;
	if (cqe->recv) {
		complete_recv(qp, cqe);
		return;
	}
	world_check(w, cqe->release == wq->sq.done, "send releases %u while done is %u",
		    cqe->release, wq->sq.done);
	wq->sq.released = cqe->release;
	append_cqe(&qp->send_cqes, cqe);
}

static void event(struct wq_qp *wq, enum ibv_event_type type)
{
	struct sim_qp *qp = to_sim(wq);
	struct world *w = world_of(wq);

	trace_note(w->trace, w->now, TRACE_EVENT, qp->host->number, wq->qpn, 0, type, 0);
	qp->progressed = true;
	qp->events[type]++;
}

/* The engine counts them. */
static void dropped(struct wq_qp *wq, enum reason why)
{
}

static void violated(struct wq_qp *wq, enum key_violation which)
{
}

const struct wq_ops sim_ops = {
	.mem_check = mem_check,
	.mem_read = mem_read,
	.mem_write = mem_write,
	.mem_atomic = mem_atomic,
	.mem_atomic_write = mem_atomic_write,
	.mem_flush = mem_flush,
	.invalidate = invalidate,
	.bind_mw = bind_mw,
	.recv_take = recv_take,
	.recv_untake = recv_untake,
	.complete = complete,
	.dropped = dropped,
	.violated = violated,
	.event = event,
};

struct sim_srq *sim_create_srq(struct sim_host *h, uint32_t number, uint32_t xrcd)
{
	struct sim_srq *srq = calloc(1, sizeof(*srq));

	srq->number = number;
	srq->xrcd = xrcd;
	world_check(h->world, h->nsrqs < ARRAY_SIZE(h->srq), "too many SRQs");
	return h->srq[h->nsrqs++] = srq;
}

static void free_srq(struct sim_srq *srq)
{
	for (uint32_t i = 0; i < srq->n; i++)
		free(srq->wqe[i]);
	free(srq->wqe);
	free(srq);
}

static void free_qp(struct sim_qp *qp)
{
	reorder_free(&qp->held);
	path_leave(&qp->host->shares, &qp->share);
	free(qp->wq.sq.ring.slots);
	free(qp->wq.rq.ring.slots);
	free(qp->send_cqes.v);
	free(qp->recv_cqes.v);
	free(qp);
}

void sim_host_free(struct sim_host *h)
{
	for (uint32_t i = 0; i < h->nqps; i++)
		free_qp(h->qp[i]);
	for (uint32_t i = 0; i < h->nsrqs; i++)
		free_srq(h->srq[i]);
	free(h->mem);
	free(h);
}
