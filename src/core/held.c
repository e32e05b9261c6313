/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/held.h"

#include <stdlib.h>
#include <string.h>

#include "roce/psn.h"
#include "util/atomic.h"

struct copy {
	struct roce_pkt pkt;
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
	if (pkt->payload_len)
		memcpy(c->payload, pkt->payload, pkt->payload_len);
	fetch_add_relaxed(&held_bytes, size_of(c));
	return c;
}

void held_keep(struct held **hp, const struct roce_pkt *pkt)
{
	struct copy **slot;

	if (!*hp)
		*hp = calloc(1, sizeof(**hp));
	if (!*hp)
		return;
	slot = slot_of(*hp, pkt->bth.psn);
	if (*slot && (*slot)->pkt.bth.psn == pkt->bth.psn)
		return;
	(*hp)->n -= *slot != NULL;
	drop(slot);
	*slot = copy_of(pkt);
	(*hp)->n += *slot != NULL;
}

const struct roce_pkt *held_take(struct held *h, uint32_t psn)
{
	struct copy **slot;

	if (!h)
		return NULL;
	drop(&h->taken);
	for (uint32_t i = 0; h->n && i < HELD_PACKETS; i++) {
		if (!h->slot[i] || !psn_before(h->slot[i]->pkt.bth.psn, psn))
			continue;
		drop(&h->slot[i]);
		h->n--;
	}
	slot = slot_of(h, psn);
	if (!*slot || (*slot)->pkt.bth.psn != psn)
		return NULL;
	h->taken = *slot;
	*slot = NULL;
	h->n--;
	return &h->taken->pkt;
}

const struct roce_pkt *held_behind(const struct held *h, uint32_t psn)
{
	const struct roce_pkt *first = NULL;

	for (uint32_t i = 0; h && h->n && i < HELD_PACKETS; i++)
		if (h->slot[i] && psn_before(psn, h->slot[i]->pkt.bth.psn) &&
		    (!first || psn_before(h->slot[i]->pkt.bth.psn, first->bth.psn)))
			first = &h->slot[i]->pkt;
	return first;
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
