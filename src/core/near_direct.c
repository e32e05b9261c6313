/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that run in a neighbour's memory, and payloads that are pulled from it: memory is pinned by its keys, then copied by
 * local/onesided.h; near.h has the contract.
 *
 * Locks: under qp->lock; takes the key table's references below it.
 */
#include <errno.h>

#include "core/mr.h"
#include "core/near.h"
#include "core/process.h"
#include "core/qp.h"
#include "local/onesided.h"
#include "util/compiler.h"

enum {
	LIST_BYTES = 256 * 1024,	/* a list of requests is cut into calls of this size */
	BOUNCE = 4096,		/* pieces of a payload that cannot go straight to its place */
};

/* Memory of one or more requests, held until they are done. */
struct pinned {
	unsigned int n;
	const struct mr_entry *last;	/* held already, for pieces of the same region; NULL: none */
	struct wq_seg seg[ONESIDED_SEGS];
	struct mr_entry *entry[ONESIDED_SEGS];	/* NULL: needs no reference of its own */
};

static void pinned_init(struct pinned *p)
{
	p->n = 0;
	p->last = NULL;
}

static void unpin(struct pinned *p, unsigned int from)
{
	if (p->n > from)
		p->last = NULL;
	while (p->n > from) {
		if (p->entry[--p->n])
			vrb_mem_unpin(p->entry[p->n]);
	}
}

static bool pin_piece(struct pinned *p, struct wq_qp *wq, const struct ibv_sge *sge,
		      enum mem_access access)
{
	struct wq_seg *seg = &p->seg[p->n];
	struct mr_entry **entry = &p->entry[p->n];

	if (p->n == ONESIDED_SEGS)
		return false;
	*entry = NULL;
	if (!p->last || !vrb_mem_pinned(wq, p->last, sge->lkey, sge->addr, sge->length, access, seg)) {
		if (vrb_mem_pin(wq, sge->lkey, sge->addr, sge->length, access, seg, entry) !=
		    REASON_NONE)
			return false;
		p->last = *entry;
	}
	p->n++;
	return true;
}

static bool pin(struct pinned *p, struct wq_qp *wq, const struct send_wqe *w,
		enum mem_access access)
{
	unsigned int first = p->n;

	if (w->flags & WQE_DATA_INLINE) {
		if (p->n == ONESIDED_SEGS)
			return false;
		p->entry[p->n] = NULL;
		p->seg[p->n++] = (struct wq_seg){ (uintptr_t)w->sge, w->length };
		return true;
	}
	for (uint32_t i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *sge = &w->sge[i];

		if (sge->length == 0)
			continue;
		if (!pin_piece(p, wq, sge, access)) {
			unpin(p, first);
			return false;
		}
	}
	return true;
}

/* As many requests of one kind as follow each other, up to what fits. */
static unsigned int gather(struct onesided *o, struct pinned *p, struct wq_qp *wq, uint32_t opcode)
{
	bool write = opcode == IBV_WR_RDMA_WRITE;
	unsigned int n = 0;

	while (wq->sq.next + n != wq->sq.head && n < ONESIDED_OPS && o->total < LIST_BYTES) {
		const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next + n);
		unsigned int first = p->n;

		if (w->opcode != opcode || w->doom || w->length > wq->max_msg)
			break;
		if (!pin(p, wq, w, write ? MEM_LOCAL_READ : MEM_LOCAL_WRITE))
			break;
		if (!onesided_add(o, w->rkey, w->remote_addr, w->length,
				  write ? MEM_REMOTE_WRITE : MEM_REMOTE_READ, &p->seg[first],
				  p->n - first)) {
			unpin(p, first);
			break;
		}
		n++;
	}
	return n;
}

static unsigned int run_copies(struct onesided *o, struct wq_qp *wq, uint32_t opcode)
{
	struct pinned p;
	unsigned int n;

	pinned_init(&p);
	n = gather(o, &p, wq, opcode);
	if (n)
		n = opcode == IBV_WR_RDMA_WRITE ? onesided_write(o) : onesided_read(o);
	unpin(&p, 0);
	return n;
}

/* To where the request wants it, which may have gone since it was pinned: registered memory can be unmapped. */
static enum reason store_original(struct wq_qp *wq, const struct send_wqe *w, uint64_t original)
{
	enum reason why = REASON_NONE;

	for (unsigned int i = 0, at = 0; i < w->num_sge && why == REASON_NONE; at += w->sge[i++].length)
		why = vrb_mem_write(wq, w->sge[i].lkey, w->sge[i].addr, (uint8_t *)&original + at,
				    w->sge[i].length, MEM_LOCAL_WRITE);
	return why;
}

static unsigned int run_atomic(struct onesided *o, struct wq_qp *wq, const struct send_wqe *w,
			       enum reason *why)
{
	enum atomic_op op = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? ATOMIC_OP_CMP_SWAP :
								      ATOMIC_OP_FETCH_ADD;
	struct pinned p;
	uint64_t original;
	bool done;

	pinned_init(&p);
	if (w->length != sizeof(original) || w->remote_addr % sizeof(original) ||
	    !pin(&p, wq, w, MEM_LOCAL_WRITE))
		return 0;
	done = onesided_add(o, w->rkey, w->remote_addr, w->length, MEM_REMOTE_ATOMIC, p.seg, p.n) &&
	       onesided_atomic(o, vrb.local, op, w->atomic.compare_add, w->atomic.swap, &original);
	if (done)
		*why = store_original(wq, w, original);
	unpin(&p, 0);
	return done && *why == REASON_NONE;
}

unsigned int vrb_near_direct(struct wq_qp *wq, enum reason *why)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next);
	struct roce_counters *c = &qp->roce.counters;
	struct onesided o;
	unsigned int n = 0;

	/* READs and atomics that the responder could not answer are its business to refuse. */
	if (w->opcode != IBV_WR_RDMA_WRITE && !wq->max_rd_atomic)
		return 0;
	if (!onesided_begin(&o, qp->near.peer, wq))
		return 0;
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		n = run_copies(&o, wq, w->opcode);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		n = run_atomic(&o, wq, w, why);
		break;
	default:
		break;	/* FLUSH and ATOMIC WRITE need the owner's processor */
	}
	onesided_end(&o);
	if (n)
		*(w->opcode == IBV_WR_RDMA_WRITE ? &c->sent_bytes : &c->rcvd_bytes) += o.end[n - 1];
	return n;
}

/* Piece by piece through the check of each access: for what has no address of its own (null regions) or too many pieces. */
static enum reason pull_bounced(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
				uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
				enum mem_access access)
{
	uint8_t bounce[BOUNCE];
	uint64_t done = 0, in_sge = 0;

	while (done < total && num_dst > 0) {
		struct wq_seg here = { (uintptr_t)bounce, 0 };
		enum reason why;

		here.len = min(total - done, dst->length - in_sge);
		here.len = min(here.len, (uint64_t)sizeof(bounce));
		if (here.len && local_pull(from, offset + done, &here, 1, here.len))
			return REASON_PEER_DIED;
		why = wq->ops->mem_write(wq, dst->lkey, dst->addr + in_sge, bounce, here.len, access);
		if (why != REASON_NONE)
			return why;
		done += here.len;
		in_sge += here.len;
		if (in_sge == dst->length) {
			dst++;
			num_dst--;
			in_sge = 0;
		}
	}
	return done == total ? REASON_NONE : REASON_LKEY_RANGE;
}

enum reason vrb_near_pull(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
			  uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			  enum mem_access access)
{
	struct pinned p;
	enum reason why = REASON_NONE;
	uint64_t left = total;
	int err;

	pinned_init(&p);
	for (uint32_t i = 0; i < num_dst && left > 0 && why == REASON_NONE; i++) {
		uint64_t len = min(left, (uint64_t)dst[i].length);

		if (len == 0)
			continue;
		if (p.n == ONESIDED_SEGS)
			break;
		why = vrb_mem_pin(wq, dst[i].lkey, dst[i].addr, len, access, &p.seg[p.n],
				  &p.entry[p.n]);
		p.n += why == REASON_NONE;
		left -= len;
	}
	if (why != REASON_NONE || left > 0) {
		unpin(&p, 0);
		return pull_bounced(wq, from, offset, total, dst, num_dst, access);
	}
	if (p.n == 1 && offset == 0 && access == MEM_RECV_WRITE)
		err = vrb_near_pull_helped(wq_to_vrb_qp(wq), from, &p.seg[0], dst[0].lkey);
	else
		err = local_pull(from, offset, p.seg, p.n, total);
	unpin(&p, 0);
	if (err == EPERM || err == ENOSYS)
		local_pull_refused(vrb.local, from);
	/* Whose memory is missing? Piece by piece it shows. */
	if (err == EFAULT)
		return pull_bounced(wq, from, offset, total, dst, num_dst, access);
	return err ? REASON_PEER_DIED : REASON_NONE;
}

enum reason vrb_near_peek(const struct wq_pull *from, const struct wq_seg *to)
{
	return local_pull(from, 0, to, 1, to->len) ? REASON_PEER_DIED : REASON_NONE;
}
