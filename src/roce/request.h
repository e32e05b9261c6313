/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds one request packet from its WQE: the PSNs of its message, its headers and payload. The
 * requester decides which packet is next and whether it may leave.
 */
#ifndef VRB_ROCE_REQUEST_H
#define VRB_ROCE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/retry.h"

/* Does a response complete it, not an ACK? */
static inline bool roce_wants_response(const struct send_wqe *w)
{
	switch (w->opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_FLUSH:
	case IBV_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

static inline bool roce_is_read(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ;
}

static inline bool roce_is_send(const struct send_wqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM ||
	       w->opcode == IBV_WR_SEND_WITH_INV;
}

/* Does the packet at req.psn consume a receive at the peer, or belong to a SEND that did? */
static inline bool roce_needs_credit(const struct roce_qp *qp, const struct send_wqe *w)
{
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return qp->req.psn == w->last_psn;
	return roce_is_send(w);
}

/* Returns the number of PSNs of the whole message. */
static inline uint32_t roce_message_psns(const struct roce_qp *qp, const struct send_wqe *w)
{
	if (w->flags & WQE_WHOLE)
		return 1;
	return roce_is_read(w) || !roce_wants_response(w) ? psn_packets(w->length, qp->wq->mtu) : 1;
}

/*
 * Returns the offset, in packets, of the last packet of the READ request that covers packet
 * `offset` of the message.
 */
uint32_t roce_read_piece_end(const struct roce_qp *qp, const struct send_wqe *w, uint32_t offset);

/* Returns the QP's share of the window, for packets like those of w. */
static inline uint32_t roce_window_for(const struct roce_qp *qp, const struct send_wqe *w)
{
	const struct wq_qp *wq = qp->wq;

	return roce_cc_share(&qp->cc, wq->active_qps, wq->mtu, w->length);
}

/* Returns the number of PSNs that the WQE's next packet takes. */
static inline uint32_t roce_packet_psns(const struct roce_qp *qp, const struct send_wqe *w,
					uint32_t offset)
{
	return roce_is_read(w) ? roce_read_piece_end(qp, w, offset) - offset + 1 : 1;
}

/*
 * Builds the packet at req.psn, number `offset` of its message; returns 0 if its payload cannot be
 * read.
 */
size_t roce_request_build(struct roce_qp *qp, struct send_wqe *w, uint32_t offset, uint8_t *buf);

#endif
