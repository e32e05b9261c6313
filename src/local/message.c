/* SPDX-License-Identifier: BSD-2-Clause */
/* See message.h. */
#include "local/message.h"

#include <string.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/copy_few.h"

enum {
	BITS_24 = (1 << 24) - 1,
};

/* The header in the slot, in native byte order. */
struct slot_message {
	uint32_t qpn_op;	/* qpn:24 op:8 */
	uint32_t psn_flags;	/* psn:24 flags:8 */
	uint32_t imm;
};

/* Follows the payload of a WRITE, so that a payload has its place whatever the operation. */
struct slot_remote {
	uint32_t va[2];		/* low, high */
	uint32_t rkey;
};

_Static_assert(sizeof(struct slot_message) == MESSAGE_HEADER, "header before the payload");
_Static_assert(sizeof(struct slot_remote) == MESSAGE_REMOTE, "after the payload");

static struct slot_remote remote_of(const struct message *m)
{
	return (struct slot_remote){ { (uint32_t)m->va, m->va >> 32 }, m->rkey };
}

static uint32_t qpn_op(const struct message *m)
{
	return m->qpn | (uint32_t)m->op << 24;
}

static uint32_t psn_flags(const struct message *m)
{
	return m->psn | (uint32_t)m->flags << 24;
}

static void put_in_ring(struct lane_tx *tx, struct lane_head *head, const struct message *m)
{
	const struct slot_message s = { qpn_op(m), psn_flags(m), m->imm };
	const struct slot_remote remote = remote_of(m);
	const struct lane_part parts[] = {
		{ &s, sizeof(s) }, { m->payload, m->len }, { &remote, message_remote(m->op) }
	};

	lane_tx_put(tx, head, parts, ARRAY_SIZE(parts));
}

void message_put(struct lane_tx *tx, struct lane_head *head, const struct message *m)
{
	uint32_t more = message_remote(m->op);
	struct lane_slot *slot = lane_tx_slot(tx);
	struct slot_message *s = (struct slot_message *)slot->data;
	uint8_t *place = slot->data + MESSAGE_HEADER;

	head->flags |= LANE_MESSAGE;
	if (unlikely(m->len + more > MESSAGE_SMALL)) {
		put_in_ring(tx, head, m);
		return;
	}
	store_relaxed(&s->qpn_op, qpn_op(m));
	store_relaxed(&s->psn_flags, psn_flags(m));
	store_relaxed(&s->imm, m->imm);
	if (m->len && m->payload != place)
		copy_few(place, m->payload, m->len);
	if (unlikely(more)) {
		struct slot_remote remote = remote_of(m);

		memcpy(place + m->len, &remote, sizeof(remote));
	}
	head->len = MESSAGE_HEADER + m->len + more;
	lane_tx_done(tx, slot, head);
}

/* The data of a slot in the ring need not be aligned. */
static uint32_t word_at(const uint8_t *data, size_t offset)
{
	uint32_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

bool message_get(struct message *m, const uint8_t *data, uint32_t len)
{
	struct slot_remote remote;
	uint32_t qpn_op, psn_flags, more;

	if (len < MESSAGE_HEADER)
		return false;
	/* Into registers: a copy of the whole would be read in other pieces, which waits. */
	qpn_op = word_at(data, offsetof(struct slot_message, qpn_op));
	psn_flags = word_at(data, offsetof(struct slot_message, psn_flags));
	more = message_remote(qpn_op >> 24);
	if (len < MESSAGE_HEADER + more)
		return false;
	m->qpn = qpn_op & BITS_24;
	m->op = qpn_op >> 24;
	m->psn = psn_flags & BITS_24;
	m->flags = psn_flags >> 24;
	m->imm = word_at(data, offsetof(struct slot_message, imm));
	m->payload = data + MESSAGE_HEADER;
	m->len = len - MESSAGE_HEADER - more;
	if (more) {
		memcpy(&remote, m->payload + m->len, sizeof(remote));
		m->va = remote.va[0] | (uint64_t)remote.va[1] << 32;
		m->rkey = remote.rkey;
	}
	return m->op < MESSAGE_OPS;
}

bool message_follows(const uint8_t *data, uint32_t len, const struct lane_slot *next)
{
	const struct slot_message *n = (const struct slot_message *)next->data;

	if (len < MESSAGE_HEADER || (load_relaxed(&next->head.flags) & ~LANE_ACK) != LANE_MESSAGE ||
	    load_relaxed(&next->head.where) != LANE_INLINE)
		return false;
	return !((word_at(data, offsetof(struct slot_message, qpn_op)) ^
		  load_relaxed(&n->qpn_op)) & BITS_24);
}

void message_queue_init(struct message_queue *q)
{
	list_init(&q->fresh);
	list_init(&q->again);
	q->n = q->due = 0;
	q->only = NULL;
}

void message_sender_init(struct message_sender *s)
{
	*s = (struct message_sender){ 0 };
	list_init(&s->node);
}

static struct message_sender *oldest(const struct list *senders)
{
	return list_empty(senders) ? NULL :
				     list_entry(senders->next, struct message_sender, node);
}

/* The sender whose slot comes first; NULL: the queue is empty. */
static struct message_sender *first(const struct message_queue *q)
{
	struct message_sender *fresh = oldest(&q->fresh), *again = oldest(&q->again);

	if (!fresh || !again)
		return fresh ? fresh : again;
	return (int32_t)(again->slot - fresh->slot) < 0 ? again : fresh;
}

/* The queue's own address stands for several. */
static void count(struct message_queue *q, uint32_t n)
{
	const struct message_sender *s = first(q);

	q->n = n;
	if (s)
		store_relaxed(&q->due, s->slot);
	store_relaxed(&q->only, n > 1 ? (const void *)q : s);
}

static void put_in(struct message_queue *q, struct list *senders, struct message_sender *s,
		   uint32_t slot)
{
	s->slot = slot;
	list_add_tail(senders, &s->node);
	count(q, q->n + 1);
}

static void take_off(struct message_queue *q, struct message_sender *s)
{
	list_del(&s->node);
	count(q, q->n - 1);
}

void message_sent(struct message_queue *q, struct message_sender *s, uint32_t slot)
{
	s->last = slot;
	if (list_empty(&s->node))
		put_in(q, &q->fresh, s, slot);
}

static bool passed(uint32_t slot, uint32_t tail)
{
	return (int32_t)(tail - slot) > 0;
}

static struct message_sender *first_due(const struct message_queue *q, uint32_t tail)
{
	struct message_sender *s = oldest(&q->fresh);

	if (s && passed(s->slot, tail))
		return s;	/* before those that were read already */
	s = oldest(&q->again);
	return s && passed(s->slot, tail) ? s : NULL;
}

bool message_due(const struct message_queue *q, uint32_t tail)
{
	return first_due(q, tail) != NULL;
}

struct message_sender *message_next(struct message_queue *q, uint32_t tail)
{
	struct message_sender *s = first_due(q, tail);

	if (!s)
		return NULL;
	take_off(q, s);
	if (!passed(s->last, tail))
		put_in(q, &q->again, s, tail);
	return s;
}

void message_forget(struct message_queue *q, struct message_sender *s)
{
	if (!list_empty(&s->node))
		take_off(q, s);
}
