/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of RC, XRC and UC: request packets become memory, receives and answers (IBTA vol 1,
 * 9.7.4, 9.7.5 and 9.8.2).
 *
 *	PSN -> OPSEQ -> OPCODE -> RESOURCE -> LENGTH -> ACCESS -> EXECUTE -> COMPLETE -> ACK
 *	 |       |        |          |          |         |         |
 *	 |       '--------'----------|----------'---------'---------'---> FAULT (faults.c)
 *	 |                           '--> RNR	no receive posted
 *	 |--> DUPLICATE	 before epsn: acknowledged or answered again
 *	 |--> GAP	 after epsn: one NAK
 *	 '--> DROP
 *
 * The steps up to ACCESS change nothing except that they take a receive. So an RNR NAK or a fault
 * leaves epsn unchanged, and EXECUTE (execute.c) executes each packet exactly once. response.c
 * sends the answers.
 */
#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/faults.h"
#include "roce/opcode.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/rd_atomic.h"
#include "util/compiler.h"

enum resp_step {
	RESP_PSN,
	RESP_OPSEQ,
	RESP_OPCODE,
	RESP_RESOURCE,
	RESP_LENGTH,
	RESP_ACCESS,
	RESP_EXECUTE,
	RESP_COMPLETE,
	RESP_ACK,
	RESP_DUPLICATE,
	RESP_GAP,
	RESP_RNR,
	RESP_FAULT,
	RESP_DROP,
	RESP_DONE,
	RESP_STEPS
};

static const char *const step_names[RESP_STEPS] = {
	[RESP_PSN] = "psn",         [RESP_OPSEQ] = "opseq",
	[RESP_OPCODE] = "opcode",   [RESP_RESOURCE] = "resource",
	[RESP_LENGTH] = "length",   [RESP_ACCESS] = "access",
	[RESP_EXECUTE] = "execute", [RESP_COMPLETE] = "complete",
	[RESP_ACK] = "ack",         [RESP_DUPLICATE] = "duplicate",
	[RESP_GAP] = "gap",         [RESP_RNR] = "rnr",
	[RESP_FAULT] = "fault",     [RESP_DROP] = "drop",
	[RESP_DONE] = "done",
};

const char *roce_resp_step_name(unsigned int step)
{
	return step < RESP_STEPS ? step_names[step] : "?";
}

/* The qp_access_flags that a packet requires; SEND needs none. */
static const uint32_t access_flags[] = {
	[ROCE_KIND_WRITE] = IBV_ACCESS_REMOTE_WRITE,
	[ROCE_KIND_READ] = IBV_ACCESS_REMOTE_READ,
	[ROCE_KIND_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC,
	[ROCE_KIND_ATOMIC_WRITE] = IBV_ACCESS_REMOTE_WRITE,
};

/* One packet in the steps. */
struct resp_ctx {
	struct roce_qp *qp;
	const struct roce_pkt *pkt;
	const struct roce_opcode_info *op;
	uint64_t now;
	enum reason why; /* RESP_FAULT */
};

static enum resp_step fault(struct resp_ctx *c, enum reason why)
{
	c->why = why;
	return RESP_FAULT;
}

void roce_responder_start(struct roce_qp *qp)
{
	qp->resp = (struct roce_resp){
		.epsn = psn_add(qp->wq->rq_psn, 0),
		.ack_psn = psn_add(qp->wq->rq_psn, -1),
	};
	roce_rd_reset(qp);
}

void roce_responder_drop_message(struct roce_qp *qp)
{
	if (qp->resp.wqe)
		qp->wq->ops->recv_untake(qp->wq);
	qp->resp.wqe = NULL;
	qp->resp.msg = ROCE_MSG_NONE;
	qp->resp.resid = 0;
}

void roce_message_dropped(struct roce_qp *qp, enum reason why)
{
	struct roce_counters *c = &qp->counters;

	if (why == REASON_DROP_NO_RECEIVE)
		c->unreceived_msgs++;
	else if (why == REASON_DROP_BROKEN)
		c->broken_msgs++;
	else
		c->refused_msgs++;
	qp->wq->ops->dropped(qp->wq, why);
}

/* The rest of the message does not count as a gap. */
static void drop_rest(struct roce_qp *qp, enum reason why)
{
	roce_responder_drop_message(qp);
	qp->resp.epsn = psn_add(qp->resp.epsn, 1);
	roce_message_dropped(qp, why);
}

/*
 * The payload could not be fetched: a live peer sends packets instead once it gets the NAK. Its
 * earlier packets, including another copy of this one, are not executed (nak_once()).
 */
static enum resp_step refuse_pull(struct resp_ctx *c)
{
	roce_responder_drop_message(c->qp);
	c->qp->resp.nak_sent = false;
	return RESP_GAP;
}

/* IBTA vol 1, 9.7.4 (RC) and 9.8.2 (UC): the PSN decides whether a packet is new, old or early. */
static enum resp_step check_psn(struct resp_ctx *c)
{
	struct roce_qp *qp = c->qp;
	uint32_t psn = c->pkt->bth.psn;

	if (!roce_is_reliable(qp))
		return roce_uc_check_psn(qp, c->pkt, roce_starts(c->op)) == ROCE_UC_ACCEPT
			       ? RESP_OPSEQ
			       : RESP_DROP;
	if (psn == qp->resp.epsn)
		return unlikely(roce_is_whole(c->pkt) && qp->resp.pull_refused) ? refuse_pull(c)
										: RESP_OPSEQ;
	return psn_before(psn, qp->resp.epsn) ? RESP_DUPLICATE : RESP_GAP;
}

/* IBTA vol 1, 9.7.4: FIRST MIDDLE... LAST, or ONLY, and no other sequence. */
static enum resp_step check_opseq(struct resp_ctx *c)
{
	enum roce_msg msg = c->qp->resp.msg;
	enum roce_kind expected = msg == ROCE_MSG_SEND ? ROCE_KIND_SEND : ROCE_KIND_WRITE;
	bool starts = roce_starts(c->op);

	if (msg == ROCE_MSG_NONE)
		return starts ? RESP_OPCODE : fault(c, REASON_REQ_OPCODE);
	return !starts && c->op->kind == expected ? RESP_OPCODE : fault(c, REASON_REQ_OPCODE);
}

static uint32_t needed_access(const struct resp_ctx *c)
{
	if (c->op->kind != ROCE_KIND_FLUSH)
		return access_flags[c->op->kind];
	return (c->pkt->feth.placement & ROCE_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
	       (c->pkt->feth.placement & ROCE_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0);
}

/*
 * The QP must allow the operation; otherwise NAK invalid request. The opcode table has already
 * shown that the service supports it.
 */
static enum resp_step check_opcode(struct resp_ctx *c)
{
	uint32_t needed;

	if (c->op->kind == ROCE_KIND_SEND)
		return RESP_RESOURCE;
	needed = needed_access(c);
	return (c->qp->wq->access & needed) == needed ? RESP_RESOURCE : fault(c, REASON_QP_ACCESS);
}

static struct recv_wqe *take_receive(struct resp_ctx *c, enum reason *why)
{
	struct wq_qp *wq = c->qp->wq;
	struct wq_head head = {
		.data = c->pkt->payload,
		.len = c->pkt->payload_len,
		.whole = roce_ends(c->op),
		.pull = c->pkt->pull,
	};

	return wq->ops->recv_take(wq, c->pkt->xrc_srqn,
				  c->op->kind == ROCE_KIND_SEND ? &head : NULL, why);
}

/* IBTA vol 1, 9.7.4: the R_Key of an empty message is not checked. */
static enum reason check_range(struct resp_ctx *c, enum mem_access access)
{
	struct wq_qp *wq = c->qp->wq;

	if (!c->pkt->reth.len)
		return REASON_NONE;
	return wq->ops->mem_check(wq, c->pkt->reth.rkey, c->pkt->reth.va, c->pkt->reth.len, access);
}

/*
 * A WRITE that would be several packets on the wire: there the first one is refused before the last
 * one takes a receive, so its refusal needs no receive and completes none.
 */
static bool is_long_write(const struct resp_ctx *c)
{
	return c->op->kind == ROCE_KIND_WRITE && roce_is_whole(c->pkt) &&
	       c->pkt->payload_len > c->qp->wq->mtu;
}

/* Requires a receive, or a READ/atomic resource. */
static enum resp_step check_resource(struct resp_ctx *c)
{
	struct roce_resp *resp = &c->qp->resp;

	if (roce_is_answered(c->op)) {
		/* Without memory the request is lost, and the peer repeats it. */
		if (roce_rd_slots(c->qp) && !roce_rd_made(c->qp))
			return RESP_DROP;
		if (!roce_rd_available(c->qp))
			return fault(c, REASON_REQ_RD_ATOMIC);
	}
	if (c->op->takes_recv && !resp->wqe) {
		enum reason why = REASON_NONE;

		if (unlikely(is_long_write(c)))
			why = check_range(c, MEM_REMOTE_WRITE);
		if (unlikely(why))
			return fault(c, why);
		resp->wqe = take_receive(c, &why);
		if (!resp->wqe && why == REASON_PEER_DIED)
			return RESP_DROP;
		if (!resp->wqe)
			return why ? fault(c, why) : RESP_RNR;
	}
	return RESP_LENGTH;
}

static bool is_mtu(uint32_t len)
{
	return len >= ROCE_MIN_MTU && !(len & (len - 1));
}

static bool is_other_mtu(const struct resp_ctx *c, uint32_t len, uint32_t most)
{
	if (!is_mtu(len) || len > most)
		return false;
	roce_note(c->qp, NOTE_MTU, c->pkt->bth.psn, len, REASON_NONE);
	return true;
}

/*
 * FIRST and MIDDLE fill the MTU, LAST has 1..MTU bytes, ONLY 0..MTU (IBTA vol 1, 9.7.4). The MTU is
 * the sender's, given by its FIRST and at most the path's: a host whose interface carries less than
 * the program requests sends less (core/control/qp_modify.c).
 */
static bool payload_fits(const struct resp_ctx *c)
{
	uint32_t len = c->pkt->payload_len, mtu = c->qp->wq->mtu;
	uint32_t most = max(mtu, c->qp->wq->path_mtu);

	if (roce_is_whole(c->pkt))
		return roce_starts(c->op) && roce_ends(c->op);
	if (roce_starts(c->op))
		return roce_ends(c->op) ? len <= most :
					  likely(len == mtu) || is_other_mtu(c, len, most);
	return roce_ends(c->op) ? len && len <= c->qp->resp.packet : len == c->qp->resp.packet;
}

/* The packets of a WRITE must carry exactly as many bytes as its RETH announced. */
static bool write_fits(const struct resp_ctx *c)
{
	uint32_t left = roce_starts(c->op) ? c->pkt->reth.len : c->qp->resp.resid;

	if (roce_starts(c->op) && c->pkt->reth.len > c->qp->wq->max_msg)
		return false;
	return roce_ends(c->op) ? c->pkt->payload_len == left : c->pkt->payload_len < left;
}

static enum resp_step check_length(struct resp_ctx *c)
{
	const struct roce_resp *resp = &c->qp->resp;
	uint64_t received = roce_starts(c->op) ? 0 : resp->received;

	switch (c->op->kind) {
	case ROCE_KIND_SEND:
		if (!payload_fits(c) || received + c->pkt->payload_len > c->qp->wq->max_msg)
			return fault(c, REASON_REQ_LENGTH);
		if (!recv_wqe_fits(resp->wqe, received + c->pkt->payload_len))
			return fault(c, REASON_REQ_RECV_SMALL);
		break;
	case ROCE_KIND_WRITE:
		if (!payload_fits(c) || !write_fits(c))
			return fault(c, REASON_REQ_LENGTH);
		break;
	case ROCE_KIND_READ:
		if (c->pkt->reth.len > c->qp->wq->max_msg)
			return fault(c, REASON_REQ_LENGTH);
		break;
	case ROCE_KIND_ATOMIC_WRITE:
		if (c->pkt->payload_len != 8 || c->pkt->reth.len != 8)
			return fault(c, REASON_REQ_LENGTH);
		break;
	default:
		break;
	}
	return RESP_ACCESS;
}

/*
 * The first packet of a READ or WRITE checks the whole range. Each access checks again, which
 * suffices for a single-packet WRITE.
 */
static enum resp_step check_access(struct resp_ctx *c)
{
	uint64_t va = c->op->kind == ROCE_KIND_ATOMIC ? c->pkt->atomic.va : c->pkt->reth.va;
	enum reason why = REASON_NONE;

	if ((c->op->kind == ROCE_KIND_ATOMIC || c->op->kind == ROCE_KIND_ATOMIC_WRITE) && va % 8)
		return fault(c, REASON_REQ_ATOMIC_ALIGN);
	if (c->op->kind == ROCE_KIND_READ)
		why = check_range(c, MEM_REMOTE_READ);
	else if (c->op->kind == ROCE_KIND_WRITE && roce_starts(c->op) &&
		 (!roce_ends(c->op) || c->pkt->pull))
		why = check_range(c, MEM_REMOTE_WRITE);
	return why ? fault(c, why) : RESP_EXECUTE;
}

/* Executes the packet, then advances epsn, and MSN after a message's last packet. */
static enum resp_step execute(struct resp_ctx *c)
{
	struct roce_qp *qp = c->qp;
	struct roce_resp *resp = &qp->resp;
	uint32_t done = 0;
	enum reason why;

	why = roce_execute(qp, c->pkt, c->op, &done, c->now);
	if (why == REASON_PEER_DIED)
		return refuse_pull(c);
	if (likely(done)) {
		resp->epsn = psn_add(resp->epsn, done);
		resp->psns += done;
		if (!roce_is_answered(c->op))
			resp->ack_psn = psn_add(resp->epsn, -1);
		resp->received += done * c->pkt->payload_len;
		resp->nak_sent = resp->gap_nak_pending = resp->pull_refused = false;
	}
	if (why) {
		qp->counters.dropped_pkts += c->pkt->more - done;
		return fault(c, why);
	}
	if (!(roce_ends(c->op)))
		return RESP_ACK;
	resp->msn = psn_add(resp->msn, 1);
	resp->msg = ROCE_MSG_NONE;
	if (roce_has(c->op, ROCE_HDR_IETH) &&
	    qp->wq->ops->invalidate(qp->wq, c->pkt->ieth_rkey, true))
		return fault(c, REASON_REQ_INVALIDATE);
	return resp->wqe ? RESP_COMPLETE : RESP_ACK;
}

static enum resp_step complete(struct resp_ctx *c)
{
	struct wq_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = c->op->kind == ROCE_KIND_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = c->qp->resp.received,
		.solicited = c->pkt->bth.solicited,
	};

	if (roce_has(c->op, ROCE_HDR_IMMDT)) {
		cqe.imm = c->pkt->imm;
		cqe.wc_flags = IBV_WC_WITH_IMM;
	} else if (roce_has(c->op, ROCE_HDR_IETH)) {
		cqe.imm = c->pkt->ieth_rkey;
		cqe.wc_flags = IBV_WC_WITH_INV;
	}
	roce_responder_complete(c->qp, &cqe);
	return RESP_ACK;
}

/* ops->complete may have failed the QP. */
static enum resp_step acknowledge(struct resp_ctx *c)
{
	if (roce_is_reliable(c->qp) && c->pkt->bth.ack_req && !roce_is_answered(c->op) &&
	    !c->qp->flushed)
		roce_ack_pend(c->qp, psn_add(c->pkt->bth.psn, c->pkt->more));
	return RESP_DONE;
}

static enum resp_step duplicate(struct resp_ctx *c)
{
	c->qp->counters.duplicate_request++;
	roce_note(c->qp, NOTE_DUPLICATE, c->pkt->bth.psn, 0, REASON_NONE);
	return roce_response_again(c->qp, c->pkt, c->op) ? RESP_DONE : RESP_DROP;
}

/*
 * IBTA vol 1, 9.7.5: one NAK per gap; after it, and after an RNR NAK, only the expected PSN is
 * accepted.
 *
 * A local peer that gets the NAK resends the message at epsn as packets, if its payload was to be
 * pulled, and renumbers those that follow. So a copy of the old request that is still in flight
 * must not be executed: the PSNs of the new packets would then be old.
 */
static bool nak_once(struct roce_qp *qp)
{
	if (qp->resp.nak_sent)
		return false;
	qp->resp.nak_sent = qp->resp.pull_refused = true;
	roce_note(qp, NOTE_NAK_SENT, qp->resp.epsn,
		  roce_syndrome(ROCE_AETH_NAK, ROCE_NAK_PSN_SEQUENCE_ERROR), REASON_NONE);
	roce_gap_pend(qp);
	return true;
}

static enum resp_step gap(struct resp_ctx *c)
{
	c->qp->counters.out_of_seq_request++;
	return nak_once(c->qp) ? RESP_DONE : RESP_DROP;
}

void roce_responder_nak_gap(struct roce_qp *qp)
{
	nak_once(qp);
}

static enum resp_step rnr(struct resp_ctx *c)
{
	struct roce_qp *qp = c->qp;

	qp->counters.out_of_buffer++;
	if (!roce_is_reliable(qp)) {
		drop_rest(qp, REASON_DROP_NO_RECEIVE);
		return RESP_DROP;
	}
	qp->counters.send_rnr_err++;
	roce_note(qp, NOTE_RNR_SENT, qp->resp.epsn,
		  roce_syndrome(ROCE_AETH_RNR_NAK, qp->wq->min_rnr_timer), REASON_NONE);
	qp->resp.nak_sent = true;
	qp->resp.gap_nak_pending = false;
	roce_nak_pend(qp, roce_syndrome(ROCE_AETH_RNR_NAK, qp->wq->min_rnr_timer), qp->resp.epsn);
	return RESP_DONE;
}

/*
 * Acts as the tables specify: sends a NAK or none, completes the receive in error or raises an
 * event, fails the QP or only drops the message. On a QP that is already failing, it only replaces
 * the last NAK.
 */
static void apply_fault(struct roce_qp *qp, enum reason why, uint32_t psn, bool hits_recv)
{
	const struct roce_fault *f = roce_fault(why);
	enum roce_fault_action action = f->action[roce_fault_column(qp->wq->type)];

	if (action == ROCE_FAULT_DROP) {
		drop_rest(qp, why);
		qp->counters.dropped_pkts++;
		roce_note(qp, NOTE_DROP, psn, 0, why);
		return;
	}
	if (action == ROCE_FAULT_NAK) {
		roce_nak_pend(qp, roce_syndrome(ROCE_AETH_NAK, f->nak), psn);
		roce_note(qp, NOTE_NAK_SENT, psn, roce_syndrome(ROCE_AETH_NAK, f->nak), why);
		qp->dying = true;
	} else if (action == ROCE_FAULT_ACK) {
		roce_ack_pend(qp, qp->resp.ack_psn);
		qp->dying = true;
	}
	if (qp->flushed)
		return;
	if (hits_recv) {
		struct wq_cqe cqe = { .status = f->status, .reason = why, .opcode = IBV_WC_RECV };

		roce_responder_complete(qp, &cqe);
	} else {
		qp->wq->fault = why;
		qp->wq->ops->event(qp->wq, f->event);
	}
	roce_enter_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
}

void roce_responder_fault(struct roce_qp *qp, enum reason why)
{
	qp->wq->fault_kind = ROCE_KIND_NONE;
	apply_fault(qp, why, qp->resp.epsn, qp->resp.wqe != NULL);
}

void roce_response_fault(struct roce_qp *qp, enum reason why, uint32_t psn)
{
	qp->wq->fault_kind = ROCE_KIND_NONE;
	apply_fault(qp, why, psn, false);
}

static enum resp_step do_fault(struct resp_ctx *c)
{
	struct roce_qp *qp = c->qp;

	if (unlikely(is_long_write(c)))
		roce_responder_drop_message(qp);
	qp->wq->fault_kind = c->op->kind;
	apply_fault(qp, c->why, qp->resp.epsn, qp->resp.wqe != NULL);
	return RESP_DONE;
}

static enum resp_step do_drop(struct resp_ctx *c)
{
	c->qp->counters.dropped_pkts++;
	roce_note(c->qp, NOTE_DROP, c->pkt->bth.psn, 0, c->why);
	return RESP_DONE;
}

static enum resp_step (*const ends[RESP_DONE])(struct resp_ctx *c) = {
	[RESP_ACK] = acknowledge,
	[RESP_DUPLICATE] = duplicate,
	[RESP_GAP] = gap,
	[RESP_RNR] = rnr,
	[RESP_FAULT] = do_fault,
	[RESP_DROP] = do_drop,
};

/*
 * Runs the steps that may continue, in a row so that the compiler can join them. Returns the first
 * one that ends the processing of the packet.
 */
static enum resp_step walk(struct resp_ctx *c)
{
	enum resp_step next = check_psn(c);

	if (likely(next == RESP_OPSEQ))
		next = check_opseq(c);
	if (likely(next == RESP_OPCODE))
		next = check_opcode(c);
	if (likely(next == RESP_RESOURCE))
		next = check_resource(c);
	if (likely(next == RESP_LENGTH))
		next = check_length(c);
	if (likely(next == RESP_ACCESS))
		next = check_access(c);
	if (likely(next == RESP_EXECUTE))
		next = execute(c);
	if (likely(next == RESP_COMPLETE))
		next = complete(c);
	return next;
}

bool roce_responder_takes_run(const struct roce_qp *qp, const struct roce_pkt *run,
			      const struct roce_opcode_info *op)
{
	const struct roce_resp *resp = &qp->resp;
	uint64_t bytes = (1 + run->more) * (uint64_t)run->payload_len;

	if (run->bth.psn != resp->epsn || run->payload_len != resp->packet)
		return false;
	if (resp->msg == ROCE_MSG_WRITE)
		return op->kind == ROCE_KIND_WRITE && bytes < resp->resid;
	return resp->msg == ROCE_MSG_SEND && op->kind == ROCE_KIND_SEND &&
	       resp->received + bytes <= qp->wq->max_msg &&
	       recv_wqe_fits(resp->wqe, resp->received + bytes);
}

void roce_responder_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now)
{
	struct resp_ctx c = { .qp = qp, .pkt = pkt, .op = op, .now = now };
	enum resp_step step;

	if (qp->wq->state == IBV_QPS_RTR && !qp->resp.established) {
		qp->resp.established = true;
		qp->wq->ops->event(qp->wq, IBV_EVENT_COMM_EST);
	}
	step = walk(&c);
	while (step != RESP_DONE) {
		qp->resp.last_step = step;
		step = ends[step](&c);
	}
}
