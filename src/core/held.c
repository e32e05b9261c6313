/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/held.h"

#include <stdlib.h>
#include <string.h>

#include "roce/psn.h"
#include "util/atomic.h"
#include "util/compiler.h"

struct copy {
	struct roce_pkt pkt;
	uint64_t since;
	uint32_t overtook;	/* packets in front of it that came later */
	bool doubted;
	uint8_t payload[];
};

struct held {
	uint32_t n;
	struct copy *taken;			/* out of its slot, valid for the caller */
	struct copy *slot[HELD_PACKETS];	/* by PSN */
};

static uint32_t held_bytes;	/* atomic */

static uint32_t size_of(const struct copy *c)
{
	return sizeof(*c) + c->pkt.payload_len;
}

static void drop(struct copy **c)
{
	if (!*c)
		return;
	fetch_add_relaxed(&held_bytes, -size_of(*c));
	free(*c);
	*c = NULL;
}

static void drop_slot(struct held *h, struct copy **slot)
{
	h->n -= *slot != NULL;
	drop(slot);
}

static struct copy **slot_of(struct held *h, uint32_t psn)
{
	return &h->slot[psn % HELD_PACKETS];
}

static struct copy *copy_of(const struct roce_pkt *pkt)
{
	struct copy *c;

	if (load_relaxed(&held_bytes) > HELD_BYTES)
		return NULL;
	c = malloc(sizeof(*c) + pkt->payload_len);
	if (!c)
		return NULL;
	c->pkt = *pkt;
	c->pkt.ack = NULL;	/* has been heard */
	c->pkt.payload = c->payload;
	c->overtook = 0;
	c->doubted = false;
	if (pkt->payload_len)
		memcpy(c->payload, pkt->payload, pkt->payload_len);
	fetch_add_relaxed(&held_bytes, size_of(c));
	return c;
}

/* The headers as they are on the wire, but for what changes on the way or from one time that a packet is sent to the next. */
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

static void put(struct held *h, struct copy **slot, const struct roce_pkt *pkt, uint64_t now)
{
	drop_slot(h, slot);
	*slot = copy_of(pkt);
	if (!*slot)
		return;
	h->n++;
	(*slot)->since = now;
}

static bool is_old(const struct copy *c, uint64_t now)
{
	return time_since(c->since, now) > HELD_TIME;
}

/* A packet with this PSN has come for the first time. */
static void note_overtaken(struct held *h, uint32_t psn)
{
	for (uint32_t i = 0; h->n && i < HELD_PACKETS; i++) {
		struct copy *c = h->slot[i];

		if (!c || !psn_before(psn, c->pkt.bth.psn))
			continue;
		c->overtook++;
		c->doubted |= c->overtook > HELD_BELIEVED;
	}
}

void held_keep(struct held **hp, const struct roce_pkt *pkt, uint64_t now)
{
	struct copy **slot;

	if (!*hp)
		*hp = calloc(1, sizeof(**hp));
	if (!*hp)
		return;
	slot = slot_of(*hp, pkt->bth.psn);
	if (!*slot || (*slot)->pkt.bth.psn != pkt->bth.psn || is_old(*slot, now)) {
		put(*hp, slot, pkt, now);
		note_overtaken(*hp, pkt->bth.psn);
	} else if (!same(&(*slot)->pkt, pkt)) {
		(*slot)->doubted = true;
	}
}

/* Drops what is of no use at psn any more.  Returns whether something is left that shows that the packet with this PSN was sent, and is missing. */
static bool look_through(struct held *h, uint32_t psn, uint64_t now)
{
	bool missing = false;

	for (uint32_t i = 0; h->n && i < HELD_PACKETS; i++) {
		struct copy *c = h->slot[i];

		if (!c)
			continue;
		if (psn_before(c->pkt.bth.psn, psn) || is_old(c, now)) {
			drop_slot(h, &h->slot[i]);
			continue;
		}
		missing |= c->overtook <= HELD_ASKED || c->pkt.bth.psn == psn;
	}
	return missing;
}

/* The packet with this PSN, or NULL; it holds until the next call. */
static const struct roce_pkt *take(struct held *h, uint32_t psn)
{
	struct copy **slot = slot_of(h, psn);

	drop(&h->taken);
	if (!*slot || (*slot)->pkt.bth.psn != psn || (*slot)->doubted)
		return NULL;
	h->taken = *slot;
	*slot = NULL;
	h->n--;
	return &h->taken->pkt;
}

void held_follow(struct held *h, struct roce_qp *qp, held_run *run, void *arg, uint64_t now)
{
	const struct roce_pkt *p;
	bool missing;

	note_overtaken(h, psn_prev(roce_expected_psn(qp)));
	missing = look_through(h, roce_expected_psn(qp), now);
	while ((p = take(h, roce_expected_psn(qp)))) {
		struct roce_pkt pkt = *p;

		pkt.bth.ack_req = true;
		run(arg, &pkt);
		missing = look_through(h, roce_expected_psn(qp), now);
	}
	if (missing)
		roce_ask_again(qp);
}

void held_free(struct held **hp)
{
	if (!*hp)
		return;
	drop(&(*hp)->taken);
	for (uint32_t i = 0; i < HELD_PACKETS; i++)
		drop(&(*hp)->slot[i]);
	free(*hp);
	*hp = NULL;
}
