/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending half of a stream: when a message may be sent, and where to.
 *
 * The peer announces buffers in a list of entries that it writes into our memory and that are used
 * in turn; it limits the number of messages by credits.  Both are untrusted: wrong values only make
 * writes to the peer's own memory fail.
 *
 * Pure; the caller serializes calls.
 */
#ifndef VRB_RSOCKET_RS_TX_H
#define VRB_RSOCKET_RS_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "rsocket/rs_wire.h"

struct rs_tx {
	uint8_t *list;      /* RS_SGL_ENTRIES announcements, written by the peer at any time */
	unsigned int entry; /* next entry to use */
	uint16_t sent;      /* messages that consume a receive of the peer */
	uint16_t limit;     /* highest permitted value of `sent` */
	uint64_t total;     /* bytes of data sent */
};

/* Initializes it with the peer's connection data. */
void rs_tx_init(struct rs_tx *tx, uint8_t *list, const struct rs_conn *peer);

/* The peer granted credits. */
static inline void rs_tx_grant(struct rs_tx *tx, uint32_t arg)
{
	tx->limit = (uint16_t)arg;
}

/* True if a message that consumes a receive may be sent. */
static inline bool rs_tx_credit(const struct rs_tx *tx)
{
	return tx->sent != tx->limit;
}

/* Bytes that the next data message may have; 0: wait. */
uint32_t rs_tx_room(struct rs_tx *tx);

/* Takes room for a message of n bytes, 0 < n <= rs_tx_room(); *to is its destination. */
void rs_tx_take(struct rs_tx *tx, uint32_t n, struct rs_region *to);

/* A message without data is sent that consumes a receive. */
static inline void rs_tx_spend(struct rs_tx *tx)
{
	tx->sent++;
}

#endif
