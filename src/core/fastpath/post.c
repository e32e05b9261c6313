/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_post_send, ibv_post_recv, ibv_post_srq_recv and ibv_bind_mw: requests into rings.
 *
 * Locks: qp->lock (srq->lock) for the whole list. A QP with ibv_wr_* also takes its batch lock,
 * outermost, because an open batch owns the slots after sq.head.
 */
#include "core/fastpath/post.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/ring.h"
#include "core/base/tap.h"
#include "core/cq/cq.h"
#include "core/device/ah.h"
#include "core/mem/mw.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/tx/tx_sched.h"
#include "roce/const.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/copy_few.h"
#include "util/tuning.h"

enum {
	WR_REASONS = 100,	/* numbers of wq/reason.def for a local work request */
};

/*
 * IBTA table of QP states: requests are refused before RTS, and accepted (executed, kept or
 * flushed) in all later states.
 */
enum reason vrb_post_allowed(const struct vrb_qp *qp)
{
	switch (qp->wq.state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return REASON_NONE;
	default:
		return REASON_WR_STATE;
	}
}

bool vrb_post_room(const struct vrb_qp *qp, uint32_t index)
{
	if (unlikely(qp->recv.rndv.owner))
		return false;
	/*
	 * Pairs with the poller's release: the slot's completion was polled before the slot is
	 * overwritten.
	 */
	return index - load_acquire(&qp->wq.sq.released) < qp->wq.sq.ring.limit;
}

static void describe(struct wr_desc *d, const struct ibv_send_wr *wr, enum ibv_qp_type type)
{
	*d = (struct wr_desc){
		.opcode = wr->opcode,
		.inline_data = wr->send_flags & IBV_SEND_INLINE,
	};
	switch (wr->opcode) {
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return;	/* no data, whatever the SGE list contains */
	case IBV_WR_TSO:
		d->mss = wr->tso.mss;
		d->tso_header = wr->tso.hdr_sz;
		break;
	default:
		break;
	}
	d->num_sge = wr->num_sge;
	d->length = wr_sge_total(wr->sg_list, wr->num_sge);
	if (type == IBV_QPT_UD && wr->wr.ud.ah)
		d->ah = to_vrb_ah(wr->wr.ud.ah);
}

static void copy_inline(struct send_wqe *w, const struct ibv_sge *sge, uint32_t n)
{
	uint8_t *p = wqe_inline_data(w);

	for (uint32_t i = 0; i < n; i++) {
		copy_few(p, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
		p += sge[i].length;
	}
}

/* The fields that depend on the opcode or the QP type. */
static void fill_operation(const struct send_queue *sq, struct send_wqe *w,
			   const struct ibv_send_wr *wr, enum ibv_qp_type type)
{
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->atomic.compare_add = wr->wr.atomic.compare_add;
		w->atomic.swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_BIND_MW:
		w->rkey = wr->bind_mw.rkey;
		vrb_mw_fill_bind(w, wr->bind_mw.mw, &wr->bind_mw.bind_info);
		break;
	default:
		if (type == IBV_QPT_RAW_PACKET) {
			w->ud.mss = wr->tso.mss;
			w->ud.hdr_len = wr->tso.hdr_sz;
		} else if (type == IBV_QPT_UD) {
			wqe_set_path(sq, w, &to_vrb_ah(wr->wr.ud.ah)->path);
			w->ud.qpn = wr->wr.ud.remote_qpn & ROCE_QPN_MASK;
			w->ud.qkey = wr->wr.ud.remote_qkey;
			w->ud.mss = wr->tso.mss;
			w->ud.hdr_len = wr->tso.hdr_sz;
		} else {
			w->remote_addr = wr->wr.rdma.remote_addr;
			w->rkey = wr->wr.rdma.rkey;
		}
	}
	if (type == IBV_QPT_XRC_SEND)
		w->srqn = wr->qp_type.xrc.remote_srqn;
}

static uint32_t wqe_flags(const struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t flags = wr->send_flags & WR_SEND_FLAGS;

	if (flags & IBV_SEND_INLINE)
		flags |= WQE_DATA_INLINE;
	if ((flags & IBV_SEND_SIGNALED) || qp->wq.sq.sig_all)
		flags |= WQE_SIGNALED;
	return flags;
}

/* The fields of every request, also of one that will complete with an error. */
static void fill_common(struct vrb_qp *qp, struct send_wqe *w, const struct ibv_send_wr *wr,
			enum reason error)
{
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = wqe_flags(qp, wr);
	w->error = error;
	w->length = w->num_sge = 0;
	w->imm = wr->imm_data;
	w->rkey = 0;
	w->remote_addr = 0;
	w->ud.path = NULL;
}

void vrb_post_result(struct send_wqe *w)
{
	enum { RESULT = sizeof(uint64_t) };
	uint32_t i = 0;

	if (w->length == RESULT || !w->length)
		return;
	while (!w->sge[i].length)
		i++;
	w->sge[0] = (struct ibv_sge){ w->sge[i].addr, RESULT, w->sge[i].lkey };
	w->num_sge = 1;
	w->length = RESULT;
}

static void fill_send(struct vrb_qp *qp, struct send_wqe *w, const struct ibv_send_wr *wr,
		      const struct wr_desc *d)
{
	w->length = d->length;
	w->num_sge = d->inline_data ? 0 : d->num_sge;
	fill_operation(&qp->wq.sq, w, wr, qp->ibv.qp_type);
	if (wr->opcode == IBV_WR_TSO)
		memcpy(wqe_tso_header(&qp->wq.sq, w), wr->tso.hdr, wr->tso.hdr_sz);
	if (d->inline_data)
		copy_inline(w, wr->sg_list, d->num_sge);
	else
		wqe_copy_sge(w->sge, wr->sg_list, d->num_sge);
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		vrb_post_result(w);
}

/* ATOMIC WRITE and FLUSH need ibv_wr_*: struct ibv_send_wr has no fields for them. */
static bool classic_opcode(const struct ibv_send_wr *wr)
{
	return wr->opcode != IBV_WR_FLUSH && wr->opcode != IBV_WR_ATOMIC_WRITE;
}

static enum reason post_one(struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	struct send_wqe *w;
	struct wr_desc d;
	enum reason why;

	if (!vrb_post_room(qp, qp->wq.sq.head))
		return REASON_WR_QUEUE_FULL;
	if (!ring_has_memory(&qp->wq.sq.ring))
		return REASON_WR_NO_MEMORY;
	w = sq_wqe(&qp->wq.sq, qp->wq.sq.head);
	if (!classic_opcode(wr))
		return REASON_WR_UNKNOWN;
	if (wr->num_sge < 0 || (wr->num_sge > 0 && !wr->sg_list))
		return REASON_WR_SGE_LIST;
	/* Check the count before summing the list: a wild count would read beyond it. */
	if ((uint32_t)wr->num_sge > qp->wq.sq.ring.max_sge)
		return REASON_WR_SGE_COUNT;
	if (wr->opcode == IBV_WR_TSO && !wr->tso.hdr)
		return REASON_WR_TSO;
	describe(&d, wr, qp->ibv.qp_type);
	why = wr_check_send(&qp->post.limits, &d);
	if (unlikely(wr_errno(why)))
		return why;
	fill_common(qp, w, wr, why);
	if (likely(!why))
		fill_send(qp, w, wr, &d);
	qp->wq.sq.head++;
	return REASON_NONE;
}

/*
 * Is the send queue full of requests without a completion? Then it stays full. Of those that have
 * executed only the completions are left, which another thread may poll just now.
 */
static bool stays_full(struct vrb_qp *qp)
{
	struct send_queue *sq = &qp->wq.sq;

	if (qp->wq.state != IBV_QPS_RTS || !sq->ring.limit)
		return false;
	for (uint32_t i = sq->done; i != sq->head; i++)
		if (sq_wqe(sq, i)->flags & WQE_SIGNALED || sq_wqe(sq, i)->error)
			return false;
	return !vrb_cq_releases(qp->config.send_cq, &sq->released) &&
	       sq->head - load_acquire(&sq->released) >= sq->ring.limit;
}

static void limit_text(const struct vrb_qp *qp, enum reason why, char text[48])
{
	const struct ibv_qp_cap *cap = &qp->config.init.cap;

	if (why == REASON_WR_SGE_COUNT)
		snprintf(text, 48, ": max_send_sge is %u", cap->max_send_sge);
	else
		snprintf(text, 48, ": max_inline_data is %u", cap->max_inline_data);
}

int vrb_post_refused(struct vrb_qp *qp, uint64_t wr_id, enum reason why)
{
	static uint64_t said[WR_REASONS];	/* log_seldom(): one does not hide another */
	const char *more = "", *state = "";
	char limit[48] = "";

	if (why == REASON_WR_STATE) {
		more = ": it is in ";
		state = vrb_qp_state_name(qp->wq.state);
	} else if (why == REASON_WR_QUEUE_FULL && stays_full(qp)) {
		more = ", of requests without IBV_SEND_SIGNALED: no completion will make room";
	} else if (why == REASON_WR_SGE_COUNT || why == REASON_WR_INLINE_SIZE) {
		more = limit;
		limit_text(qp, why, limit);
	} else if (why == REASON_WR_FLAGS) {
		more = ": IBV_SEND_INLINE is for SENDs and RDMA WRITEs";
	}
	/* Not a warning: many programs post until the queue is full, then poll. */
	if (why == REASON_WR_QUEUE_FULL && !*more)
		log_debug(LOG_CORE, "QP 0x%x: wr_id 0x%" PRIx64 " not posted: %s", qp->wq.qpn,
			  wr_id, reason_str(why));
	else if (log_on(LOG_CORE, LOG_WARN) && log_seldom(&said[why % WR_REASONS]))
		log_warn(LOG_CORE, "QP 0x%x: wr_id 0x%" PRIx64 " not posted: %s (%u)%s%s",
			 qp->wq.qpn, wr_id, reason_str(why), why, more, state);
	return wr_errno(why);
}

static int post_tapped(struct vrb_qp *qp, uint32_t index)
{
	return vrb_tap_post(&(struct tap_post){
		.qp = qp, .send = sq_wqe(&qp->wq.sq, index), .index = index });
}

static int post_chain(struct vrb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	uint32_t first = qp->wq.sq.head;
	enum reason why = vrb_post_allowed(qp);
	int ret = 0;

	for (; wr; wr = wr->next) {
		if (likely(!why))
			why = post_one(qp, wr);
		if (unlikely(why)) {
			ret = vrb_post_refused(qp, wr->wr_id, why);
			break;
		}
		if (tapped() && (ret = post_tapped(qp, qp->wq.sq.head - 1))) {
			qp->wq.sq.head--;
			break;
		}
	}
	if (ret)
		*bad = wr;
	if (qp->wq.sq.head != first)
		vrb_doorbell(qp);
	return ret;
}

/* These usually execute in the peer's memory, and need no doorbell. */
static bool is_one_sided(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ ||
	       opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline bool begin(struct vrb_qp *qp, enum ibv_wr_opcode first)
{
	bool loops;

	if (unlikely(vrb_other_delayed_acks(load_relaxed(&qp->sched.ack_delayed))))
		vrb_tx_flush_delayed();
	loops = unlikely(load_relaxed(&qp->post.same_process)) && !is_one_sided(first) &&
		vrb_loopback_begin();
	lock_acquire(&qp->lock);
	if (loops)
		qp->post.loops = true;
	return loops;
}

/* A long message is better copied by the receiving thread. */
static bool runs_within(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;

	return unlikely(qp->post.same_process) && sq->head != sq->done &&
	       sq_wqe(sq, sq->head - 1)->length <= TUNE_LOOPBACK_LEN;
}

static bool awaits_completion(const struct send_queue *sq)
{
	for (uint32_t i = sq->done; i != sq->head; i++)
		if (sq_wqe(sq, i)->flags & WQE_SIGNALED)
			return true;
	return false;
}

static inline void end(struct vrb_qp *qp, bool loops)
{
	bool within = runs_within(qp), by_lane = qp->peer.process != NULL;
	bool signaled = within && awaits_completion(&qp->wq.sq);

	if (loops)
		qp->post.loops = false;
	lock_release(&qp->lock);
	if (within)
		vrb_loopback_run(qp, loops, by_lane, signaled);
	if (loops)
		vrb_loopback_end();
}

bool vrb_post_begin(struct vrb_qp *qp, enum ibv_wr_opcode first)
{
	return begin(qp, first);
}

void vrb_post_end(struct vrb_qp *qp, bool loops)
{
	end(qp, loops);
}

/* One-sided requests mostly come one by one, each when the one before it is complete. */
static bool post_alone(struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	return wr && wr->opcode != IBV_WR_SEND && is_one_sided(wr->opcode) &&
	       vrb_post_room(qp, qp->wq.sq.head) && vrb_post_at_once(qp, wr);
}

int vrb_post_send(struct vrb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	bool loops;
	int ret;

	if (qp->config.wr_calls)
		lock_acquire(&qp->post.batch.lock);
	loops = begin(qp, wr ? wr->opcode : IBV_WR_RDMA_WRITE);
	ret = post_alone(qp, wr) ? 0 : post_chain(qp, wr, bad);
	end(qp, loops);
	if (qp->config.wr_calls)
		lock_release(&qp->post.batch.lock);
	return ret;
}

static void fill_recv(struct recv_wqe *w, const struct ibv_recv_wr *wr, uint32_t length)
{
	w->wr_id = wr->wr_id;
	w->num_sge = wr->num_sge;
	w->length = length;
	w->skip = w->clip = 0;
	wqe_copy_sge(w->sge, wr->sg_list, wr->num_sge);
}

static int check_recv(uint32_t max_sge, const struct ibv_recv_wr *wr, uint32_t *length)
{
	if (wr->num_sge > 0 && !wr->sg_list)
		return EINVAL;
	return wr_errno(wr_check_recv(max_sge, wr, length));
}

static int post_one_recv(struct recv_queue *rq, const struct ibv_recv_wr *wr)
{
	uint32_t length;
	int ret;

	/* Pairs with the poller's release, as in vrb_post_room(). */
	if (rq->head - load_acquire(&rq->released) >= rq->ring.limit ||
	    !ring_has_memory(&rq->ring))
		return ENOMEM;
	ret = check_recv(rq->ring.max_sge, wr, &length);
	if (!ret) {
		fill_recv(rq_wqe(rq, rq->head), wr, length);
		rq->head++;
	}
	return ret;
}

/* A receive is in its slot; takes it out again if it is refused. */
static int tap_recv(struct vrb_qp *qp)
{
	struct recv_queue *rq = &qp->wq.rq;
	uint32_t index = rq->head - 1;
	int err = vrb_tap_post(&(struct tap_post){
		.qp = qp, .recv = rq_wqe(rq, index), .index = index });

	if (err)
		rq->head = index;
	return err;
}

/* True if the QP has its own receive queue. */
static bool has_rq(const struct vrb_qp *qp)
{
	return !qp->wq.has_srq && qp->ibv.qp_type < IBV_QPT_XRC_SEND;
}

/* unfit: why the queue takes none at all, or NULL. */
static void recv_refused(const char *what, uint32_t number, const struct ibv_recv_wr *wr,
			 const char *unfit, uint32_t max_sge)
{
	char why[64] = "";

	if (!log_on(LOG_CORE, LOG_INFO))
		return;
	if (unfit)
		snprintf(why, sizeof(why), ": %s", unfit);
	else if (wr->num_sge > 0 && !wr->sg_list)
		snprintf(why, sizeof(why), ": num_sge is %d, but there is no sg_list", wr->num_sge);
	else if ((uint32_t)wr->num_sge > max_sge)
		snprintf(why, sizeof(why), ": num_sge is %d, but max_sge %u", wr->num_sge, max_sge);
	log_info(LOG_CORE, "%s 0x%x: receive wr_id 0x%" PRIx64 " not posted%s", what, number,
		 wr ? wr->wr_id : 0, why);
}

/*
 * Accepted in RESET too, as on mlx5; the receives wait until the QP can receive. A transition to
 * RESET drops them.
 */
int vrb_post_recv(struct vrb_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;

	lock_acquire(&qp->lock);
	if (!has_rq(qp))
		ret = EINVAL;
	for (; wr && !ret; wr = wr->next) {
		ret = post_one_recv(&qp->wq.rq, wr);
		if (!ret && tapped())
			ret = tap_recv(qp);
		if (ret)
			break;
	}
	if (ret) {
		*bad = wr;
		/* A full queue is not an error: programs fill it to learn its size. */
		if (ret != ENOMEM)
			recv_refused("QP", qp->wq.qpn, wr,
				     has_rq(qp) ? NULL : "it has no receive queue of its own",
				     qp->wq.rq.ring.max_sge);
	}
	if (qp->wq.state == IBV_QPS_ERR)
		qp->now = clock_now();
	roce_recv_posted(&qp->roce);
	lock_release(&qp->lock);
	return ret;
}

static int post_one_srq(struct vrb_srq *srq, const struct ibv_recv_wr *wr)
{
	uint32_t length;
	int ret;

	if (srq->head - srq->tail >= srq->ring.limit)
		return ENOMEM;
	ret = check_recv(srq->ring.max_sge, wr, &length);
	if (!ret)
		fill_recv(wq_slot(&srq->ring, srq->head++), wr, length);
	return ret;
}

/* As tap_recv(). */
static int tap_srq_recv(struct vrb_srq *srq)
{
	uint32_t index = srq->head - 1;
	int err = vrb_tap_post(&(struct tap_post){
		.srq = srq, .recv = wq_slot(&srq->ring, index), .index = index });

	if (err)
		srq->head = index;
	return err;
}

int vrb_post_srq_recv(struct vrb_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = vrb_srq_failed(srq) ? EINVAL : 0;

	lock_acquire(&srq->lock);
	for (; wr && !ret; wr = wr->next) {
		ret = post_one_srq(srq, wr);
		if (!ret && tapped())
			ret = tap_srq_recv(srq);
		if (ret)
			break;
	}
	if (ret) {
		*bad = wr;
		if (ret != ENOMEM)
			recv_refused("SRQ", srq->srqn, wr,
				     vrb_srq_failed(srq) ? "it is in error" : NULL,
				     srq->ring.max_sge);
	}
	lock_release(&srq->lock);
	return ret;
}

int vrb_post_bind_mw(struct vrb_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw, .bind_info = bind->bind_info },
	};
	int ret = vrb_mw_prepare_bind(to_vrb_mw(mw), bind, &wr.bind_mw.rkey);

	if (!ret && !wr_opcode_legal(qp->ibv.qp_type, IBV_WR_BIND_MW)) {
		log_info(LOG_CORE, "ibv_bind_mw: QP 0x%x: a QP of this type cannot bind windows",
			 qp->wq.qpn);
		ret = EINVAL;
	}
	if (!ret)
		ret = vrb_post_send(qp, &wr, &bad);
	if (!ret)
		mw->rkey = wr.bind_mw.rkey;
	return ret;
}
