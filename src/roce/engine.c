/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's entry points: dispatch packets by service, and choose the order in which packets
 * leave. No locks: the caller holds the QP's lock around every call.
 */
#include <assert.h>
#include <string.h>

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/retry.h"
#include "roce/snapshot.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	CNP_HOP_LIMIT = 64,
};

void roce_complete_send(struct roce_qp *qp)
{
	switch (sq_wqe(&qp->wq->sq, qp->wq->sq.done)->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		qp->counters.rdma_sends++;
		break;
	default:
		break;
	}
	wq_complete_send(qp->wq);
}

static bool runs_responder(const struct roce_qp *qp)
{
	switch (qp->wq->state) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		return true;
	default:
		return false;
	}
}


/* Input */

/* A connected QP accepts only packets of its peer, from its primary or alternate address. */
static bool from_peer(const struct wq_qp *wq, const struct roce_pkt *pkt)
{
	if (wq->type == IBV_QPT_UD)
		return true;
	if (net_addr_equal(&pkt->path.src, &wq->path.dst))
		return true;
	return wq->mig_state != IBV_MIG_MIGRATED &&
	       net_addr_equal(&pkt->path.src, &wq->alt_path.dst);
}

/*
 * Only a single-packet message that carries data to a reliable responder may leave its payload in
 * the sender's memory, or be longer than an MTU.
 */
static bool may_be_whole(const struct roce_qp *qp, const struct roce_opcode_info *op)
{
	return roce_is_reliable(qp) && roce_starts(op) && roce_ends(op) &&
	       (op->kind == ROCE_KIND_SEND || (op->kind == ROCE_KIND_WRITE && op->takes_recv));
}

/* Does not check the P_Key, whose violations are counted. */
static bool is_for_qp(const struct roce_qp *qp, const struct roce_pkt *pkt,
		      const struct roce_opcode_info *op)
{
	if (unlikely(roce_is_whole(pkt)) && !may_be_whole(qp, op))
		return false;
	return runs_responder(qp) && roce_opcode_accepted(op, qp->wq->type) &&
	       from_peer(qp->wq, pkt);
}

static bool acceptable(struct roce_qp *qp, const struct roce_pkt *pkt,
		       const struct roce_opcode_info *op)
{
	if (!is_for_qp(qp, pkt, op))
		return false;
	if (likely(roce_pkey_match(pkt->bth.pkey, qp->wq->pkey)))
		return true;
	qp->wq->ops->violated(qp->wq, VIOLATION_PKEY);
	return false;
}

/*
 * A UD sender gets a CNP like any other (Annex A17), but not from the members of a multicast group:
 * they would all send one, and reduce the sender to the rate of the slowest. Call only for an
 * accepted datagram: its Q_Key shows that this QP communicates with the sender, whose address and
 * QP number may be forged.
 */
static void pend_cnp(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	if (qp->wq->type == IBV_QPT_UD) {
		if (net_is_multicast(&pkt->path.dst))
			return;
		qp->ud->cnp_qpn = pkt->deth.src_qpn;
		qp->ud->cnp_path = (struct net_path){ .src = pkt->path.dst,
						      .dst = pkt->path.src,
						      .ifindex = pkt->path.ifindex,
						      .hop_limit = CNP_HOP_LIMIT };
	}
	qp->resp.cnp_pending = true;
}

/* A requester controls how many responses to its READs arrive, so it slows down, too. */
static void note_congestion(struct roce_qp *qp, const struct roce_pkt *pkt,
			    const struct roce_opcode_info *op, uint64_t now)
{
	if (likely((pkt->path.traffic_class & ROCE_ECN_MASK) != ROCE_ECN_CE && !pkt->bth.fecn))
		return;
	qp->counters.ecn_marked += 1 + pkt->more;
	pend_cnp(qp, pkt);
	if (op->kind == ROCE_KIND_READ_RESPONSE) {
		roce_cc_notified(&qp->cc, now);
		roce_note_window(qp);
	}
}

/* For a connected QP, only the peer's CNPs get here; those for UD may come from anywhere. */
static void input_cnp(struct roce_qp *qp, const struct roce_pkt *pkt, uint64_t now)
{
	if (qp->wq->type == IBV_QPT_UD &&
	    !roce_sent_to_lately(&qp->ud->sent_to, &pkt->path.src, now)) {
		qp->counters.dropped_pkts++;
		return;
	}
	qp->counters.cnp_rcvd++;
	roce_note(qp, NOTE_CNP_RCVD, 0, 0, REASON_NONE);
	if (roce_is_reliable(qp)) {
		roce_cc_notified(&qp->cc, now);
		roce_note_window(qp);
		roce_pace_spread_answers(qp, false);
	} else {
		roce_pace_notified(qp, now);
	}
}

static void dispatch(struct roce_qp *qp, const struct roce_pkt *pkt,
		     const struct roce_opcode_info *op, uint64_t now)
{
	if (op->kind == ROCE_KIND_CNP) {
		input_cnp(qp, pkt, now);
		return;
	}
	if (qp->wq->type == IBV_QPT_UD) {
		if (roce_ud_input(qp, pkt, op))
			note_congestion(qp, pkt, op, now);
		return;
	}
	note_congestion(qp, pkt, op, now);
	if (roce_is_request(op))
		roce_responder_input(qp, pkt, op, now);
	else if (roce_runs_requester(qp))
		roce_completer_input(qp, pkt, op, now);
	else
		qp->counters.dropped_pkts++;
}

bool roce_admit(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	if (!acceptable(qp, pkt, roce_opcode_info(pkt->bth.opcode))) {
		qp->counters.dropped_pkts++;
		roce_note(qp, NOTE_DROP, pkt->bth.psn, 0, REASON_NONE);
		return false;
	}
	if (unlikely(qp->wq->mig_state != IBV_MIG_MIGRATED))
		roce_follow_migration(qp, pkt);
	return true;
}

void roce_input(struct roce_qp *qp, const struct roce_pkt *pkt, uint64_t now)
{
	const struct roce_opcode_info *op = roce_opcode_info(pkt->bth.opcode);

	roce_check(qp);
	qp->counters.rcvd_pkts += 1 + pkt->more;
	qp->counters.rcvd_bytes += (1 + pkt->more) * (uint64_t)pkt->payload_len;
	if (!acceptable(qp, pkt, op)) {
		qp->counters.dropped_pkts += 1 + pkt->more;
		roce_note(qp, NOTE_DROP, pkt->bth.psn, 0, REASON_NONE);
		return;
	}
	if (unlikely(qp->wq->mig_state != IBV_MIG_MIGRATED))
		roce_follow_migration(qp, pkt);
	if (pkt->ack)
		roce_ack_input(qp, pkt->ack, now);
	if (!pkt->ack || !qp->flushed)	/* the ACK may have failed the QP */
		dispatch(qp, pkt, op, now);
	else
		qp->counters.dropped_pkts++;
	roce_check(qp);
}

bool roce_takes_run(const struct roce_qp *qp, const struct roce_pkt *run)
{
	const struct roce_opcode_info *op = roce_opcode_info(run->bth.opcode);

	if (!roce_is_reliable(qp))
		return false;
	return roce_is_request(op) ? roce_responder_takes_run(qp, run, op)
				   : roce_completer_takes_run(qp, run);
}

bool roce_fills_gap_later(const struct roce_qp *qp, const struct roce_pkt *pkt)
{
	const struct roce_opcode_info *op = roce_opcode_info(pkt->bth.opcode);

	return !roce_is_whole(pkt) && roce_is_reliable(qp) &&
	       psn_in_range(pkt->bth.psn, psn_next(qp->resp.epsn),
			    psn_add(qp->resp.epsn, TUNE_WINDOW_MAX - 1)) &&
	       is_for_qp(qp, pkt, op) &&
	       roce_pkey_match(pkt->bth.pkey, qp->wq->pkey) &&
	       pkt->payload_len <= max(qp->wq->mtu, qp->wq->path_mtu);
}

void roce_nak_again(struct roce_qp *qp)
{
	if (runs_responder(qp) && roce_is_reliable(qp))
		roce_responder_nak_gap(qp);
	roce_check(qp);
}

/* Output */

static bool cnp_due(const struct roce_qp *qp, uint64_t now)
{
	return qp->resp.cnp_pending &&
	       (!qp->resp.cnp_sent ||
		time_since(qp->resp.cnp_time, now) >= TUNE_CNP_SEND_US * VRB_USEC);
}

static size_t build_cnp(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	struct roce_pkt pkt;
	size_t hdr;

	qp->resp.cnp_pending = false;
	qp->resp.cnp_sent = true;
	qp->resp.cnp_time = now;
	qp->counters.cnp_sent++;
	roce_note(qp, NOTE_CNP_SENT, 0, 0, REASON_NONE);
	roce_prepare(qp, &pkt, ROCE_CNP_NOTIFICATION, 0);
	pkt.bth.becn = true;
	if (qp->wq->type == IBV_QPT_UD) {
		pkt.bth.dest_qpn = qp->ud->cnp_qpn;
		qp->ud->out_path = qp->ud->cnp_path;
	}
	hdr = roce_put_headers(&pkt, buf, ROCE_CNP_RESERVED_LEN);
	memset(buf + hdr, 0, ROCE_CNP_RESERVED_LEN);
	return roce_put_pad(qp, buf, hdr, ROCE_CNP_RESERVED_LEN);
}

/* Sends the last packets of a failed QP and flushes requests posted to it. */
static size_t output_dead(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	size_t len = qp->dying ? roce_response_output(qp, buf, now) : 0;

	if (!len)
		qp->dying = false;
	if (!qp->flushed)
		roce_enter_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	roce_flush_queues(qp, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	return len;
}

static size_t output_datagram(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	size_t len = roce_ud_output(qp, buf);

	if (len)
		roce_sent_to_note(&qp->ud->sent_to, &qp->ud->out_path.dst, now);
	return len;
}

static size_t output_sends(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	size_t len;

	if (qp->wq->state == IBV_QPS_SQE) {
		wq_flush_send(qp->wq, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
		qp->req.index = qp->wq->sq.next;
		return 0;
	}
	if (!roce_runs_requester(qp) || qp->wq->type == IBV_QPT_XRC_RECV)
		return 0;
	if (qp->wq->type == IBV_QPT_RAW_PACKET) {
		roce_raw_output(qp, now);
		return 0;
	}
	if (!roce_pace_allows(qp, now))
		return 0;
	len = qp->wq->type == IBV_QPT_UD ? output_datagram(qp, buf, now)
					 : roce_requester_output(qp, buf, now);
	roce_pace_sent(qp, len, now);
	return len;
}

/*
 * Sends a request while an ACK is pending. The ACK stays pending, even if the QP has just failed,
 * because the requests it acknowledges were executed before.
 */
static size_t output_before_ack(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	uint32_t acked = qp->resp.ack.psn;
	size_t len = output_sends(qp, buf, now);

	if (!len && !qp->resp.ack.pending)
		roce_ack_pend(qp, acked);
	return len;
}

/* Sends a request that carries the pending ACK; returns 0 if none leaves. */
static size_t output_with_ack(struct roce_qp *qp, uint8_t *buf,
			      struct roce_piggyback_ack *piggyback, uint64_t now)
{
	size_t len = output_before_ack(qp, buf, now);

	if (len)
		roce_ack_piggyback(qp, piggyback);
	return len;
}

static bool holds_ack(const struct roce_qp *qp)
{
	return qp->ack_order == ROCE_ACK_HELD && roce_ack_may_piggyback(qp);
}

static bool ack_waits_for_writes(const struct roce_qp *qp)
{
	return (qp->ack_order == ROCE_ACK_BEHIND_WRITES ||
		qp->ack_order == ROCE_ACK_BEHIND_REPLY) &&
	       roce_ack_may_piggyback(qp) && roce_requester_has_write(qp);
}

/* The WRITEs cannot leave now, though the QP has not failed. */
static bool ack_waits_for_all_writes(const struct roce_qp *qp)
{
	return qp->ack_order == ROCE_ACK_BEHIND_REPLY && qp->wq->state != IBV_QPS_ERR &&
	       !qp->resp.rd_pending;
}

static size_t output(struct roce_qp *qp, uint8_t *buf, struct roce_piggyback_ack *ack, uint64_t now)
{
	size_t len = 0;

	if (!roce_burst_allows(qp, now))
		return 0;
	if (qp->wq->state == IBV_QPS_ERR)
		return output_dead(qp, buf, now);
	if (!runs_responder(qp))
		return 0;
	if (cnp_due(qp, now))
		return build_cnp(qp, buf, now);
	/* Direct access to the peer's memory overtakes all packets, so send the ACK first. */
	if (ack->allowed && roce_ack_may_piggyback(qp) && !roce_runs_direct(qp))
		len = output_with_ack(qp, buf, ack, now);
	else if (unlikely(holds_ack(qp)))
		return output_before_ack(qp, buf, now);
	else if (unlikely(ack_waits_for_writes(qp))) {
		len = output_before_ack(qp, buf, now);
		if (!len && ack_waits_for_all_writes(qp))
			return 0;
	}
	if (!len && (qp->resp.rd_pending || roce_ack_due(qp)))
		len = roce_response_output(qp, buf, now);
	if (!len)
		len = output_sends(qp, buf, now);
	/* An error while building a packet leaves a NAK to send. */
	if (!len && qp->wq->state == IBV_QPS_ERR)
		len = output_dead(qp, buf, now);
	return len;
}

size_t roce_output_with(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
			struct roce_piggyback_ack *ack, uint64_t now)
{
	size_t len;

	assert(cap >= ROCE_MAX_PACKET);
	qp->out_pull = NULL;
	ack->any = false;
	len = output(qp, buf, ack, now);
	*path = qp->wq->type == IBV_QPT_UD ? &qp->ud->out_path : &qp->wq->path;
	roce_check(qp);
	return len;
}

size_t roce_output(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
		   uint64_t now)
{
	struct roce_piggyback_ack none = { .allowed = false };

	return roce_output_with(qp, buf, cap, path, &none, now);
}

/* Time and doorbells */

uint64_t roce_next_timeout(const struct roce_qp *qp)
{
	return time_earlier(roce_pace_next(qp), roce_retry_next(qp));
}

void roce_timeout(struct roce_qp *qp, uint64_t now)
{
	roce_check(qp);
	roce_pace_expire(qp, now);
	roce_retry_expire(qp, now);
	roce_check(qp);
}

void roce_recv_posted(struct roce_qp *qp)
{
	if (qp->wq->state == IBV_QPS_ERR)
		wq_flush_recv(qp->wq);
}

const struct roce_counters *roce_qp_counters(const struct roce_qp *qp)
{
	return &qp->counters;
}
