/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rx/reorder.h"

#include <stdlib.h>
#include <string.h>

#include "roce/psn.h"
#include "roce/reorder.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"

struct copy {
	struct roce_pkt pkt;
	struct roce_out_of_order out_of_order;
	uint8_t payload[];
};

struct reorder_queue {
	uint32_t n;
	struct copy *popped;			/* the last result of pop(), freed by the next */
	struct copy *slot[REORDER_PACKETS];	/* by PSN */
};

_Static_assert(REORDER_PACKETS >= TUNE_WINDOW_MAX, "what a window has in flight fits");

static uint32_t reorder_bytes;	/* atomic: memory of all reorder queues of the process */

static uint32_t size_of(const struct copy *c)
{
	return sizeof(*c) + c->pkt.payload_len;
}

static void drop(struct copy **c)
{
	if (!*c)
		return;
	fetch_add_relaxed(&reorder_bytes, -size_of(*c));
	free(*c);
	*c = NULL;
}

static void drop_slot(struct reorder_queue *h, struct copy **slot)
{
	h->n -= *slot != NULL;
	drop(slot);
}

static struct copy **slot_of(struct reorder_queue *h, uint32_t psn)
{
	return &h->slot[psn % REORDER_PACKETS];
}

static struct copy *copy_of(const struct roce_pkt *pkt, uint64_t now)
{
	struct copy *c;

	if (load_relaxed(&reorder_bytes) > LIMIT_REORDER_BYTES)
		return NULL;
	c = malloc(sizeof(*c) + pkt->payload_len);
	if (!c)
		return NULL;
	c->pkt = *pkt;
	c->pkt.ack = NULL;	/* already processed */
	c->pkt.payload = c->payload;
	c->out_of_order = roce_out_of_order_new(pkt->bth.psn, now);
	if (pkt->payload_len)
		memcpy(c->payload, pkt->payload, pkt->payload_len);
	fetch_add_relaxed(&reorder_bytes, size_of(c));
	return c;
}

/*
 * Encodes the headers without the fields that may change in transit or differ in a retransmission.
 */
static size_t lasting_headers(const struct roce_pkt *pkt, uint8_t *buf)
{
	struct roce_pkt p = *pkt;

	p.bth.ack_req = p.bth.mig_req = p.bth.fecn = p.bth.becn = false;
	return roce_encode_headers(buf, &p);
}

static bool same(const struct roce_pkt *a, const struct roce_pkt *b)
{
	uint8_t ha[ROCE_MAX_HDR], hb[ROCE_MAX_HDR];
	size_t la = lasting_headers(a, ha), lb = lasting_headers(b, hb);

	return la == lb && !memcmp(ha, hb, la) && a->payload_len == b->payload_len &&
	       (!a->payload_len || !memcmp(a->payload, b->payload, a->payload_len));
}

static void put(struct reorder_queue *h, struct copy **slot, const struct roce_pkt *pkt,
		uint64_t now)
{
	drop_slot(h, slot);
	*slot = copy_of(pkt, now);
	h->n += *slot != NULL;
}

/* A packet with this PSN has arrived for the first time. */
static void note_overtaken(struct reorder_queue *h, uint32_t psn)
{
	for (uint32_t i = 0; h->n && i < REORDER_PACKETS; i++)
		if (h->slot[i])
			roce_out_of_order_passed(&h->slot[i]->out_of_order, psn);
}

void reorder_insert(struct reorder_queue **hp, const struct roce_pkt *pkt, uint64_t now)
{
	struct copy **slot;

	if (!*hp)
		*hp = calloc(1, sizeof(**hp));
	if (!*hp)
		return;
	slot = slot_of(*hp, pkt->bth.psn);
	if (!*slot || (*slot)->pkt.bth.psn != pkt->bth.psn ||
	    roce_out_of_order_is_old(&(*slot)->out_of_order, now)) {
		put(*hp, slot, pkt, now);
		note_overtaken(*hp, pkt->bth.psn);
	} else if (!same(&(*slot)->pkt, pkt)) {
		(*slot)->out_of_order.doubted = true;
	}
}

/*
 * Drops packets that are useless now that `psn` is expected. Returns true if a remaining packet
 * shows that the packet with this PSN was sent but is missing.
 */
static bool look_through(struct reorder_queue *h, uint32_t psn, uint64_t now)
{
	bool missing = false;

	for (uint32_t i = 0; h->n && i < REORDER_PACKETS; i++) {
		struct copy *c = h->slot[i];

		if (!c)
			continue;
		if (roce_out_of_order_is_over(&c->out_of_order, psn, now)) {
			drop_slot(h, &h->slot[i]);
			continue;
		}
		missing |= roce_out_of_order_shows_gap(&c->out_of_order, psn);
	}
	return missing;
}

/* Takes the packet with this PSN, or returns NULL. The packet is valid until the next call. */
static const struct roce_pkt *pop(struct reorder_queue *h, uint32_t psn)
{
	struct copy **slot = slot_of(h, psn);

	drop(&h->popped);
	if (!*slot || !roce_out_of_order_runs(&(*slot)->out_of_order, psn))
		return NULL;
	h->popped = *slot;
	*slot = NULL;
	h->n--;
	return &h->popped->pkt;
}

void reorder_deliver(struct reorder_queue *h, struct roce_qp *qp, reorder_run_fn *run, void *arg,
		     uint64_t now)
{
	const struct roce_pkt *p;
	bool missing;

	if (likely(!h->n)) {
		drop(&h->popped);
		return;
	}
	note_overtaken(h, psn_prev(roce_expected_psn(qp)));
	missing = look_through(h, roce_expected_psn(qp), now);
	while ((p = pop(h, roce_expected_psn(qp)))) {
		struct roce_pkt pkt = *p;

		pkt.bth.ack_req = true;
		/* Followed when it arrived (roce/migrate.c); this is what changes no state now. */
		pkt.bth.mig_req = qp->wq->mig_state == IBV_MIG_REARM;
		run(arg, &pkt);
		missing = look_through(h, roce_expected_psn(qp), now);
	}
	if (missing)
		roce_nak_again(qp);
}

bool reorder_waits(const struct reorder_queue *h)
{
	return h && h->n;
}

void reorder_free(struct reorder_queue **hp)
{
	if (!*hp)
		return;
	drop(&(*hp)->popped);
	for (uint32_t i = 0; i < REORDER_PACKETS; i++)
		drop(&(*hp)->slot[i]);
	free(*hp);
	*hp = NULL;
}
