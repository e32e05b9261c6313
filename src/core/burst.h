/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that a thread is about to send: built side by side, sealed with their ICRC while they are
 * hot in the cache, and handed to the wire together.
 *
 * Neighbours of equal length to the same place form a run, which the kernel carries as one message;
 * wire/wire.h says what that asks for.  Everything belongs to the calling thread; no locks.
 */
#ifndef VRB_CORE_BURST_H
#define VRB_CORE_BURST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/pkt.h"
#include "wire/wire.h"

enum {
	BURST_PACKETS = WIRE_BURST,
	BURST_BYTES = 64 * 1024,	/* the peer works on one burst while we build the next */
};

struct vrb_burst {
	unsigned int n;
	uint32_t used;		/* of data */
	uint32_t run_bytes;	/* of the run that the last packet belongs to */
	uint32_t run_len;	/* length of its packets; 0: nothing can join */
	struct wire_pkt pkts[BURST_PACKETS];
	uint8_t data[BURST_BYTES + ROCE_MAX_PACKET];
};

/*
 * The calling thread's, empty unless it is filling it; NULL when memory is out.  Freed with the
 * thread.
 */
struct vrb_burst *vrb_burst_own(void);

/* Room for the next packet, ROCE_MAX_PACKET bytes. */
static inline uint8_t *vrb_burst_room(struct vrb_burst *b)
{
	return b->data + b->used;
}

/*
 * Completes the packet built there, of len bytes without its ICRC.  `ect`: its QP slows down when
 * told of congestion, so routers may mark it instead of dropping it (RFC 3168).  A full burst leaves
 * at once.
 */
void vrb_burst_seal(struct vrb_burst *b, const struct net_path *path, size_t len, bool ect);

/* Sends what is in it. A full socket is waited for a little, then the rest is lost. */
void vrb_burst_flush(struct vrb_burst *b);

/* In a forked child. */
void vrb_burst_forget(void);

#endif
