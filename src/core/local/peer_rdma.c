/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes one-sided requests in the peer's memory and fetches payloads from it. Memory is pinned
 * by key and then copied by local/onesided.h; peer_link.h documents the interface.
 *
 * Locks: runs under qp->lock; takes references on key table entries below it.
 */
#include <errno.h>

#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/cq/cq.h"
#include "core/device/mirror.h"
#include "core/local/peer_link.h"
#include "core/local/peer_message.h"
#include "core/mem/mr.h"
#include "core/qp/qp.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "local/segment.h"
#include "run/clock.h"
#include "util/compiler.h"

enum {
	LIST_BYTES = 256 * 1024,	/* bytes per call, if it executes several requests */
	BOUNCE = 4096,		/* piece size of payloads copied through a bounce buffer */
};

/* Pinned memory of one or more requests. */
struct pinned {
	unsigned int n;
	/* last pinned entry, shared by pieces of the same region; NULL: none */
	const struct mr_entry *last;
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
	if (!p->last ||
	    !vrb_mem_pinned(wq, p->last, sge->lkey, sge->addr, sge->length, access, seg)) {
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

/* Gathers consecutive requests with the same opcode, as many as fit. */
static unsigned int gather(struct onesided *o, struct pinned *p, struct wq_qp *wq, uint32_t opcode)
{
	bool write = opcode == IBV_WR_RDMA_WRITE;
	unsigned int n = 0;

	while (wq->sq.next + n != wq->sq.head && n < ONESIDED_OPS && o->total < LIST_BYTES) {
		const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next + n);
		unsigned int first = p->n;

		if (w->opcode != opcode || w->error || w->length > wq->max_msg)
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

/*
 * Stores the original value. The write can fail, because the program may have unmapped the memory.
 */
static enum reason store_original(struct wq_qp *wq, const struct send_wqe *w, uint64_t original)
{
	enum reason why = REASON_NONE;

	for (unsigned int i = 0, at = 0; i < w->num_sge && why == REASON_NONE;
	     at += w->sge[i++].length)
		why = vrb_mem_write(wq, w->sge[i].lkey, w->sge[i].addr, (uint8_t *)&original + at,
				    w->sge[i].length, MEM_LOCAL_WRITE);
	return why;
}

static enum atomic_op atomic_op(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? ATOMIC_OP_CMP_SWAP : ATOMIC_OP_FETCH_ADD;
}

static unsigned int run_atomic(struct onesided *o, struct wq_qp *wq, const struct send_wqe *w,
			       enum reason *why)
{
	enum atomic_op op = atomic_op(w->opcode);
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

/* Sets ->access and ->op; false for an opcode that onesided_one() does not know. */
static inline bool set_operation(struct onesided_request *r, uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
		r->access = MEM_REMOTE_WRITE;
		return true;
	case IBV_WR_RDMA_READ:
		r->access = MEM_REMOTE_READ;
		return true;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		r->access = MEM_REMOTE_ATOMIC;
		r->op = atomic_op(opcode);
		return true;
	default:
		return false;
	}
}

/* Adds executed requests to what others can see. */
static void note_done(struct vrb_qp *qp, unsigned int n, uint64_t bytes, bool write)
{
	if (tapped())
		vrb_tap_direct(qp, n);
	roce_count_onesided(&qp->roce, write ? bytes : 0, write ? 0 : bytes);
}

/*
 * Most requests wait alone and have one piece. In mapped memory such a request takes less time than
 * the preparation for a list; elsewhere that is a fifth of its time.
 */
static bool run_one(struct vrb_qp *qp, const struct send_wqe *w)
{
	struct onesided_request r = {
		.entry = qp->peer.entry, .target = &qp->peer.target,
		.va = w->remote_addr, .rkey = w->rkey, .addr = (uintptr_t)w->sge, .len = w->length,
	};

	if (qp->wq.sq.next + 1 != qp->wq.sq.head || !r.entry || w->error || !r.len ||
	    r.len > qp->wq.max_msg || !set_operation(&r, w->opcode))
		return false;
	if (r.access == MEM_REMOTE_ATOMIC) {
		r.compare_add = w->atomic.compare_add;
		r.swap = w->atomic.swap;
	}
	if (!(w->flags & WQE_DATA_INLINE)) {
		r.lkey = w->sge->lkey;
		r.addr = w->sge->addr;
		r.own = vrb_mem_entry(r.lkey);
		if (w->num_sge != 1 || !r.own)
			return false;
	}
	if (!onesided_one(vrb.local, qp->peer.process, &qp->wq, &r))
		return false;
	note_done(qp, 1, w->length, r.access == MEM_REMOTE_WRITE);
	return true;
}

/* Not inlined: its lists take some pages of the stack. */
static __attribute__((noinline)) unsigned int run_list(struct vrb_qp *qp, enum reason *why)
{
	struct wq_qp *wq = &qp->wq;
	const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next);
	struct onesided o;
	unsigned int n = 0;

	if (!onesided_begin(&o, qp->peer.process, wq))
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
		break;	/* FLUSH and ATOMIC WRITE must run in the process that owns the memory */
	}
	onesided_end(&o);
	if (n)
		note_done(qp, n, o.end[n - 1], w->opcode == IBV_WR_RDMA_WRITE);
	return n;
}

/*
 * Direct access overtakes what lies in the lane. RC waits until that is acknowledged; UC goes
 * behind it, as a packet.
 */
static bool in_order(const struct vrb_qp *qp)
{
	return qp->wq.type == IBV_QPT_RC || local_peer_took(qp->peer.process, qp->peer.tx_head);
}

unsigned int vrb_peer_rdma(struct wq_qp *wq, enum reason *why)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next);

	/*
	 * Without initiator depth, send READs and atomics as packets, so that the responder
	 * refuses them.
	 */
	if ((w->opcode != IBV_WR_RDMA_WRITE && !wq->max_rd_atomic) || !in_order(qp))
		return 0;
	return run_one(qp, w) ? 1 : run_list(qp, why);
}

/* A request of one piece, which posting would accept and which can complete at once. */
static bool is_simple(const struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	const struct wr_limits *limits = &qp->post.limits;
	bool with_data = wr->send_flags & IBV_SEND_INLINE;

	if (wr->next || wr->num_sge != 1 || !wr->sg_list || !wr->sg_list->length ||
	    wr->sg_list->length > qp->wq.max_msg)
		return false;
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		return !with_data || wr->sg_list->length <= limits->max_inline;
	if (wr->opcode != IBV_WR_RDMA_READ && wr->sg_list->length != sizeof(uint64_t))
		return false;
	return !with_data && limits->max_rd_atomic && qp->wq.max_rd_atomic;
}

/* The same request for onesided_one(). */
static bool describe_posted(struct onesided_request *r, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;

	if (!set_operation(r, wr->opcode))
		return false;
	if (r->access == MEM_REMOTE_ATOMIC) {
		r->va = wr->wr.atomic.remote_addr;
		r->rkey = wr->wr.atomic.rkey;
		r->compare_add = wr->wr.atomic.compare_add;
		r->swap = wr->wr.atomic.swap;
	} else {
		r->va = wr->wr.rdma.remote_addr;
		r->rkey = wr->wr.rdma.rkey;
	}
	r->addr = sge->addr;
	r->len = sge->length;
	if (wr->send_flags & IBV_SEND_INLINE)
		return true;
	r->lkey = sge->lkey;
	r->own = vrb_mem_entry(r->lkey);
	return r->own != NULL;
}

static void complete_posted(struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	struct wq_cqe cqe = {
		.wr_id = wr->wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = wq_wc_opcode(wr->opcode),
		.byte_len = wr->sg_list->length,
		.release = qp->wq.sq.head,
	};

	vrb_cq_add(qp->config.send_cq, qp, &qp->wq.sq.released, qp->wq.qpn, &cqe, qp->now);
}

static bool run_posted(struct vrb_qp *qp, const struct onesided_request *r)
{
	bool done;

	local_tx_begin(qp->peer.process);
	done = onesided_one(vrb.local, qp->peer.process, &qp->wq, r);
	local_tx_end(vrb.local, qp->peer.process, false);
	return done;
}

bool vrb_peer_post_rdma(struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	struct onesided_request r = { .entry = qp->peer.entry, .target = &qp->peer.target };
	bool write = wr->opcode == IBV_WR_RDMA_WRITE;

	if (unlikely(!roce_runs_at_once(&qp->roce) || !vrb_peer_is_direct(qp) ||
		     !qp->peer.entry || !in_order(qp) || tapped() || qp->wq.counted ||
		     qp->post.delayed_ack.requested || !is_simple(qp, wr) ||
		     !describe_posted(&r, wr) || vrb_mirror_enabled(clock_coarse())))
		return false;
	if (unlikely(vrb_cq_uses_time(qp->config.send_cq)))
		qp->now = clock_now();
	if (unlikely(!run_posted(qp, &r)))
		return false;
	roce_count_onesided(&qp->roce, write ? r.len : 0, write ? 0 : r.len);
	roce_ran_at_once(&qp->roce);
	if (wr->send_flags & IBV_SEND_SIGNALED || qp->wq.sq.sig_all)
		complete_posted(qp, wr);
	return true;
}

static __attribute__((noinline)) bool write_list(struct vrb_qp *qp, const struct wq_seg *from,
						 uint64_t va, uint32_t rkey)
{
	struct onesided o;
	bool done;

	if (!onesided_begin(&o, qp->peer.process, &qp->wq))
		return false;
	done = onesided_add(&o, rkey, va, from->len, MEM_REMOTE_WRITE, from, 1) &&
	       onesided_write(&o) == 1;
	onesided_end(&o);
	return done;
}

bool vrb_peer_write(struct vrb_qp *qp, const struct wq_seg *from, uint64_t va, uint32_t rkey,
		    bool past)
{
	struct onesided_request r = {
		.entry = qp->peer.entry, .target = &qp->peer.target, .va = va, .rkey = rkey,
		.addr = from->addr, .len = from->len, .access = MEM_REMOTE_WRITE,
		.past = past,
	};
	bool done;

	/* A tap sees requests. An ACK leaves before what the peer may see in its memory. */
	if (!qp->wq.direct || !qp->peer.process || !vrb.local || qp->wq.state != IBV_QPS_RTS ||
	    tapped() || vrb_mirror_enabled(clock_coarse()) || roce_has_ack(&qp->roce) ||
	    !from->len || from->len > qp->wq.max_msg)
		return false;
	local_tx_begin(qp->peer.process);
	done = (r.entry && onesided_one(vrb.local, qp->peer.process, &qp->wq, &r)) ||
	       write_list(qp, from, va, rkey);
	local_tx_end(vrb.local, qp->peer.process, false);
	if (done)
		roce_count_onesided(&qp->roce, from->len, 0);
	return done;
}

/* Copies through a bounce buffer and checks each piece: for null regions and long SGE lists. */
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
		why = wq->ops->mem_write(wq, dst->lkey, dst->addr + in_sge, bounce, here.len,
					 access);
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

/*
 * Once its QP has ended, a program may store other bytes where the payload was. The QP publishes
 * its end before that, so what was read while it stood is what was sent.
 */
static bool sender_stands(struct vrb_qp *qp)
{
	struct seg_qp sender;

	if (qp->wq.type != IBV_QPT_RC || (!qp->peer.entry && !vrb_peer_find(qp, clock_coarse())))
		return true;
	return peer_map_qp_copy(qp->peer.entry, qp->wq.dest_qpn, &sender) &&
	       wq_receives(sender.state) && sender.dest_qpn == qp->wq.qpn;
}

static enum reason fetch_bounced(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
				 uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
				 enum mem_access access)
{
	enum reason why = pull_bounced(wq, from, offset, total, dst, num_dst, access);

	if (why == REASON_NONE && !sender_stands(wq_to_vrb_qp(wq)))
		why = REASON_PEER_DIED;
	return why;
}

enum reason vrb_peer_fetch(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
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
		return fetch_bounced(wq, from, offset, total, dst, num_dst, access);
	}
	if (p.n == 1 && offset == 0 && access == MEM_RECV_WRITE)
		err = vrb_peer_fetch_split(wq_to_vrb_qp(wq), from, &p.seg[0], dst[0].lkey);
	else
		err = local_pull(from, offset, p.seg, p.n, total);
	unpin(&p, 0);
	if (err == EPERM || err == ENOSYS)
		local_pull_refused(vrb.local, from);
	/* EFAULT does not tell which side faulted; a copy through the bounce buffer does. */
	if (err == EFAULT)
		return fetch_bounced(wq, from, offset, total, dst, num_dst, access);
	return err || !sender_stands(wq_to_vrb_qp(wq)) ? REASON_PEER_DIED : REASON_NONE;
}
