/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a message (wq/message.h) travels: in one slot of a lane, acknowledged without a packet.
 * docs/MESSAGES.md follows one from end to end.
 *
 * A message stands for the packet that would carry the request, and has its PSN. So messages and
 * packets of a QP mix in any order, and a receiver that does not execute a message converts it to
 * that packet for the engine. Three parts:
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
 * Sends a message. lane_tx_room() must have returned true for MESSAGE_HEADER + m->len; *head is as
 * for lane_tx_put().
 */
void message_put(struct lane_tx *tx, struct lane_head *head, const struct message *m);

/* Reads and checks what message_put() wrote. False: no message. The payload stays in data. */
bool message_get(struct message *m, const uint8_t *data, uint32_t len);

/* The content of an ACK. */
struct message_progress {
	uint32_t psn;		/* newest executed; 24 bits */
	uint32_t msn;		/* 24 bits */
	uint8_t syndrome;
};

/*
 * Receiver: everything up to p->psn is executed. The word is 0 until the first such call on a
 * connection.
 */
void message_publish(uint64_t *word, const struct message_progress *p);

/* Sender: what the QP `qpn` with this entry has published; false if nothing, or if it has gone. */
bool message_published(const struct seg_qp *entry, uint32_t qpn, struct message_progress *p);

/* A QP as the sender of messages to a peer. */
struct message_sender {
	struct list node;	/* in the queue, or alone */
	uint32_t slot;		/* read its word when the lane's tail has passed this slot */
	uint32_t last;		/* slot of its newest message */
};

/*
 * The senders with messages in flight to one peer. A message whose slot the tail has passed was
 * executed, as the word shows, or declined, and then an answer comes as a packet. So a word need
 * not be read before that, and no sender is missed: each is in the queue until the tail has passed
 * its newest message, and the receiver takes all slots.
 *
 * Oldest first. A sender with more messages in flight goes back to the end. So its word may be read
 * as late as those before it, but not after the receiver has taken all that is in the lane now.
 */
struct message_queue {
	struct list senders;
};

void message_queue_init(struct message_queue *q);
void message_sender_init(struct message_sender *s);

/* `s` has sent a message in this slot. */
void message_sent(struct message_queue *q, struct message_sender *s, uint32_t slot);

/*
 * The next sender whose word is to be read now that the tail is here; NULL: none. Call until it
 * returns NULL.
 */
struct message_sender *message_next(struct message_queue *q, uint32_t tail);

/* The sender is destroyed. */
void message_forget(struct message_sender *s);

static inline bool message_awaited(const struct message_queue *q)
{
	return !list_empty(&q->senders);
}

#endif
