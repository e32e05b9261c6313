/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_word.h. */
#include "core/local/peer_word.h"

#include "core/base/tap.h"
#include "local/bell.h"
#include "local/message.h"
#include "local/peer.h"
#include "roce/acknak.h"
#include "roce/message.h"
#include "roce/psn.h"
#include "util/compiler.h"

bool vrb_words_used;
struct word_looks vrb_word_looks;

/*
 * May the peer's wake-up be delayed? Only if the program has answered the previous messages in time
 * (roce/delayed_ack.h). Only answers to a peer that sleeps are timed: a post reads the clock for
 * them.
 */
static bool expects_answer(struct vrb_qp *qp, uint64_t now)
{
	struct roce_delayed_ack *d = &qp->post.delayed_ack;

	if (unlikely(local_peer_sleeps(qp->peer.process))) {
		roce_delayed_ack_alone(d, now);
		if (!d->requested)
			roce_delayed_ack_requested(d, now);
	}
	return roce_delayed_ack_expects_reply(d);
}

static void publish(struct vrb_peer *p, const struct roce_piggyback_ack *ack)
{
	p->word_used = true;
	p->word_behind = false;
	message_publish(p->word, &(struct message_progress){
		.psn = ack->psn, .msn = ack->msn, .syndrome = ack->syndrome });
}

void vrb_word_foretell(struct vrb_qp *qp)
{
	struct roce_piggyback_ack ack;

	if (!qp->peer.process || !qp->peer.word || qp->wq.type != IBV_QPT_RC || tapped() ||
	    !roce_ack_may_piggyback(&qp->roce))
		return;
	roce_ack_show(&qp->roce, &ack);
	publish(&qp->peer, &ack);
}

void vrb_word_publish(struct vrb_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;

	publish(p, ack);
	/* This process reads its own words at the end of the round that publishes them. */
	if (!p->process->self)
		local_queue_bell(vrb.local, p->process, expects_answer(qp, now));
}

/*
 * Shows the ACK to base/tap.h as the packet that it replaces. Returns false if the ACK must be
 * lost.
 */
static bool tap_ack(struct vrb_qp *qp, const struct roce_piggyback_ack *ack)
{
	const struct net_path *own = &qp->wq.path;
	struct net_path path = *own;
	struct roce_pkt pkt;

	path.src = own->dst;
	path.dst = own->src;
	roce_ack_packet(&qp->roce, ack, &pkt);
	return vrb_tap_in(&(struct tap_packet){ .qp = qp, .path = &path, .pkt = &pkt });
}

void vrb_word_want_all(struct vrb_qp *qp)
{
	struct lane_tx *tx;

	if (!qp->peer.process || qp->wq.type != IBV_QPT_RC || !roce_in_flight(&qp->roce))
		return;
	tx = local_tx_begin(qp->peer.process);
	vrb_word_want(qp, tx->head - 1);
	local_tx_end(vrb.local, qp->peer.process, false);
}

bool vrb_word_get(struct vrb_qp *qp, struct roce_piggyback_ack *ack)
{
	uint32_t before = roce_oldest_unacked(&qp->roce);
	struct message_progress p;

	if (!qp->peer.entry || !roce_in_flight(&qp->roce) ||
	    !message_published(qp->peer.entry, qp->wq.dest_qpn, qp->wq.qpn, &p))
		return false;
	*ack = (struct roce_piggyback_ack){
		.any = true, .psn = p.psn, .msn = p.msn, .syndrome = p.syndrome
	};
	return !tapped() || psn_next(ack->psn) == before || tap_ack(qp, ack);
}

bool vrb_word_read(struct vrb_qp *qp, uint64_t now)
{
	uint32_t before = roce_oldest_unacked(&qp->roce);
	struct roce_piggyback_ack ack;

	if (!vrb_word_get(qp, &ack))
		return false;
	roce_ack_input(&qp->roce, &ack, now);
	return roce_oldest_unacked(&qp->roce) != before;
}

void vrb_word_retract(struct vrb_qp *qp, uint64_t now)
{
	uint8_t packet[ROCE_MAX_PACKET];
	struct seg_qp published;
	bool in_update;

	if (likely(!qp->peer.word_used) || !qp->peer.process)
		return;
	qp->peer.word_used = qp->peer.word_behind = false;
	if (vrb_peer_listens(qp, &published, &in_update))
		vrb_peer_tx_packet(qp, packet, roce_ack_newest(&qp->roce, packet), now);
}

void vrb_word_forget(struct vrb_qp *qp)
{
	if (qp->peer.process)
		local_forget_sender(qp->peer.process, &qp->peer.sender);
}
