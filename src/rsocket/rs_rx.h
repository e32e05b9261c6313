/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving half of a stream: a ring of bytes that the peer fills in order, and what is announced
 * to the peer: parts of the ring, and receives.
 *
 *	ring size == unread + announced + freed
 *
 *	unread		received, not read yet
 *	announced	the peer may write there
 *	freed		read; announced again when half of the ring is free
 *
 * Pure; the caller serializes calls.
 */
#ifndef VRB_RSOCKET_RS_RX_H
#define VRB_RSOCKET_RS_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "rsocket/rs_wire.h"

struct rs_rx {
	uint32_t size; /* of the ring; even */
	uint32_t at;   /* offset of the next byte to read */
	uint32_t unread, announced, freed;
	uint32_t next_half;      /* offset of the half to announce next */
	uint32_t entries, entry; /* size of the peer's list, and its next entry */
	uint64_t total;          /* bytes that have come */
	uint16_t queue;          /* number of posted receives */
	uint16_t came;           /* messages that have consumed a receive */
	uint16_t renew;          /* value of `came` at which new receives are granted */
};

struct rs_grant {
	uint32_t imm_arg;
	bool has_half;
	uint32_t offset; /* of the half in the ring */
	uint32_t entry;  /* in the peer's list */
};

/* Part of the ring. */
struct rs_span {
	uint32_t offset, len;
};

/* The connection data announces the first half. */
void rs_rx_init(struct rs_rx *rx, uint32_t size, uint16_t queue);

/* Takes the size of the list from the peer's connection data. */
void rs_rx_peer(struct rs_rx *rx, const struct rs_conn *peer);

/* The peer wrote n bytes.  Returns 0, or EPROTO if they were not announced. */
int rs_rx_came(struct rs_rx *rx, uint32_t n);

/* A message without data arrived that consumed a receive. */
static inline void rs_rx_count(struct rs_rx *rx)
{
	rx->came++;
}

/* Locates the next n <= unread bytes: one or two parts.  Returns their number. */
unsigned int rs_rx_peek(const struct rs_rx *rx, uint32_t n, struct rs_span span[2]);

/* Frees n bytes that were read. */
void rs_rx_read(struct rs_rx *rx, uint32_t n);

/* True if something is to be announced or granted. */
static inline bool rs_rx_owes(const struct rs_rx *rx)
{
	return rx->freed >= rx->size / 2 || (int16_t)(rx->came - rx->renew) >= 0;
}

/* Returns what to announce or grant; the caller must send it. */
void rs_rx_grant(struct rs_rx *rx, struct rs_grant *g);

#endif
