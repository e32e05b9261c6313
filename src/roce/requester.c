/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of RC, XRC and UC: decides which request packet is next and whether it may leave
 * (IBTA vol 1, 9.7.7 and 9.8.2). request.c builds the packet.
 *
 *	 next WQE ---> may it begin? ---> note its PSNs ---> build packet ---> advance ---> next WQE
 *	                    |  no                               |  SGE fails
 *	                    v                                   v
 *	               wait for completer,              halted until the WQEs before it
 *	               responder or timer               are done, then the QP fails
 *
 * A retry only moves req.psn and req.index back; the packets are then built again from the same
 * WQEs.  A NAK first retransmits only the packet that it requests.
 *
 * A long READ is requested in pieces, because the answers to a request cannot be stopped once it
 * has left. The size of the pieces is fixed when the READ begins. Each piece is an RDMA READ
 * request to the responder, one of the max_rd_atomic requests, and has its own SSN. A retry never
 * spans two pieces.
 */
#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/request.h"
#include "roce/retry.h"
#include "util/compiler.h"

enum {
	ROCE_NO_OPCODE = 0xff, /* not in the table */
};

/*
 * Returns the opcode of a work request on the wire; kind NONE if it has none. One packet represents
 * all of them, which differ only in their place.
 */
static const struct roce_opcode_info *op_of(const struct roce_qp *qp, const struct send_wqe *w)
{
	int opcode = roce_request_opcode(qp->wq->type, w->opcode, true, true);

	return roce_opcode_info(opcode < 0 ? ROCE_NO_OPCODE : opcode);
}

bool roce_is_local_op(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_LOCAL_INV || w->opcode == IBV_WR_BIND_MW ||
	       w->flags & WQE_EXECUTED;
}

void roce_requester_start(struct roce_qp *qp)
{
	uint32_t psn = psn_add(qp->wq->sq_psn, 0);

	qp->req = (struct roce_req){ .psn = psn, .high = psn, .index = qp->wq->sq.next };
	qp->comp = (struct roce_comp){ .una = psn };
	roce_retry_start(qp);
}

void roce_requester_seek(struct roce_qp *qp, uint32_t psn)
{
	const struct send_queue *sq = &qp->wq->sq;
	uint32_t index = sq->done;

	while (index != sq->next) {
		const struct send_wqe *w = sq_wqe(sq, index);

		if (!roce_is_local_op(w) && !psn_before(w->last_psn, psn))
			break;
		index++;
	}
	qp->req.psn = psn;
	qp->req.index = index;
}

/* Moves to una: back for go-back-N, or forward if late answers made retransmissions unnecessary. */
void roce_requester_rewind(struct roce_qp *qp)
{
	roce_requester_seek(qp, qp->comp.una);
	qp->req.rd_open = 0;
	qp->req.since_ack_req = 0;
	qp->req.halted = false;
	qp->req.retx = (struct roce_selective_retx){ 0 };
}

/* The peer has executed none of them: it accepts packets in order, and its NAK names the next. */
bool roce_requester_take_back(struct roce_qp *qp)
{
	struct send_queue *sq = &qp->wq->sq;
	struct send_wqe *oldest = sq_wqe(sq, sq->done);

	if (qp->flushed || sq->done == sq->next || !(oldest->flags & WQE_WHOLE) ||
	    oldest->first_psn != qp->comp.una)
		return false;
	for (uint32_t i = sq->done; i != sq->next; i++)
		sq_wqe(sq, i)->flags &= ~(WQE_WHOLE | WQE_MESSAGE);
	oldest->flags |= WQE_BY_PACKET;
	sq->next = sq->done;
	roce_requester_rewind(qp);
	qp->req.goes_back = false;
	/* That PSN was used: the peer may still send a fatal NAK for it. */
	qp->req.high = psn_add(qp->comp.una, 1);
	qp->req.ssn = psn_add(oldest->ssn, -1);
	roce_retry_stop(qp);
	roce_check_drained(qp);
	return true;
}

/* Checks the request, as far as possible before its first packet. */
static enum reason check_request(struct roce_qp *qp, const struct send_wqe *w)
{
	const struct roce_opcode_info *op = op_of(qp, w);

	if (w->error)
		return w->error;
	if (op->kind == ROCE_KIND_NONE)
		return REASON_WR_OPCODE;
	if (w->length > qp->wq->max_msg)
		return REASON_WR_TOO_LONG;
	if (roce_wants_response(w) && !qp->wq->max_rd_atomic)
		return REASON_WR_RD_ATOMIC_ZERO;
	if (op->kind == ROCE_KIND_ATOMIC && w->length != ROCE_ATOMIC_LEN)
		return REASON_WR_ATOMIC_SIZE;
	if (op->kind == ROCE_KIND_READ || op->kind == ROCE_KIND_ATOMIC)
		return roce_sge_check(qp, w, MEM_LOCAL_WRITE);
	return REASON_NONE;
}

/*
 * IBTA vol 1, 10.8: a fenced request waits for the answers to all earlier READs and atomics.
 * Programs expect the same without a fence (roce_must_respond_first()).
 */
static bool fenced(const struct roce_qp *qp, const struct send_wqe *w)
{
	if (likely(!qp->req.rd_open))
		return false;
	return w->flags & IBV_SEND_FENCE ||
	       (qp->wq->fence_reads && w->opcode != IBV_WR_RDMA_READ);
}

/*
 * If packets left while fewer QPs were active and requested no answer, one that does must follow:
 * nothing else would open the window.
 */
static bool window_open(const struct roce_qp *qp, const struct send_wqe *w, uint32_t psns)
{
	uint32_t in_flight = psn_distance(qp->comp.una, qp->req.psn);
	uint32_t window = qp->req.since_ack_req ? qp->cc.window : roce_window_for(qp, w);

	return !in_flight || in_flight + psns <= window;
}

static bool may_send(const struct roce_qp *qp, const struct send_wqe *w, uint32_t offset)
{
	if (!offset && fenced(qp, w))
		return false;
	if (!roce_is_reliable(qp))
		return true;
	/* One that has begun goes on, or out again, also where no more may begin (SQD). */
	if (roce_wants_response(w) && qp->req.rd_open >= max(qp->wq->max_rd_atomic, 1))
		return false;
	if (roce_needs_credit(qp, w) && !roce_credits_allow(qp, w->ssn))
		return false;
	return window_open(qp, w, roce_packet_psns(qp, w, offset));
}

static enum reason run_local(struct roce_qp *qp, const struct send_wqe *w)
{
	if (w->opcode == IBV_WR_BIND_MW)
		return qp->wq->ops->bind_mw(qp->wq, w);
	return qp->wq->ops->invalidate(qp->wq, w->imm, false);
}

/*
 * Executes a local operation at sq.next. An invalidation waits until every earlier request is
 * complete: a retransmission may still need the key.
 */
static bool local_op(struct roce_qp *qp, struct send_wqe *w)
{
	struct send_queue *sq = &qp->wq->sq;
	enum reason why;

	if (fenced(qp, w) || (w->opcode == IBV_WR_LOCAL_INV && sq->done != sq->next))
		return false;
	/* A WQE that was moved back with an older request has been executed already. */
	why = w->flags & WQE_EXECUTED ? REASON_NONE : run_local(qp, w);
	if (why) {
		roce_send_error(qp, why);
		return false;
	}
	w->flags |= WQE_EXECUTED;
	w->first_psn = qp->req.psn;
	w->last_psn = psn_add(qp->req.psn, -1);
	w->ssn = qp->req.ssn;
	sq->next++;
	qp->req.index++;
	roce_completer_settle(qp);
	return true;
}

/* Could the request access the peer's memory directly? */
static bool may_run_direct(const struct roce_qp *qp, const struct send_wqe *w)
{
	if (!qp->wq->direct || w->flags & WQE_BY_PACKET)
		return false;
	return w->opcode == IBV_WR_RDMA_WRITE || roce_wants_response(w);
}

bool roce_runs_direct(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	return sq->next != sq->head && qp->req.index == sq->next &&
	       may_run_direct(qp, sq_wqe(sq, sq->next));
}

/*
 * Runs one-sided requests at sq.next in the peer's memory once every earlier request is complete. A
 * request that is refused there is sent as packets, and the peer answers it.
 */
static inline bool direct_op(struct roce_qp *qp, struct send_wqe *w)
{
	struct send_queue *sq = &qp->wq->sq;
	enum reason why = REASON_NONE;
	unsigned int n;

	if (sq->done != sq->next)
		return false;
	n = qp->wq->ops->direct(qp->wq, &why);
	if (unlikely(why)) {
		roce_send_error(qp, why);
		return false;
	}
	if (!n) {
		w->flags |= WQE_BY_PACKET;
		return true;
	}
	sq->next += n;
	qp->req.index += n;
	/* Nothing was in flight before them, so they are complete. */
	while (sq->done != sq->next)
		wq_complete_send(qp->wq);
	return true;
}

/*
 * A long SEND within the host: send one packet of headers; the receiver fetches the payload before
 * it acknowledges.
 */
static bool may_pull(const struct roce_qp *qp, const struct send_wqe *w)
{
	return qp->wq->pull_min && w->length >= qp->wq->pull_min && roce_is_reliable(qp) &&
	       !(w->flags & (WQE_DATA_INLINE | WQE_BY_PACKET)) && !roce_wants_response(w) &&
	       w->opcode != IBV_WR_RDMA_WRITE && qp->wq->ops->can_pull(qp->wq, w);
}

/*
 * Returns the packets that one READ request asks for: half a full window. On a paced path three
 * quarters of the window, because the answers leave the responder at once; but not so few that
 * requests are most of the work.
 */
static uint32_t read_piece(const struct roce_qp *qp)
{
	uint32_t limit = roce_window_limit(qp), most = limit / 2;

	if (!roce_cc_is_paced(&qp->cc))
		return most;
	return min(max(qp->cc.window * 3 / 4, limit / TUNE_READ_PIECES_MAX), most);
}

/* Sets PSNs and sequence number of the WQE at sq.next, valid once it has begun. */
static void take_notes(const struct roce_qp *qp, struct send_wqe *w)
{
	uint32_t psns = roce_message_psns(qp, w);
	uint32_t requests = 1;

	if (roce_is_read(w)) {
		w->piece = read_piece(qp);
		requests = (psns - 1) / w->piece + 1;
	}
	w->first_psn = qp->req.psn;
	w->last_psn = psn_add(qp->req.psn, psns - 1);
	w->ssn = psn_add(qp->req.ssn, requests);
}

/* Returns the WQE at sq.next, if it may begin now. */
static struct send_wqe *begin(struct roce_qp *qp)
{
	struct send_queue *sq = &qp->wq->sq;
	struct send_wqe *w;
	enum reason why;

	w = sq_wqe(sq, sq->next);
	why = check_request(qp, w);
	if (why) {
		roce_send_error(qp, why);
		return NULL;
	}
	/* It may have waited to begin, and the peer's abilities have changed. */
	w->flags &= ~WQE_WHOLE;
	if (may_pull(qp, w))
		w->flags |= WQE_WHOLE;
	take_notes(qp, w);
	if (!may_send(qp, w, 0))
		return NULL;
	qp->req.ssn = w->ssn;
	sq->next++;
	return w;
}

/* Returns the WQE of the next packet; NULL if there is nothing to send now. */
static struct send_wqe *current(struct roce_qp *qp)
{
	struct send_queue *sq = &qp->wq->sq;

	while (!qp->req.halted && (qp->wq->state == IBV_QPS_RTS || qp->wq->state == IBV_QPS_SQD)) {
		bool begun = qp->req.index != sq->next;
		struct send_wqe *w = sq_wqe(sq, qp->req.index);

		if (begun && roce_is_local_op(w)) {
			qp->req.index++;
			continue;
		}
		if (begun)
			return may_send(qp, w, psn_distance(w->first_psn, qp->req.psn)) ? w : NULL;
		if (sq->next == sq->head || qp->wq->state == IBV_QPS_SQD)
			return NULL;
		if (unlikely(w->error))
			return begin(qp);
		if (may_run_direct(qp, w)) {
			if (!direct_op(qp, w))
				return NULL;
		} else if (!roce_is_local_op(w)) {
			return begin(qp);
		} else if (!local_op(qp, w)) {
			return NULL;
		}
	}
	return NULL;
}

/* Moves the cursor past the packet that was built. */
static void advance(struct roce_qp *qp, struct send_wqe *w, uint32_t psns)
{
	struct roce_req *req = &qp->req;

	if (unlikely(psn_before(req->psn, req->high))) {
		qp->counters.retransmitted_pkts++;
		roce_note(qp, NOTE_RETRANSMIT, req->psn, 0, REASON_NONE);
	}
	if (roce_wants_response(w))
		req->rd_open++;
	req->psn = psn_add(req->psn, psns);
	if (psn_before(req->high, req->psn))
		req->high = req->psn;
	if (psn_before(w->last_psn, req->psn))
		req->index++;
}

/* Are the only waiting requests ones that have never begun, and may they leave? */
static inline bool may_go_on(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	return sq->next != sq->head && qp->req.index == sq->next && roce_sends_in_order(qp);
}

/* Longer than a packet. If the receiver declines it, it is repeated as one that may_pull(). */
static bool may_leave_whole(const struct roce_qp *qp, const struct send_wqe *w)
{
	return w->length <= qp->wq->whole_max && !(w->flags & (WQE_DATA_INLINE | WQE_BY_PACKET));
}

/* A request that ends in a completion at the peer, and is short. */
static bool fits_message(const struct roce_qp *qp, const struct send_wqe *w)
{
	return (roce_is_send(w) || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
	       (likely(w->length <= qp->wq->mtu) || (may_leave_whole(qp, w) && !may_pull(qp, w)));
}

/* Only the receiver's memory bounds what is under way within the host: no window. */
struct send_wqe *roce_requester_plain(struct roce_qp *qp)
{
	struct send_wqe *w = sq_wqe(&qp->wq->sq, qp->req.index);

	if (!may_go_on(qp) || w->error || !fits_message(qp, w) || fenced(qp, w))
		return NULL;
	w->first_psn = w->last_psn = qp->req.psn;
	w->ssn = psn_next(qp->req.ssn);
	return !roce_cc_is_paced(&qp->cc) && roce_credits_allow(qp, w->ssn) ? w : NULL;
}

void roce_requester_sent_plain(struct roce_qp *qp, struct send_wqe *w)
{
	w->flags |= likely(w->length <= qp->wq->mtu) ? WQE_MESSAGE : WQE_MESSAGE | WQE_WHOLE;
	qp->req.ssn = w->ssn;
	qp->req.since_ack_req = 0;
	qp->req.psn = qp->req.high = psn_next(w->first_psn);
	qp->req.index = ++qp->wq->sq.next;
}

bool roce_run_direct(struct roce_qp *qp)
{
	struct send_queue *sq = &qp->wq->sq;

	/* Direct access overtakes all packets, so an ACK leaves first. Nothing is paced. */
	while (!roce_has_ack(qp) && may_go_on(qp)) {
		struct send_wqe *w = sq_wqe(sq, sq->next);

		if (w->error || !may_run_direct(qp, w) || !direct_op(qp, w))
			break;
	}
	roce_check(qp);
	return sq->next == sq->head;
}

bool roce_requester_has_write(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	return qp->req.index != sq->head &&
	       sq_wqe(sq, qp->req.index)->opcode == IBV_WR_RDMA_WRITE;
}

size_t roce_requester_output(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	struct send_wqe *w;
	uint32_t offset, psns, psn = qp->req.psn;
	/* An answer to any other packet could belong to its earlier copy. */
	bool first = psn == qp->req.high;
	size_t len;

	if (qp->retry.rnr_deadline != VRB_NEVER ||
	    !roce_cc_allows(&qp->cc, qp->req.high == qp->comp.una, now))
		return 0;
	if (unlikely(roce_selective_retx_due(qp)))
		return roce_selective_retx_output(qp, buf, now);
	w = current(qp);
	if (!w)
		return 0;
	offset = psn_distance(w->first_psn, qp->req.psn);
	psns = roce_packet_psns(qp, w, offset);
	len = roce_request_build(qp, w, offset, buf);
	if (!len)
		return 0;
	advance(qp, w, psns);
	if (roce_is_reliable(qp)) {
		roce_cc_sent(&qp->cc);
		if (!qp->req.since_ack_req && first)
			roce_cc_time(&qp->cc, psn, now);
		roce_retry_sent(qp, now);
	} else {
		roce_uc_sent(qp);
	}
	return len;
}
