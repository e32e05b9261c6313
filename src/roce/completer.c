/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer of RC and XRC: ACKs, NAKs and responses become completions, or retries (IBTA vol 1,
 * 9.7.5 and 9.7.7).
 *
 *	                  .--> ACK ----------.
 *	 PSN --> KIND ----+--> RNR, NAK -----+--> DONE
 *	  |       |       '--> RESPONSE --> PLACE --> DONE
 *	  |       |                |          |
 *	  '-------'---> DROP       |          '--> FAIL	(bad memory, or not what was requested)
 *	                           '--> GAP		(an earlier answer is missing: retry)
 *
 * Every packet with PSN p acknowledges the requests before p, but only up to a READ or atomic whose
 * answer is missing. That answer was lost, and an immediate retry is faster than the timer (implied
 * NAK, once per gap).
 */

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/faults.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/request.h"
#include "roce/retry.h"
#include "util/compiler.h"

enum comp_step {
	COMP_PSN,
	COMP_KIND,
	COMP_ACK,
	COMP_RNR,
	COMP_NAK,
	COMP_RESPONSE,
	COMP_PLACE,
	COMP_GAP,
	COMP_FAIL,
	COMP_DROP,
	COMP_DONE,
	COMP_STEPS
};

static const char *const step_names[COMP_STEPS] = {
	[COMP_PSN] = "psn",     [COMP_KIND] = "kind", [COMP_ACK] = "ack",
	[COMP_RNR] = "rnr",     [COMP_NAK] = "nak",   [COMP_RESPONSE] = "response",
	[COMP_PLACE] = "place", [COMP_GAP] = "gap",   [COMP_FAIL] = "fail",
	[COMP_DROP] = "drop",   [COMP_DONE] = "done",
};

const char *roce_comp_step_name(unsigned int step)
{
	return step < COMP_STEPS ? step_names[step] : "?";
}

/* One packet in the steps. */
struct comp_ctx {
	struct roce_qp *qp;
	const struct roce_pkt *pkt;
	uint64_t now;
	const struct roce_opcode_info *op;
	enum ibv_wc_status status; /* COMP_FAIL: status of the oldest request */
	enum reason why;
};

static enum comp_step fail(struct comp_ctx *c, enum ibv_wc_status status, enum reason why)
{
	c->status = status;
	c->why = why;
	return COMP_FAIL;
}

/* Moves una to psn and cancels pending retransmissions of packets before it. */
static void advance_una(struct comp_ctx *c, uint32_t psn)
{
	struct roce_qp *qp = c->qp;
	uint32_t psns = psn_distance(qp->comp.una, psn);

	qp->comp.una = psn;
	qp->comp.gap_retried = false;
	if (psn_before(qp->req.psn, psn)) {
		roce_cc_undo(&qp->cc);
		roce_note_window(qp);
		roce_requester_rewind(qp);
	}
	roce_retry_progress(qp, psns, c->now);
}

void roce_completer_settle(struct roce_qp *qp)
{
	struct wq_qp *wq = qp->wq;
	struct send_queue *sq = &wq->sq;

	while (sq->done != sq->next && roce_is_local_op(sq_wqe(sq, sq->done))) {
		if (qp->req.index == sq->done)
			qp->req.index++;
		roce_complete_send(qp);
	}
	if (qp->req.halted && sq->done == qp->req.index)
		roce_enter_error(qp, qp->req.halt_status, qp->req.halt_why);
	roce_check_drained(qp);
}

/*
 * Acknowledges everything before psn: completes those requests, up to one that needs a response.
 * Returns false if such a request is before psn.
 */
static bool acknowledge_before(struct comp_ctx *c, uint32_t psn)
{
	struct roce_qp *qp = c->qp;
	struct send_queue *sq = &qp->wq->sq;

	roce_completer_settle(qp);
	while (sq->done != sq->next && psn_before(qp->comp.una, psn)) {
		const struct send_wqe *w = sq_wqe(sq, sq->done);

		if (roce_wants_response(w))
			return false;
		if (!psn_before(w->last_psn, psn)) {
			advance_una(c, psn);
			break;
		}
		advance_una(c, psn_add(w->last_psn, 1));
		roce_complete_send(qp);
		roce_completer_settle(qp);
	}
	return true;
}

/* A peer that has acknowledged nothing expects other PSNs, if it answers those. */
static enum comp_step stray(struct roce_qp *qp)
{
	if (qp->comp.una == psn_add(qp->wq->sq_psn, 0))
		qp->comp.strayed = true;
	return COMP_DROP;
}

/*
 * Only PSNs in flight count (IBTA vol 1, 9.7.5: ghost acknowledgements are discarded). An ACK of
 * the newest acknowledged PSN may update credits. A duplicate answer shows that the packet repeated
 * by a probe was late, not lost.
 */
static enum comp_step check_psn(struct comp_ctx *c)
{
	struct roce_qp *qp = c->qp;
	uint32_t psn = c->pkt->bth.psn;

	if (psn_before(psn, qp->comp.una)) {
		if (c->op->kind == ROCE_KIND_ACK && psn_add(psn, 1) == qp->comp.una)
			roce_credits_update(qp, c->pkt->aeth.syndrome, c->pkt->aeth.msn);
		else
			stray(qp);
		if (c->op->kind == ROCE_KIND_READ_RESPONSE) {
			roce_cc_undo(&qp->cc);
			roce_note_window(qp);
		}
		return COMP_DROP;
	}
	return psn_before(psn, qp->req.high) ? COMP_KIND : stray(qp);
}

static enum comp_step check_kind(struct comp_ctx *c)
{
	static const enum comp_step by_class[] = {
		[ROCE_AETH_ACK] = COMP_ACK,
		[ROCE_AETH_RNR_NAK] = COMP_RNR,
		[ROCE_AETH_NAK] = COMP_NAK,
	};
	enum roce_aeth_class kind = roce_syndrome_class(c->pkt->aeth.syndrome);

	if (!roce_has(c->op, ROCE_HDR_AETH))
		return COMP_RESPONSE;
	if (kind == ROCE_AETH_RESERVED)
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	roce_credits_update(c->qp, c->pkt->aeth.syndrome, c->pkt->aeth.msn);
	if (c->op->kind == ROCE_KIND_ACK)
		return by_class[kind];
	if (kind != ROCE_AETH_ACK)
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	return COMP_RESPONSE;
}

static enum comp_step do_ack(struct comp_ctx *c)
{
	if (!acknowledge_before(c, psn_add(c->pkt->bth.psn, 1)))
		return COMP_GAP;
	roce_selective_retx_acked(c->qp);
	return COMP_DONE;
}

/* Is this a NAK of packets that will be retransmitted anyway? Then it carries no information. */
static bool already_back(const struct comp_ctx *c)
{
	uint32_t psn = c->pkt->bth.psn;

	return !psn_before(psn, c->qp->req.psn) || roce_selective_retx_covers(c->qp, psn);
}

static enum comp_step do_rnr(struct comp_ctx *c)
{
	c->qp->counters.rcvd_rnr_err++;
	if (!acknowledge_before(c, c->pkt->bth.psn))
		return COMP_GAP;
	if (!already_back(c))
		roce_retry_rnr(c->qp, roce_syndrome_value(c->pkt->aeth.syndrome), c->now);
	return COMP_DONE;
}

/*
 * A fatal NAK ends the connection even if earlier answers are missing: the responder is in its
 * error state and will not repeat them. The oldest request then fails with the NAK's status.
 */
static enum comp_step do_nak(struct comp_ctx *c)
{
	uint8_t code = roce_syndrome_value(c->pkt->aeth.syndrome);
	const struct roce_nak_result *result = roce_nak_result(code);
	bool in_order = acknowledge_before(c, c->pkt->bth.psn);

	roce_note(c->qp, NOTE_NAK_RCVD, c->pkt->bth.psn, c->pkt->aeth.syndrome,
		  result ? result->why : REASON_NONE);
	if (code != ROCE_NAK_PSN_SEQUENCE_ERROR)
		return result ? fail(c, result->status, result->why)
			      : fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	c->qp->counters.rcvd_seq_err++;
	if (!in_order)
		return COMP_GAP;
	if (!already_back(c) && !roce_requester_take_back(c->qp))
		roce_retry(c->qp, ROCE_RETRY_NAK);
	return COMP_DONE;
}

/* A response acknowledges the requests before it and must be the next one expected. */
static enum comp_step do_response(struct comp_ctx *c)
{
	struct roce_qp *qp = c->qp;
	struct send_queue *sq = &qp->wq->sq;
	uint32_t psn = c->pkt->bth.psn;

	if (!acknowledge_before(c, psn))
		return COMP_GAP;
	if (qp->wq->state == IBV_QPS_ERR)
		return COMP_DONE;
	if (sq->done == sq->next || qp->comp.una != psn)
		return COMP_DROP;
	if (!roce_wants_response(sq_wqe(sq, sq->done)))
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	return COMP_PLACE;
}

/*
 * Places one packet of a READ response. The response to a partial retry may begin with FIRST or,
 * from soft RoCE, MIDDLE. So the position determines where it ends, and the opcode must only agree.
 */
static enum comp_step place_read(struct comp_ctx *c, const struct send_wqe *w, bool *last,
				 uint32_t *done)
{
	struct roce_qp *qp = c->qp;
	uint32_t offset = psn_distance(w->first_psn, qp->comp.una);
	uint64_t byte = (uint64_t)offset * qp->wq->mtu;
	uint32_t expected = min(w->length - byte, (uint64_t)qp->wq->mtu);
	enum reason why;

	*last = offset == roce_read_piece_end(qp, w, offset);
	if (c->op->kind != ROCE_KIND_READ_RESPONSE || roce_ends(c->op) != *last)
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	if (c->pkt->payload_len != expected)
		return fail(c, IBV_WC_LOC_LEN_ERR, REASON_BAD_RESPONSE);
	for (*done = 0; *done <= c->pkt->more; ++*done, byte += expected) {
		why = roce_scatter(qp, w->sge, w->num_sge, byte, roce_run_payload(c->pkt, *done),
				   expected, MEM_LOCAL_WRITE);
		if (why)
			return fail(c, roce_local_status(why), why);
	}
	return COMP_DONE;
}

static enum comp_step place_atomic(struct comp_ctx *c, const struct send_wqe *w)
{
	uint64_t original = c->pkt->atomic_ack;
	enum reason why;

	if (c->op->kind != ROCE_KIND_ATOMIC_ACK)
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	why = roce_scatter(c->qp, w->sge, w->num_sge, 0, &original, sizeof(original),
			   MEM_LOCAL_WRITE);
	return why ? fail(c, roce_local_status(why), why) : COMP_DONE;
}

/* FLUSH and ATOMIC WRITE: a READ response without data (Annex A19). */
static enum comp_step place_empty(struct comp_ctx *c)
{
	if (c->op->kind != ROCE_KIND_READ_RESPONSE || c->op->place != ROCE_PLACE_ONLY ||
	    c->pkt->payload_len)
		return fail(c, IBV_WC_BAD_RESP_ERR, REASON_BAD_RESPONSE);
	return COMP_DONE;
}

static enum comp_step do_place(struct comp_ctx *c)
{
	struct roce_qp *qp = c->qp;
	struct send_queue *sq = &qp->wq->sq;
	const struct send_wqe *w = sq_wqe(sq, sq->done);
	bool last = true;
	uint32_t done = 1;
	enum comp_step next;

	if (w->opcode == IBV_WR_RDMA_READ)
		next = place_read(c, w, &last, &done);
	else if (w->opcode == IBV_WR_FLUSH || w->opcode == IBV_WR_ATOMIC_WRITE)
		next = place_empty(c);
	else
		next = place_atomic(c, w);
	if (next != COMP_DONE)
		return next;
	if (last && qp->req.rd_open && psn_before(qp->comp.una, qp->req.psn))
		qp->req.rd_open--;
	advance_una(c, psn_add(qp->comp.una, done));
	if (psn_before(w->last_psn, qp->comp.una)) {
		roce_complete_send(qp);
		roce_completer_settle(qp);
	}
	return COMP_DONE;
}

/* IBTA vol 1, 9.7.6: a response after a missing one is an implied NAK. */
static enum comp_step do_gap(struct comp_ctx *c)
{
	struct roce_comp *comp = &c->qp->comp;

	if (comp->gap_retried || !psn_before(comp->una, c->qp->req.psn))
		return COMP_DROP;
	comp->gap_retried = true;
	roce_retry(c->qp, ROCE_RETRY_GAP);
	return COMP_DONE;
}

static enum comp_step do_fail(struct comp_ctx *c)
{
	c->qp->counters.send_err++;
	roce_enter_error(c->qp, c->status, c->why);
	return COMP_DONE;
}

static enum comp_step do_drop(struct comp_ctx *c)
{
	c->qp->counters.dropped_pkts++;
	roce_note(c->qp, NOTE_DROP, c->pkt->bth.psn, 0, REASON_NONE);
	return COMP_DONE;
}

static enum comp_step (*const steps[COMP_DONE])(struct comp_ctx *c) = {
	[COMP_ACK] = do_ack,     [COMP_RNR] = do_rnr,           [COMP_NAK] = do_nak,
	[COMP_PLACE] = do_place, [COMP_RESPONSE] = do_response, [COMP_GAP] = do_gap,
	[COMP_FAIL] = do_fail,   [COMP_DROP] = do_drop,
};

bool roce_completer_takes_run(const struct roce_qp *qp, const struct roce_pkt *run)
{
	const struct send_queue *sq = &qp->wq->sq;
	const struct send_wqe *w = sq_wqe(sq, sq->done);
	uint32_t offset, last = psn_add(run->bth.psn, run->more);

	if (run->bth.psn != qp->comp.una || !psn_before(last, qp->req.psn) ||
	    sq->done == sq->next || !roce_is_read(w) || psn_before(w->last_psn, last))
		return false;
	offset = psn_distance(w->first_psn, qp->comp.una);
	return offset + run->more < roce_read_piece_end(qp, w, offset);
}

void roce_completer_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now)
{
	struct comp_ctx c = { .qp = qp, .pkt = pkt, .op = op, .now = now };
	enum comp_step step = check_psn(&c);

	if (likely(step == COMP_KIND))
		step = check_kind(&c);
	while (step != COMP_DONE) {
		qp->comp.last_step = step;
		step = steps[step](&c);
	}
}

/* Does an ACK of n PSNs complete n messages in flight, and nothing else? */
static bool completes_messages(const struct roce_qp *qp, uint8_t syndrome, uint32_t n)
{
	const struct send_queue *sq = &qp->wq->sq;

	if (n > sq->next - sq->done || qp->wq->state != IBV_QPS_RTS ||
	    roce_syndrome_class(syndrome) != ROCE_AETH_ACK ||
	    qp->req.psn != qp->req.high || qp->req.halted ||
	    qp->req.retx.end != qp->req.retx.from || qp->cc.timing)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!(sq_wqe(sq, sq->done + i)->flags & WQE_MESSAGE))
			return false;
	return true;
}

/* Completes the oldest n messages. ops->complete may fail the QP. */
static void complete_messages(struct roce_qp *qp, uint32_t n)
{
	qp->comp.una = psn_add(qp->comp.una, n);
	qp->comp.gap_retried = false;
	roce_retry_passed(qp);
	while (n-- && !qp->flushed)
		roce_complete_send(qp);
	if (!qp->flushed)
		roce_completer_settle(qp);
}

/* An ACK that does something else than to complete messages. */
static void ack_as_packet(struct roce_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now)
{
	struct roce_pkt pkt;	/* an ACK carries nothing more */

	pkt.bth.psn = ack->psn;
	pkt.aeth.syndrome = ack->syndrome;
	pkt.aeth.msn = ack->msn;
	if (!roce_runs_requester(qp) || qp->wq->type != IBV_QPT_RC)
		qp->counters.dropped_pkts++;
	else
		roce_completer_input(qp, &pkt, roce_opcode_info(ROCE_RC_ACKNOWLEDGE), now);
}

bool roce_ack_input(struct roce_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now)
{
	uint32_t n = psn_add(ack->psn, 1 - qp->comp.una);
	bool messages;

	/* The published ACK is repeated beside a message, perhaps with new credits. */
	if (!n) {
		roce_credits_update(qp, ack->syndrome, ack->msn);
		return false;
	}
	qp->counters.rcvd_pkts++;
	messages = completes_messages(qp, ack->syndrome, n);
	if (likely(messages)) {
		roce_credits_update(qp, ack->syndrome, ack->msn);
		complete_messages(qp, n);
	} else {
		ack_as_packet(qp, ack, now);
	}
	roce_check(qp);
	return !messages || qp->flushed;
}
