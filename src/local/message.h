/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a message (wq/message.h) travels: in one slot of a lane, acknowledged without a packet.
 * docs/MESSAGES.md has its whole way.
 *
 * A message stands for the packet that would carry the request, and has its PSN. So messages and
 * packets of a QP mix in any order, and a receiver that does not run a message makes that packet of
 * it for the engine. Three parts:
 *
 *	slot			message_put(), message_get()
 *	progress word		receiver: the newest ACK of a QP, in its struct seg_qp
 *	struct message_queue	sender: which QPs wait for the word of their peer's QP
 *
 * Pure. The caller serialises: the word's owner under the QP's lock, the queue and its members
 * under the peer's.
 *
 * Barriers, by the labels of layout.h:
 *	L11 progress	receiver: the message is done, store progress (release), then the lane's
 *			tail (L7)
 *			sender: load the lane's tail (acquire), progress (acquire), then qpn; the
 *			payload may be overwritten, and the number is still that of the QP
 */
#ifndef VRB_LOCAL_MESSAGE_H
#define VRB_LOCAL_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/layout.h"
#include "util/list.h"
#include "wq/message.h"

enum {
	MESSAGE_HEADER = 12,	/* bytes of the slot before the payload */
};

/*
 * Sends a message. lane_tx_room() has said yes for MESSAGE_HEADER + m->len; *head is as for
 * lane_tx_put().
 */
void message_put(struct lane_tx *tx, struct lane_head *head, const struct message *m);

/* Reads what message_put() wrote, and checks it. False: it is none. The payload stays in data. */
bool message_get(struct message *m, const uint8_t *data, uint32_t len);

/* What an ACK says. */
struct message_progress {
	uint32_t psn;		/* newest executed; 24 bits */
	uint32_t msn;		/* 24 bits */
	uint8_t syndrome;
};

/*
 * Receiver: everything up to p->psn is executed. The word is 0 until a QP first says so on a
 * connection.
 */
void message_publish(uint64_t *word, const struct message_progress *p);

/* Sender: what the QP `qpn` with this entry has published; false if nothing, or if it is gone. */
bool message_published(const struct seg_qp *entry, uint32_t qpn, struct message_progress *p);

/* A QP as the sender of messages to a peer. */
struct message_sender {
	struct list node;	/* in the queue, or alone */
	uint32_t slot;		/* look at its word when the lane's tail has passed this slot */
	uint32_t last;		/* slot of its newest message */
};

/*
 * The senders with messages under way to one peer. A message whose slot the tail has passed was
 * executed, and then the word says so, or declined, and then an answer comes as a packet. So a word
 * need not be looked at before, and no sender is missed: each is in the queue until the tail has
 * passed its newest message, and the receiver takes all slots.
 *
 * Oldest first. One that has more under way goes back to the end, so it may be looked at as late as
 * those before it, but not later than when the receiver has taken what lies in the lane now.
 */
struct message_queue {
	struct list senders;
};

void message_queue_init(struct message_queue *q);
void message_sender_init(struct message_sender *s);

/* `s` has sent a message in this slot. */
void message_sent(struct message_queue *q, struct message_sender *s, uint32_t slot);

/*
 * The next sender whose word is to be looked at now that the tail is here; NULL: none. Call until
 * then.
 */
struct message_sender *message_next(struct message_queue *q, uint32_t tail);

/* The sender is gone. */
void message_forget(struct message_sender *s);

static inline bool message_awaited(const struct message_queue *q)
{
	return !list_empty(&q->senders);
}

#endif
