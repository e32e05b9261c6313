/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages (wq/message.h) on a lane: each takes one slot and is acknowledged without a packet.
 * docs/MESSAGES.md follows one from end to end.
 *
 * A message replaces the packet that would carry the request and has that packet's PSN. So messages
 * and packets of a QP mix in any order, and a receiver that does not execute a message converts it
 * to that packet for the engine. Three parts:
 *
 *	slot			message_put(), message_get()
 *	progress word		receiver: the newest ACK of a QP, in its struct seg_qp
 *	struct message_queue	sender: the QPs that wait for the word of their peer's QP
 *
 * Pure code. The caller serialises: the word's owner under the QP's lock, the queue and its members
 * under the peer's lock.
 *
 * Barriers, by the labels of layout.h:
 *	L11 progress	receiver: execute the message, store progress (release), then the lane's
 *			tail (L7)
 *			sender: load the lane's tail (acquire), progress (acquire), then qpn and
 *			dest_qpn, which show that the connection is still ours; the payload may
 *			be overwritten now
 */
#ifndef VRB_LOCAL_MESSAGE_H
#define VRB_LOCAL_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/layout.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/list.h"
#include "wq/message.h"

enum {
	MESSAGE_HEADER = 12,	/* bytes before the payload in the slot */
	MESSAGE_REMOTE = 12,	/* bytes after the payload of a WRITE: address and rkey */
	/* what fits a slot: payload, and bytes after it */
	MESSAGE_SMALL = LANE_INLINE_MAX - MESSAGE_HEADER,
	/* payload of the longest message: two such fill the ring */
	MESSAGE_LONGEST = (LANE_BYTES / 2 & ~(CACHE_LINE - 1)) - MESSAGE_HEADER - MESSAGE_REMOTE,
	MESSAGE_PUBLISHED = 1,	/* makes every published word non-zero */
};

/* How many bytes follow the payload. */
static inline uint32_t message_remote(uint8_t op)
{
	return unlikely(op == MESSAGE_WRITE_IMM) ? MESSAGE_REMOTE : 0;
}

/* Where the payload of the next message lies, `bytes` long with what follows it; NULL: no room. */
static inline uint8_t *message_place(struct lane_tx *tx, uint32_t bytes)
{
	if (likely(bytes <= MESSAGE_SMALL))
		return lane_tx_has_slot(tx) ? lane_tx_slot(tx)->data + MESSAGE_HEADER : NULL;
	bytes += MESSAGE_HEADER;
	return lane_tx_room(tx, bytes) ? lane_tx_ring(tx, bytes) + MESSAGE_HEADER : NULL;
}

/*
 * Sends a message, whose payload may be in its place already. lane_tx_room() must have returned
 * true for MESSAGE_HEADER + m->len + message_remote(m->op); *head is as for lane_tx_put().
 */
void message_put(struct lane_tx *tx, struct lane_head *head, const struct message *m);

/*
 * Reads and checks a message written by message_put(). False: not a message. The payload stays in
 * data.
 */
bool message_get(struct message *m, const uint8_t *data, uint32_t len);

/*
 * Is the slot behind that of a message, whose data these are, a message to the same QP? The sender
 * can change both, so this is only a hint.
 */
bool message_follows(const uint8_t *data, uint32_t len, const struct lane_slot *next);

/* The content of an ACK. As a word: psn:24 msn:24 syndrome:8 MESSAGE_PUBLISHED:8. */
struct message_progress {
	uint32_t psn;		/* newest executed PSN; 24 bits */
	uint32_t msn;		/* 24 bits */
	uint8_t syndrome;
};

/*
 * Receiver: publishes that every request up to p->psn has been executed. The word is 0 until the
 * first such call on a connection.
 */
static inline void message_publish(uint64_t *word, const struct message_progress *p)
{
	store_release(word, (uint64_t)p->psn << 40 | (uint64_t)p->msn << 16 |
				    (uint64_t)p->syndrome << 8 | MESSAGE_PUBLISHED);	/* L11 */
}

/*
 * Sender `own`: reads what the QP `qpn` with this entry has published for it. Returns false if it
 * has published nothing or is gone. The entry may belong to another QP by now, or the QP may have
 * another peer; the numbers in it change before the progress word does.
 */
static inline bool message_published(const struct seg_qp *entry, uint32_t qpn, uint32_t own,
				     struct message_progress *p)
{
	uint64_t word = load_acquire(&entry->progress);	/* L11 */

	*p = (struct message_progress){ .psn = word >> 40,
					.msn = word >> 16 & 0xffffff,
					.syndrome = word >> 8 & 0xff };
	return (word & 0xff) == MESSAGE_PUBLISHED && load_relaxed(&entry->qpn) == qpn &&
	       load_relaxed(&entry->dest_qpn) == own;
}

/* A QP that sends messages to a peer. */
struct message_sender {
	struct list node;	/* in a list of the queue, or unlinked */
	/* read the progress word once the lane's tail has passed this slot */
	uint32_t slot;
	uint32_t last;		/* slot of its newest message */
};

/*
 * The senders with messages in flight to one peer. Once the tail has passed the slot of a message,
 * it was either executed, as the progress word shows, or declined, and then the answer comes as a
 * packet. So a word need not be read before that. No sender is missed: each stays in the queue
 * until the tail has passed its newest message, and the receiver consumes all slots.
 *
 * A sender whose word was read, and that has more messages in flight, is read again once the tail
 * has moved. So no sender waits for another. Both lists are sorted by slot: their slots are the
 * lane's head, or its tail, at the time.
 */
struct message_queue {
	struct list fresh;	/* not read since they sent their oldest message in the queue */
	struct list again;	/* read once */
	uint32_t n;
	/* atomic hint: NULL: empty; the only one, or the address of another object: several */
	const void *only;
	uint32_t due;		/* atomic hint, unless empty: the slot that the tail passes next */
};

void message_queue_init(struct message_queue *q);
void message_sender_init(struct message_sender *s);

/* Records that `s` has sent a message in this slot. */
void message_sent(struct message_queue *q, struct message_sender *s, uint32_t slot);

/*
 * Returns the next sender whose word must be read, given this tail; NULL: none. Call until it
 * returns NULL.
 */
struct message_sender *message_next(struct message_queue *q, uint32_t tail);

/* Would message_next() return a sender? */
bool message_due(const struct message_queue *q, uint32_t tail);

/* The sender is destroyed, or its connection has ended. */
void message_forget(struct message_queue *q, struct message_sender *s);

/* A hint, without the lock. */
static inline bool message_awaited(const struct message_queue *q)
{
	return load_relaxed(&q->only) != NULL;
}

/* As message_due(), a hint without the lock, if message_awaited(). */
static inline bool message_may_be_due(const struct message_queue *q, uint32_t tail)
{
	return (int32_t)(tail - load_relaxed(&q->due)) > 0;
}

/* As message_awaited(), by senders other than this one. */
static inline bool message_awaited_by_others(const struct message_queue *q,
					     const struct message_sender *s)
{
	const void *only = load_relaxed(&q->only);

	return only && only != s;
}

#endif
