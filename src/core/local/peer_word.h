/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress words, which acknowledge messages (docs/MESSAGES.md). The receiver publishes the newest
 * ACK of its QP; the sender reads it once its lane shows that the message was consumed. Must hold
 * qp->lock, and vrb.poll_lock unless a function's comment differs.
 */
#ifndef VRB_CORE_LOCAL_PEER_WORD_H
#define VRB_CORE_LOCAL_PEER_WORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/state.h"
#include "core/local/peer_link.h"
#include "core/local/word_looks.h"
#include "core/qp/qp.h"
#include "local/local.h"
#include "local/message.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "util/compiler.h"

/* Atomic hint: this process has sent a message, so words may be awaited. */
extern bool vrb_words_used;

extern struct word_looks vrb_word_looks;

static inline void vrb_words_use(void)
{
	if (unlikely(!load_relaxed(&vrb_words_used)))
		store_relaxed(&vrb_words_used, true);
}

/*
 * Makes the rounds read the QP's word once the lane's tail has passed this slot. Messages without a
 * completion do without: the next ACK covers them. But whatever waits for them needs it: a request
 * behind them (vrb_peer_tx()), or the end of a region or QP. Must hold peer->lock.
 */
static inline void vrb_word_want(struct vrb_qp *qp, uint32_t slot)
{
	vrb_words_use();
	message_sent(&qp->peer.process->senders, &qp->peer.sender, slot);
}

/* As vrb_word_want(), for all messages in flight. Needs only qp->lock. */
void vrb_word_want_all(struct vrb_qp *qp);

/* May the QP publish its progress? Not if it could not wake its peer. */
static inline bool vrb_word_usable(struct vrb_qp *qp, uint64_t now)
{
	return likely(qp->peer.word != NULL) && vrb_peer_lookup(qp, now);
}

/* Publishes the ACK of a message, and queues a doorbell if the peer sleeps. */
void vrb_word_publish(struct vrb_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now);

/*
 * Leaves the ACK of a message to that of the next one, which has come already. If that is declined,
 * call vrb_word_retract(). Needs only qp->lock.
 */
static inline void vrb_word_leave(struct vrb_qp *qp)
{
	qp->peer.word_used = qp->peer.word_behind = true;
}

/*
 * An ACK's packet may wait for the next poll (tx_sched.h) or for room in the lane, and the process
 * may end before that. Its completion shows already, so the peer finds it in the word, too. Needs
 * only qp->lock.
 */
void vrb_word_foretell(struct vrb_qp *qp);

/* Gets the ACK in the peer's word; false if nothing is in flight, or the word has no ACK. */
bool vrb_word_get(struct vrb_qp *qp, struct roce_piggyback_ack *ack);

/*
 * Completes the requests that the peer's word acknowledges. Returns true if there were any. Needs
 * only qp->lock.
 */
bool vrb_word_read(struct vrb_qp *qp, uint64_t now);

/* Returns the next QP whose word must be read; NULL: none is left. Must not hold qp->lock. */
static inline struct vrb_qp *vrb_word_next(void)
{
	struct message_sender *s = local_next_sender(vrb.local);

	return s ? container_of(s, struct vrb_qp, peer.sender) : NULL;
}

/*
 * Before the word is withdrawn: sends the ACK as a packet, in case the peer has not read it. Needs
 * only qp->lock.
 */
void vrb_word_retract(struct vrb_qp *qp, uint64_t now);

/* Stops waiting for words of this QP. Needs neither lock if no other thread uses the QP. */
void vrb_word_forget(struct vrb_qp *qp);

#endif
