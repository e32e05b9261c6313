/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD: one packet per message, addressed by the work request and protected by a Q_Key (IBTA vol 1,
 * 9.8.3). The first 40 bytes of a receive buffer hold the packet's network header (Annex A17: an
 * IPv4 header in the last 20 of them).
 */
#include <string.h>

#include "roce/const.h"
#include "roce/faults.h"
#include "roce/ipoib.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"

enum {
	UDP_LEN = 8,
};

/* Returns the bytes after the IP header of the packet that carried pkt. */
static uint32_t udp_len(const struct roce_pkt *pkt)
{
	return UDP_LEN + roce_opcode_info(pkt->bth.opcode)->hdr_len + pkt->payload_len +
	       pkt->bth.pad + ROCE_ICRC_LEN;
}

static void build_grh(uint8_t *grh, const struct roce_pkt *pkt)
{
	uint32_t header = net_is_ipv4(&pkt->path.dst) ? INET_IPV4 : INET_IPV6;

	memset(grh, 0, ROCE_GRH_LEN);
	inet_put_header(grh + ROCE_GRH_LEN - header, &pkt->path, udp_len(pkt));
}

/* Copies the message into the held receive. */
static enum reason deliver(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	const struct recv_wqe *w = qp->resp.wqe;
	uint32_t offset = qp->wq->use_grh_area ? ROCE_GRH_LEN : 0;
	uint8_t grh[ROCE_GRH_LEN];
	enum reason why = REASON_NONE;

	if ((uint64_t)offset + pkt->payload_len > w->length)
		return REASON_RECV_TOO_SMALL;
	if (offset) {
		build_grh(grh, pkt);
		why = roce_scatter(qp, w->sge, w->num_sge, 0, grh, ROCE_GRH_LEN, MEM_RECV_WRITE);
	}
	if (!why)
		why = roce_scatter(qp, w->sge, w->num_sge, offset, pkt->payload, pkt->payload_len,
				   MEM_RECV_WRITE);
	return why;
}

/*
 * IBTA Annex A17, A17.4.5.1: the completion tells whether IPv4 or IPv6 carried a datagram, for
 * programs that read addresses in the GRH area. RoCEv2 packets have no service level; adapters
 * report the IP version in its place, where UCX reads it.
 */
enum {
	SL_UDP = 8,
	SL_IPV6 = 1,
	SL_IPV4 = 2,
};

static void complete(struct roce_qp *qp, const struct roce_pkt *pkt, bool imm)
{
	bool grh = qp->wq->use_grh_area;
	struct wq_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = pkt->payload_len + (grh ? ROCE_GRH_LEN : 0),
		.imm = imm ? pkt->imm : 0,
		.src_qp = pkt->deth.src_qpn,
		.wc_flags = (grh ? IBV_WC_GRH : 0) | (imm ? IBV_WC_WITH_IMM : 0),
		.slid = net_is_ipv4(&pkt->path.src) ? get_be16(pkt->path.src.raw + 14) : 0,
		.sl = SL_UDP | (net_is_ipv4(&pkt->path.dst) ? SL_IPV4 : SL_IPV6),
		.solicited = pkt->bth.solicited,
	};

	if (ipoib_checksums_ok(pkt->payload, pkt->payload_len))
		cqe.wc_flags |= IBV_WC_IP_CSUM_OK;
	roce_responder_complete(qp, &cqe);
}

/*
 * IBTA vol 1, 9.8.3: a datagram that does not fit the path or the receive is dropped silently; only
 * a receive whose memory fails is an error.
 */
static enum reason refusal(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	if (pkt->deth.qkey != qp->wq->qkey) {
		qp->wq->ops->violated(qp->wq, VIOLATION_QKEY);
		return REASON_DROP_QKEY;
	}
	return pkt->payload_len <= qp->wq->mtu ? REASON_NONE : REASON_REQ_LENGTH;
}

bool roce_ud_input(struct roce_qp *qp, const struct roce_pkt *pkt,
		   const struct roce_opcode_info *op)
{
	enum reason why = refusal(qp, pkt);

	if (why) {
		qp->counters.dropped_pkts++;
		roce_note(qp, NOTE_DROP, pkt->bth.psn, 0, why);
		roce_message_dropped(qp, why);
		return false;
	}
	qp->resp.wqe = qp->wq->ops->recv_take(qp->wq, 0, NULL, &why);
	if (!qp->resp.wqe && !why) {
		qp->counters.out_of_buffer++;
		qp->counters.dropped_pkts++;
		roce_note(qp, NOTE_DROP, pkt->bth.psn, 0, REASON_DROP_NO_RECEIVE);
		roce_message_dropped(qp, REASON_DROP_NO_RECEIVE);
		return true;
	}
	if (qp->resp.wqe)
		why = deliver(qp, pkt);
	if (why)
		roce_responder_fault(qp, why);
	else
		complete(qp, pkt, roce_has(op, ROCE_HDR_IMMDT));
	return true;
}

static bool is_tso(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_TSO;
}

/* Segmentation is local to the sender: its segments are plain datagrams on the wire. */
static int wire_opcode(const struct send_wqe *w)
{
	return roce_request_opcode(IBV_QPT_UD, is_tso(w) ? IBV_WR_SEND : w->opcode, true, true);
}

static enum reason check_request(const struct roce_qp *qp, const struct send_wqe *w)
{
	uint32_t longest = is_tso(w) ? (uint32_t)w->ud.hdr_len + w->ud.mss : w->length;

	if (w->error)
		return w->error;
	if (wire_opcode(w) < 0 || (is_tso(w) && !w->ud.mss))
		return REASON_WR_OPCODE;
	if (longest > qp->wq->mtu)
		return REASON_WR_MTU;
	return w->ud.path ? REASON_NONE : REASON_WR_BAD_AH;
}

static void fill_headers(struct roce_qp *qp, const struct send_wqe *w, struct roce_pkt *pkt)
{
	roce_prepare(qp, pkt, wire_opcode(w), qp->req.psn);
	pkt->bth.dest_qpn = w->ud.qpn;
	pkt->bth.solicited = w->flags & IBV_SEND_SOLICITED;
	pkt->deth.qkey = w->ud.qkey & ROCE_QKEY_CONTROLLED ? qp->wq->qkey : w->ud.qkey;
	pkt->deth.src_qpn = qp->wq->qpn;
	pkt->imm = w->imm;
}

/* Returns the number of payload bytes in the next datagram of the request. */
static uint32_t next_part(const struct roce_qp *qp, const struct send_wqe *w)
{
	return is_tso(w) ? min(w->length - qp->req.segmented, (uint32_t)w->ud.mss) : w->length;
}

/* Builds the next segment of a TSO request: its header, then its part of the payload. */
static enum reason gather_segment(struct roce_qp *qp, struct send_wqe *w, uint8_t *to, uint32_t n)
{
	struct inet_segment s = {
		.index = qp->req.segmented / w->ud.mss,
		.offset = qp->req.segmented,
		.last = qp->req.segmented + n == w->length,
	};
	enum reason why = roce_gather(qp, w, s.offset, to + w->ud.hdr_len, n);

	memcpy(to, wqe_tso_header(&qp->wq->sq, w), w->ud.hdr_len);
	if (!why)
		ipoib_make_segment(to, w->ud.hdr_len + n, &s);
	return why;
}

static enum reason gather_datagram(struct roce_qp *qp, struct send_wqe *w, uint8_t *to)
{
	enum reason why = roce_gather(qp, w, 0, to, w->length);

	if (!why && (w->flags & IBV_SEND_IP_CSUM))
		ipoib_fill_checksums(to, w->length);
	return why;
}

/* Builds headers and contents of the next datagram; *len receives the length after the headers. */
static enum reason build(struct roce_qp *qp, struct send_wqe *w, uint8_t *buf, size_t *hdr,
			 uint32_t *len)
{
	enum reason why = check_request(qp, w);
	struct roce_pkt pkt;
	uint32_t part;

	if (why)
		return why;
	part = next_part(qp, w);
	*len = part + (is_tso(w) ? w->ud.hdr_len : 0);
	fill_headers(qp, w, &pkt);
	*hdr = roce_put_headers(&pkt, buf, *len);
	return is_tso(w) ? gather_segment(qp, w, buf + *hdr, part) :
			   gather_datagram(qp, w, buf + *hdr);
}

/* A datagram was built; its last one completes the request. */
static void advance(struct roce_qp *qp, const struct send_wqe *w)
{
	struct send_queue *sq = &qp->wq->sq;

	qp->ud->out_path = *w->ud.path;
	qp->req.psn = qp->req.high = qp->comp.una = psn_add(qp->req.psn, 1);
	qp->req.segmented += next_part(qp, w);
	if (qp->req.segmented < w->length)
		return;
	qp->req.segmented = 0;
	qp->req.index = ++sq->next;
	roce_complete_send(qp);
}

size_t roce_ud_output(struct roce_qp *qp, uint8_t *buf)
{
	struct send_queue *sq = &qp->wq->sq;
	struct send_wqe *w;
	enum reason why;
	uint32_t len;
	size_t hdr;

	if (qp->wq->state != IBV_QPS_RTS || sq->next == sq->head)
		return 0;
	w = sq_wqe(sq, sq->next);
	why = build(qp, w, buf, &hdr, &len);
	if (why) {
		roce_send_error(qp, why);
		return 0;
	}
	hdr = roce_put_pad(qp, buf, hdr, len);
	advance(qp, w);
	return hdr;
}
