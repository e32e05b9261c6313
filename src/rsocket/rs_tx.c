/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending half of a stream: credits, and buffers announced by the peer. */
#include "rsocket/rs_tx.h"

#include <string.h>

#include "util/compiler.h"

static uint8_t *current(struct rs_tx *tx)
{
	return tx->list + (size_t)tx->entry * RS_SGE_LEN;
}

void rs_tx_init(struct rs_tx *tx, uint8_t *list, const struct rs_conn *peer)
{
	*tx = (struct rs_tx){ .list = list, .limit = peer->credits };
	rs_sge_encode(list, &peer->ring, RS_BIG_ENDIAN);
}

uint32_t rs_tx_room(struct rs_tx *tx)
{
	struct rs_region r;

	if (!rs_tx_credit(tx))
		return 0;
	rs_sge_decode(current(tx), &r);
	return r.length;
}

void rs_tx_take(struct rs_tx *tx, uint32_t n, struct rs_region *to)
{
	struct rs_region r;

	rs_sge_decode(current(tx), &r);
	/* The peer may have changed it since rs_tx_room(). */
	n = min(n, r.length);
	*to = (struct rs_region){ .addr = r.addr, .key = r.key, .length = n };
	r.addr += n;
	r.length -= n;
	rs_sge_encode(current(tx), &r, RS_BIG_ENDIAN);
	if (!r.length)
		tx->entry = (tx->entry + 1) % RS_SGL_ENTRIES;
	tx->sent++;
	tx->total += n;
}
