/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving half of a stream: the ring and its announcements. */
#include "rsocket/rs_rx.h"

#include <errno.h>

#include "util/compiler.h"

void rs_rx_init(struct rs_rx *rx, uint32_t size, uint16_t queue)
{
	*rx = (struct rs_rx){
		.size = size,
		.announced = size / 2,
		.freed = size / 2,
		.next_half = size / 2,
		.entries = RS_SGL_ENTRIES,
		.entry = 1,
		.queue = queue,
		.renew = queue / 2,
	};
}

void rs_rx_peer(struct rs_rx *rx, const struct rs_conn *peer)
{
	rx->entries = peer->sgl.length;
	rx->entry = 1 % rx->entries;
}

int rs_rx_came(struct rs_rx *rx, uint32_t n)
{
	if (n > rx->announced)
		return EPROTO;
	rx->announced -= n;
	rx->unread += n;
	rx->total += n;
	rx->came++;
	return 0;
}

unsigned int rs_rx_peek(const struct rs_rx *rx, uint32_t n, struct rs_span span[2])
{
	uint32_t first = min(n, rx->size - rx->at);

	span[0] = (struct rs_span){ .offset = rx->at, .len = first };
	span[1] = (struct rs_span){ .offset = 0, .len = n - first };
	return first < n ? 2 : 1;
}

void rs_rx_read(struct rs_rx *rx, uint32_t n)
{
	rx->at += n;
	if (rx->at >= rx->size)
		rx->at -= rx->size;
	rx->unread -= n;
	rx->freed += n;
}

void rs_rx_grant(struct rs_rx *rx, struct rs_grant *g)
{
	uint32_t half = rx->size / 2;

	*g = (struct rs_grant){
		.imm_arg = (uint16_t)(rx->came + rx->queue),
		.has_half = rx->freed >= half,
		.offset = rx->next_half,
		.entry = rx->entry,
	};
	rx->renew = (uint16_t)(rx->came + rx->queue / 2);
	if (!g->has_half)
		return;
	rx->freed -= half;
	rx->announced += half;
	rx->next_half = half - rx->next_half;
	rx->entry = (rx->entry + 1) % rx->entries;
}
