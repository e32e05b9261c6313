/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends requests as messages (docs/MESSAGES.md): straight from the post into slots of the peer's
 * lane, or between packets. Must hold qp->lock.
 */
#ifndef VRB_CORE_LOCAL_PEER_MESSAGE_H
#define VRB_CORE_LOCAL_PEER_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/device/mirror.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "local/lane.h"
#include "local/message.h"
#include "local/peer.h"
#include "roce/message.h"
#include "util/atomic.h"
#include "util/compiler.h"

/* Adds the ACK that leaves beside a packet or message, if there is any. */
static inline void vrb_peer_add_ack(struct lane_head *head, const struct roce_piggyback_ack *ack)
{
	if (!ack->any)
		return;
	head->flags |= LANE_ACK;
	head->ack_psn = ack->psn;
	head->ack_aeth = (uint32_t)ack->syndrome << 24 | ack->msn;
}

/*
 * Ends local_tx_begin() for packets or messages of the QP's requests. A loopback post takes what it
 * sends to its own process itself.
 */
static inline void vrb_peer_tx_end(struct vrb_qp *qp, bool sent)
{
	struct local_peer *peer = qp->peer.process;

	local_tx_end(vrb.local, peer, sent && !(qp->post.loops && peer->self));
}

/*
 * Where the payload of a request goes in the lane, as a message; NULL: it is too long for one, or
 * there is no room. Must hold peer->lock.
 */
static inline uint8_t *vrb_peer_message_place(const struct send_wqe *w, struct lane_tx *tx)
{
	bool write = unlikely(w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM);

	if (unlikely(w->length > MESSAGE_LONGEST))
		return NULL;
	return message_place(tx, (uint32_t)w->length + (write ? MESSAGE_REMOTE : 0));
}

/*
 * The next request as a message, its payload in `place`; false if it must go as a packet, or if
 * there is none. Must hold peer->lock.
 */
bool vrb_peer_put_message(struct vrb_qp *qp, struct lane_tx *tx, uint8_t *place);

/*
 * vrb_peer_post() sends what was posted, without the engine's packets and timers: small messages,
 * without a clock, or requests that run in the peer's memory (vrb_peer_rdma()), with the coarse
 * clock, or the exact one if their completions need the time. Only for a plain QP: one
 * whose output vrb_peer_tx() has found to be messages, with the attributes, state and path of now.
 * Each change of these passes vrb_peer_tx() again or changes the publication. Call vrb_watch()
 * while messages are in flight. False: something is left, or all; call vrb_transmit().
 */
bool vrb_peer_post_plain(struct vrb_qp *qp);

/* In vrb_peer.plain, beside the publication. */
enum {
	PEER_PLAIN = 0x40,	/* messages and direct access */
	PEER_DIRECT = 0x100,	/* UC: direct access only */
};

static inline void vrb_peer_note_plain(struct vrb_qp *qp, bool plain)
{
	uint32_t kind = qp->wq.type == IBV_QPT_UC ? PEER_DIRECT : PEER_PLAIN;

	qp->peer.plain = plain && !qp->config.hooks ? vrb_peer_publication(qp) | kind : 0;
}

/* A forked child has inherited the flag, but not vrb.local: the lane is its parent's. */
static inline bool vrb_peer_is_plain(const struct vrb_qp *qp)
{
	return vrb.local && qp->peer.plain == (vrb_peer_publication(qp) | PEER_PLAIN);
}

/* As vrb_peer_is_plain(), for requests that run at once in the peer's memory. */
static inline bool vrb_peer_is_direct(const struct vrb_qp *qp)
{
	return vrb_peer_is_plain(qp) ||
	       (vrb.local && qp->peer.plain == (vrb_peer_publication(qp) | PEER_DIRECT));
}

static inline bool vrb_peer_post(struct vrb_qp *qp)
{
	return vrb_peer_is_plain(qp) && !tap_interferes() &&
	       !load_relaxed(&vrb_mirror_listeners) && vrb_peer_post_plain(qp);
}

#endif
