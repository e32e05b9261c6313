/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread's batch of outgoing packets: built in one buffer, completed with their ICRC while hot in
 * the cache, and sent together.
 *
 * Consecutive packets of equal length to the same destination form a run, which the kernel takes as
 * one message (GSO); wire/wire.h has the conditions. Thread-local; no locks.
 */
#ifndef VRB_CORE_TX_TX_BATCH_H
#define VRB_CORE_TX_TX_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/icrc.h"
#include "roce/pkt.h"
#include "util/compiler.h"
#include "wire/wire.h"

enum {
	TX_BATCH_PACKETS = WIRE_BURST,
	/*
	 * the peer processes one batch while we build the next: 64 KiB of payload in the longest
	 * packets, so that a message of that size is one batch
	 */
	TX_BATCH_BYTES = 64 * 1024 / ROCE_MAX_MTU * (ROCE_MAX_MTU + ROCE_BTH_LEN + ROCE_ICRC_LEN),
};

struct vrb_qp;
struct vrb_rx_queue;

struct vrb_tx_batch {
	unsigned int n;
	unsigned int sends;	/* how often it was sent; wraps */
	struct vrb_rx_queue *queue;	/* whose wire sends it: of the first packet's QP */
	uint32_t used;		/* bytes of `data` */
	uint32_t run_bytes;	/* size of the last packet's run */
	uint32_t run_len;	/* length of the run's packets; 0: the run has ended */
	uint64_t flipped;	/* a bit for each packet whose ICRC a fault has spoiled */
	struct roce_icrc_front front;
	struct wire_pkt pkts[TX_BATCH_PACKETS];
	/* a batch that is full may wait for one packet more, an ACK */
	uint8_t data[TX_BATCH_BYTES + 2 * ROCE_MAX_PACKET];
};

extern __thread struct vrb_tx_batch *vrb_tx_batch_mine static_tls;
struct vrb_tx_batch *vrb_tx_batch_new(void);
void vrb_tx_batch_init(struct vrb_tx_batch *b);
void vrb_tx_batch_send(struct vrb_tx_batch *b);

/*
 * The calling thread's batch, empty unless the caller is filling it; NULL if memory is exhausted.
 * Freed at thread exit.
 */
static inline struct vrb_tx_batch *vrb_tx_batch_own(void)
{
	return likely(vrb_tx_batch_mine) ? vrb_tx_batch_mine : vrb_tx_batch_new();
}

/* Room for the next packet, ROCE_MAX_PACKET bytes. */
static inline uint8_t *vrb_tx_batch_room(struct vrb_tx_batch *b)
{
	return b->data + b->used;
}

/*
 * Completes the packet in vrb_tx_batch_room(), `len` bytes without ICRC, of this QP, or of none.
 * `ect`: the QP reacts to
 * congestion notifications, so routers may mark the packet instead of dropping it (RFC 3168).
 * Sends the batch if it is full.
 */
void vrb_tx_batch_seal(struct vrb_tx_batch *b, struct vrb_qp *qp, const struct net_path *path,
		       size_t len, bool ect);

/* Sends the batch. Waits briefly for a full socket, then drops the rest. */
static inline void vrb_tx_batch_flush(struct vrb_tx_batch *b)
{
	if (b->n)
		vrb_tx_batch_send(b);
}

/* In a forked child: the batch is the parent's. And as the thread ends. */
void vrb_tx_batch_forget(void);

#endif
