/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_message.h. Locks: runs under qp->lock, and takes peer->lock below it. */
#include "core/local/peer_message.h"

#include "core/cq/cq.h"
#include "core/device/mirror.h"
#include "core/local/peer_word.h"
#include "local/message.h"
#include "local/peer.h"
#include "run/clock.h"

bool vrb_peer_put_message(struct vrb_qp *qp, struct lane_tx *tx, uint8_t *place)
{
	struct lane_head head = { .where = LANE_INLINE };
	struct roce_piggyback_ack ack;
	struct message m;

	if (!roce_message_output(&qp->roce, &m, place, &ack))
		return false;
	if (tapped() && !vrb_tap_out(&(struct tap_packet){ .qp = qp, .message = &m }))
		return true;
	vrb_peer_add_ack(&head, &ack);
	if (m.signaled)
		vrb_word_want(qp, tx->head);
	message_put(tx, &head, &m);
	return true;
}

/* Runs one-sided requests. Only moderated events need the time. */
static bool post_onesided(struct vrb_qp *qp)
{
	bool all;

	/* Nothing is in flight behind such a request, so no timer looks for sniffers either. */
	if (vrb_mirror_enabled(clock_coarse()))
		return false;
	if (unlikely(vrb_cq_uses_time(qp->config.send_cq)))
		qp->now = clock_now();
	local_tx_begin(qp->peer.process);
	all = roce_run_direct(&qp->roce);
	local_tx_end(vrb.local, qp->peer.process, false);
	return all;
}

/* w: the next request. */
static bool post_by_lane(struct vrb_qp *qp, const struct send_wqe *w)
{
	struct lane_tx *tx = local_tx_begin(qp->peer.process);
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t first = tx->head;
	uint8_t *place;

	while ((place = vrb_peer_message_place(w, tx)) && !roce_has_ack(&qp->roce) &&
	       vrb_peer_put_message(qp, tx, place) && sq->next != sq->head)
		w = sq_wqe(sq, sq->next);
	if (likely(tx->head != first))
		qp->peer.tx_head = tx->head;
	vrb_peer_tx_end(qp, tx->head != first);
	return sq->next == sq->head;
}

/* Most messages; for these it is cheaper to see than whether a request runs directly. */
static bool is_send(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

bool vrb_peer_post_plain(struct vrb_qp *qp)
{
	const struct send_wqe *w = sq_wqe(&qp->wq.sq, qp->wq.sq.next);

	return is_send(w->opcode) || !roce_runs_direct(&qp->roce) ? post_by_lane(qp, w) :
								     post_onesided(qp);
}
