/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_wr_*: requests built in place, in the slots after sq.head, and posted all at once.
 *
 *	ibv_wr_start          takes batch.lock, notes sq.head
 *	ibv_wr_OPERATION      checks and closes the previous request, opens the next slot
 *	ibv_wr_set_*          fill it
 *	ibv_wr_complete       checks the last, advances sq.head, runs the queue, drops the lock
 *	ibv_wr_abort          drops batch.lock
 *
 * The first error sticks: later calls write nothing, and complete returns it and posts nothing.
 * qp->lock is free while the program builds, so it may poll in between. If sq.head moves meanwhile
 * (a reset), complete fails.
 */
#include <errno.h>
#include <string.h>

#include "core/base/ring.h"
#include "core/base/tap.h"
#include "core/device/ah.h"
#include "core/fastpath/post.h"
#include "core/mem/mw.h"
#include "core/qp/qp.h"
#include "core/tx/tx_sched.h"
#include "roce/const.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/copy_few.h"

static struct vrb_qp *ex_to_qp(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct vrb_qp, ex);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vrb_qp *qp = ex_to_qp(ex);
	struct wr_batch *b = &qp->post.batch;

	lock_acquire(&b->lock);
	store_relaxed(&b->started, true);
	lock_acquire(&qp->lock);
	b->error = 0;
	if (vrb_post_allowed(qp))
		b->error = vrb_post_refused(qp, ex->wr_id, REASON_WR_STATE);
	else if (!ring_has_memory(&qp->wq.sq.ring))
		b->error = vrb_post_refused(qp, ex->wr_id, REASON_WR_NO_MEMORY);
	b->limits = qp->post.limits;
	b->base = qp->wq.sq.head;
	lock_release(&qp->lock);
	b->pending = 0;
	b->open = false;
}

static void fail(struct wr_batch *b, int error)
{
	if (!b->error)
		b->error = error;
}

/* ibv_wr_post(3): on XRC a request that needs a remote QP or memory must name the SRQ. */
static bool needs_srqn(const struct wr_batch *b)
{
	return b->limits.qp_type == IBV_QPT_XRC_SEND && b->desc.opcode != IBV_WR_LOCAL_INV &&
	       b->desc.opcode != IBV_WR_BIND_MW;
}

static bool is_atomic(const struct wr_desc *d)
{
	return d->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || d->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/*
 * ibv_wr_post(3) lists setters of data for FLUSH, which transfers none. As on soft RoCE, their
 * length is the range's.
 */
static bool drop_flush_sges(struct wr_batch *b)
{
	if (b->desc.opcode != IBV_WR_FLUSH || !b->desc.num_sge)
		return false;
	b->desc.num_sge = b->wqe->num_sge = 0;
	return true;
}

static void finish(struct vrb_qp *qp)
{
	struct wr_batch *b = &qp->post.batch;
	enum reason why = wr_check_send(&b->limits, &b->desc);

	if (wr_errno(why) && drop_flush_sges(b))
		why = wr_check_send(&b->limits, &b->desc);
	if (wr_errno(why)) {
		b->error = vrb_post_refused(qp, b->wqe->wr_id, why);
		return;
	}
	b->wqe->error = why;
	b->wqe->length = why ? 0 : b->desc.length;
	if (!why && is_atomic(&b->desc))
		vrb_post_result(b->wqe);
}

/* Checks the open request, which is now complete. */
static void close_request(struct vrb_qp *qp)
{
	struct wr_batch *b = &qp->post.batch;

	if (!b->open)
		return;
	b->open = false;
	if (needs_srqn(b) && !b->srqn_set)
		fail(b, EINVAL);
	if (!b->error)
		finish(qp);
}

/* The log looks at the requests in the queue. */
static int refuse_full(struct vrb_qp *qp)
{
	int err;

	lock_acquire(&qp->lock);
	err = vrb_post_refused(qp, qp->ex.wr_id, REASON_WR_QUEUE_FULL);
	lock_release(&qp->lock);
	return err;
}

/*
 * Opens the next slot and fills the common fields; NULL if the batch has failed. As on mlx5, a QP
 * has all operations of its type, not only those named when it was created.
 */
static struct send_wqe *begin(struct ibv_qp_ex *ex, uint32_t opcode)
{
	struct vrb_qp *qp = ex_to_qp(ex);
	struct wr_batch *b = &qp->post.batch;
	struct send_wqe *w;

	close_request(qp);
	if (!wr_opcode_legal(b->limits.qp_type, opcode))
		fail(b, EINVAL);
	if (!b->error && !vrb_post_room(qp, b->base + b->pending))
		b->error = refuse_full(qp);
	if (b->error)
		return NULL;
	w = sq_wqe(&qp->wq.sq, b->base + b->pending++);
	memset(w, 0, sizeof(*w));
	w->wr_id = ex->wr_id;
	w->opcode = opcode;
	w->flags = ex->wr_flags & WR_SEND_FLAGS & ~(unsigned int)IBV_SEND_INLINE;
	if ((ex->wr_flags & IBV_SEND_SIGNALED) || qp->wq.sq.sig_all)
		w->flags |= WQE_SIGNALED;
	b->wqe = w;
	b->desc = (struct wr_desc){ .opcode = opcode };
	b->open = true;
	b->srqn_set = false;
	return w;
}

/* The open request for a setter; NULL if there is none or the batch has failed. */
static struct send_wqe *opened(struct wr_batch *b)
{
	if (!b->open)
		fail(b, EINVAL);
	return b->error ? NULL : b->wqe;
}

static struct send_wqe *begin_rdma(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey,
				   uint64_t remote_addr)
{
	struct send_wqe *w = begin(ex, opcode);

	if (w) {
		w->rkey = rkey;
		w->remote_addr = remote_addr;
	}
	return w;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct send_wqe *w = begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (w)
		w->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct send_wqe *w = begin_rdma(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

	if (w) {
		w->atomic.compare_add = compare;
		w->atomic.swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct send_wqe *w = begin_rdma(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

	if (w)
		w->atomic.compare_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *value)
{
	struct send_wqe *w = begin_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, remote_addr);

	if (w) {
		memcpy(&w->atomic_write, value, sizeof(w->atomic_write));
		ex_to_qp(ex)->post.batch.desc.length = sizeof(w->atomic_write);
	}
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	struct send_wqe *w = begin_rdma(ex, IBV_WR_FLUSH, rkey, remote_addr);

	if (!w)
		return;
	w->flush.placement = type;
	w->flush.selectivity = level;
	ex_to_qp(ex)->post.batch.desc.length = len;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct send_wqe *w = begin(ex, IBV_WR_SEND_WITH_IMM);

	if (w)
		w->imm = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct send_wqe *w = begin(ex, IBV_WR_SEND_WITH_INV);

	if (w)
		w->imm = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct send_wqe *w = begin(ex, IBV_WR_LOCAL_INV);

	if (w)
		w->imm = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct send_wqe *w = begin(ex, IBV_WR_BIND_MW);

	if (w) {
		w->rkey = rkey;
		vrb_mw_fill_bind(w, mw, info);
	}
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	struct send_wqe *w = begin(ex, IBV_WR_TSO);
	struct vrb_qp *qp = ex_to_qp(ex);

	if (!w)
		return;
	qp->post.batch.desc.tso_header = w->ud.hdr_len = hdr_sz;
	qp->post.batch.desc.mss = w->ud.mss = mss;
	if (!hdr || hdr_sz > qp->post.batch.limits.max_tso_header)
		fail(&qp->post.batch, EINVAL);
	else
		memcpy(wqe_tso_header(&qp->wq.sq, w), hdr, hdr_sz);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct vrb_qp *qp = ex_to_qp(ex);
	struct wr_batch *b = &qp->post.batch;
	struct send_wqe *w = opened(b);

	if (!w || !ah)
		return;
	b->desc.ah = to_vrb_ah(ah);
	wqe_set_path(&qp->wq.sq, w, &to_vrb_ah(ah)->path);
	w->ud.qpn = qpn & ROCE_QPN_MASK;
	w->ud.qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct wr_batch *b = &ex_to_qp(ex)->post.batch;
	struct send_wqe *w = opened(b);

	if (w) {
		w->srqn = srqn;
		b->srqn_set = true;
	}
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct wr_batch *b = &ex_to_qp(ex)->post.batch;
	struct send_wqe *w = opened(b);

	if (!w)
		return;
	if (n > b->limits.max_sge) {
		fail(b, EINVAL);
		return;
	}
	wqe_copy_sge(w->sge, list, n);
	w->num_sge = n;
	w->flags &= ~(WQE_DATA_INLINE | IBV_SEND_INLINE);
	b->desc.inline_data = false;
	b->desc.num_sge = n;
	b->desc.length = wr_sge_total(list, n);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	/* A length of zero means an empty message, see ibv_wr_set_sge(3). */
	wr_set_sge_list(ex, length ? 1 : 0, &sge);
}

static uint64_t buffers_total(size_t n, const struct ibv_data_buf *list, uint64_t limit)
{
	uint64_t total = 0;

	/* Stops above the limit, so that the sum cannot overflow. */
	for (size_t i = 0; i < n && total <= limit; i++)
		total = list[i].length > limit ? limit + 1 : total + list[i].length;
	return total;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct wr_batch *b = &ex_to_qp(ex)->post.batch;
	struct send_wqe *w = opened(b);
	uint8_t *p;

	if (!w)
		return;
	b->desc.inline_data = true;
	b->desc.num_sge = 0;
	b->desc.length = buffers_total(n, list, b->limits.max_inline);
	if (b->desc.length > b->limits.max_inline) {
		fail(b, EINVAL);
		return;
	}
	p = wqe_inline_data(w);
	for (size_t i = 0; i < n; i++) {
		copy_few(p, list[i].addr, (uint32_t)list[i].length);
		p += list[i].length;
	}
	w->num_sge = 0;
	w->flags |= WQE_DATA_INLINE | IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

/* All are posted or none: one that is refused keeps the others out of the recording. */
static int tap_batch(struct vrb_qp *qp, const struct wr_batch *b)
{
	int err = 0;

	for (unsigned int tap = 0; tap < TAPS; tap++) {
		for (uint32_t i = b->base; !err && i != b->base + b->pending; i++) {
			const struct tap_post post = {
				.qp = qp, .send = sq_wqe(&qp->wq.sq, i), .index = i };

			err = vrb_tap_post_for(tap, &post);
		}
	}
	return err;
}

/*
 * False if there is no batch to end. Some programs call complete or abort all the same, which has
 * no effect on mlx5 and rxe while no other thread builds requests.
 */
static bool ends_batch(struct wr_batch *b, const char *call)
{
	if (unlikely(!load_relaxed(&b->started))) {
		log_once(LOG_CORE, LOG_WARN, "%s() without ibv_wr_start() before it has no effect",
			 call);
		return false;
	}
	store_relaxed(&b->started, false);
	return true;
}

int vrb_wr_complete(struct ibv_qp_ex *ex)
{
	struct vrb_qp *qp = ex_to_qp(ex);
	struct wr_batch *b = &qp->post.batch;
	bool loops;
	int ret;

	if (!ends_batch(b, "ibv_wr_complete"))
		return 0;
	close_request(qp);
	loops = vrb_post_begin(qp, b->pending ? sq_wqe(&qp->wq.sq, b->base)->opcode
					      : IBV_WR_RDMA_WRITE);
	if (!b->error && vrb_post_allowed(qp))
		b->error = vrb_post_refused(qp, ex->wr_id, REASON_WR_STATE);
	if (!b->error && qp->wq.sq.head != b->base)
		b->error = EINVAL;
	if (!b->error && tapped())
		b->error = tap_batch(qp, b);
	ret = b->error;
	if (!ret && b->pending) {
		qp->wq.sq.head += b->pending;
		vrb_doorbell(qp);
	}
	vrb_post_end(qp, loops);
	b->error = EINVAL;
	lock_release(&b->lock);
	return ret;
}

void vrb_wr_abort(struct ibv_qp_ex *ex)
{
	struct wr_batch *b = &ex_to_qp(ex)->post.batch;

	if (!ends_batch(b, "ibv_wr_abort"))
		return;
	b->open = false;
	b->error = EINVAL;
	lock_release(&b->lock);
}

void vrb_wr_ex_init(struct vrb_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->post.batch.error = EINVAL;
	ex->wr_start = wr_start;
	ex->wr_complete = vrb_wr_complete;
	ex->wr_abort = vrb_wr_abort;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_atomic_write = wr_atomic_write;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_flush = wr_flush;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}
