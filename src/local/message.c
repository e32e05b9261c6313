/* SPDX-License-Identifier: BSD-2-Clause */
/* See message.h. */
#include "local/message.h"

#include <string.h>

#include "util/atomic.h"
#include "util/compiler.h"

enum {
	BITS_24 = (1 << 24) - 1,
	SOLICITED = 1,
	PUBLISHED = 1,		/* makes every word but the first one non-zero */
};

/* In the slot, native byte order. */
struct slot_message {
	uint32_t qpn_op;	/* qpn:24 op:8 */
	uint32_t psn_flags;	/* psn:24 flags:8 */
	uint32_t imm;
};

_Static_assert(sizeof(struct slot_message) == MESSAGE_HEADER, "what lies before the payload");

void message_put(struct lane_tx *tx, struct lane_head *head, const struct message *m)
{
	const struct slot_message s = {
		.qpn_op = m->qpn | (uint32_t)m->op << 24,
		.psn_flags = m->psn | (m->solicited ? SOLICITED << 24 : 0),
		.imm = m->imm,
	};
	const struct lane_part parts[] = { { &s, sizeof(s) }, { m->payload, m->len } };

	head->flags |= LANE_BARE;
	lane_tx_put(tx, head, parts, m->len ? 2 : 1);
}

bool message_get(struct message *m, const uint8_t *data, uint32_t len)
{
	struct slot_message s;

	if (len < sizeof(s))
		return false;
	memcpy(&s, data, sizeof(s));
	m->qpn = s.qpn_op & BITS_24;
	m->op = s.qpn_op >> 24;
	m->psn = s.psn_flags & BITS_24;
	m->solicited = s.psn_flags >> 24 & SOLICITED;
	m->imm = s.imm;
	m->payload = data + sizeof(s);
	m->len = len - sizeof(s);
	return m->op < MESSAGE_OPS;
}

/* psn:24 msn:24 syndrome:8 PUBLISHED:8 */
void message_publish(uint64_t *word, const struct message_progress *p)
{
	store_release(word, (uint64_t)p->psn << 40 | (uint64_t)p->msn << 16 |
				    (uint64_t)p->syndrome << 8 | PUBLISHED);	/* L11 */
}

/*
 * The entry may belong to another QP by now, with progress of its own: its number has changed
 * before that.
 */
bool message_published(const struct seg_qp *entry, uint32_t qpn, struct message_progress *p)
{
	uint64_t word = load_acquire(&entry->progress);	/* L11 */

	*p = (struct message_progress){ .psn = word >> 40,
					.msn = word >> 16 & BITS_24,
					.syndrome = word >> 8 & 0xff };
	return (word & 0xff) == PUBLISHED && load_relaxed(&entry->qpn) == qpn;
}

void message_queue_init(struct message_queue *q)
{
	list_init(&q->senders);
}

void message_sender_init(struct message_sender *s)
{
	*s = (struct message_sender){ 0 };
	list_init(&s->node);
}

void message_sent(struct message_queue *q, struct message_sender *s, uint32_t slot)
{
	s->last = slot;
	if (!list_empty(&s->node))
		return;
	s->slot = slot;
	list_add_tail(&q->senders, &s->node);
}

static bool passed(uint32_t slot, uint32_t tail)
{
	return (int32_t)(tail - slot) > 0;
}

struct message_sender *message_next(struct message_queue *q, uint32_t tail)
{
	struct message_sender *s = list_entry(q->senders.next, struct message_sender, node);

	if (list_empty(&q->senders) || !passed(s->slot, tail))
		return NULL;
	list_del(&s->node);
	if (!passed(s->last, tail)) {
		s->slot = tail;
		list_add_tail(&q->senders, &s->node);
	}
	return s;
}

void message_forget(struct message_sender *s)
{
	list_del(&s->node);
}
