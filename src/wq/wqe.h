/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queue memory: the internal form of posted work requests, and the rings that hold them.
 *
 * Below both transports (roce, local), so that either can run the same queue. No locks here: a send
 * queue and a receive queue are used under their QP's lock, a shared receive queue under its own.
 *
 * Ring indices run free over 32 bits and are masked on use, so head - tail is always the number of
 * entries.
 *
 * Life of a send WQE (indices only ever advance):
 *
 *	released <= done <= next <= head
 *	   |         |       |       +-- next free slot; post advances it
 *	   |         |       +---------- first WQE without a packet so far; owned by the transport
 *	   |         +------------------ oldest WQE that is not complete; owned by the transport
 *	   +---------------------------- slots before it may be reused; polling advances it
 *
 * A slot is reused only after a completion at or after it was polled, as in hardware providers: a
 * program that never signals must fail here as it fails there.
 */
#ifndef VRB_WQ_WQE_H
#define VRB_WQ_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "util/compiler.h"
#include "util/copy_few.h"
#include "util/net.h"

/* Flags of struct send_wqe beyond enum ibv_send_flags (which keep their values, bits 0..4). */
enum {
	WQE_DATA_INLINE = 1 << 8,	/* the payload follows the WQE instead of SGEs */
	/* raise a completion on success: IBV_SEND_SIGNALED or sq_sig_all */
	WQE_SIGNALED = 1 << 9,

	/* Notes of the transport, clear when posted. */
	/* was run one-sidedly: takes no PSN, done when its turn comes */
	WQE_EXECUTED = 1 << 10,
	/* could not be run one-sidedly, or its payload could not be fetched */
	WQE_BY_PACKET = 1 << 11,
	/*
	 * leaves as one packet or message with one PSN, whatever its length; if a message does not
	 * bring the payload, the receiver fetches it
	 */
	WQE_WHOLE = 1 << 12,
	/* left as a message at first: one PSN, and an ACK completes it */
	WQE_MESSAGE = 1 << 13,
};

struct send_wqe {
	uint64_t wr_id;
	uint32_t opcode;	/* enum ibv_wr_opcode */
	uint32_t flags;		/* IBV_SEND_* | WQE_* */
	uint32_t length;	/* payload bytes of the message, 0..2^31 */
	uint32_t num_sge;	/* entries of sge[]; 0 when inline */
	/* immediate data in wire order (big endian), or the rkey to invalidate (host order) */
	uint32_t imm;
	uint32_t rkey;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		} atomic;
		struct {
			const struct net_path *path;	/* see wqe_set_path() */
			uint32_t qpn;
			uint32_t qkey;
			uint16_t mss;			/* TSO: payload bytes of a datagram */
			/* TSO: header bytes, see wqe_tso_header() */
			uint16_t hdr_len;
		} ud;
		struct {
			uint64_t addr;
			uint64_t length;
			/* lkeys, not pointers: the objects may be gone when it is executed */
			uint32_t window;
			uint32_t region;		/* 0: none */
			uint32_t access;		/* IBV_ACCESS_* */
		} bind;
		struct {
			/* enum ibv_placement_type of later releases */
			uint8_t placement;
			uint8_t selectivity;
		} flush;
		uint64_t atomic_write;			/* 8 bytes in memory order */
	};
	uint32_t srqn;		/* XRC: destination SRQ number */
	/*
	 * enum reason: an error found at posting; the request fails with it when it is the oldest
	 */
	uint16_t error;

	/* Transport's notes; written when the first packet is built. */
	uint16_t piece;		/* READ: packets that each request asks for */
	uint32_t first_psn;
	uint32_t last_psn;
	uint32_t ssn;		/* send sequence number, for credits */

	/* num_sge entries, or `length` bytes of inline payload. */
	struct ibv_sge sge[];
};

static inline uint8_t *wqe_inline_data(struct send_wqe *w)
{
	return (uint8_t *)w->sge;
}

struct recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;	/* sum of the SGE lengths, saturated at UINT32_MAX */
	/* leading bytes of the message that are not stored; 0 for a program's receive */
	uint32_t skip;
	/* drop the part that does not fit the list, instead of failing */
	uint32_t clip;
	struct ibv_sge sge[];
};

/* Most programs have just written the list. */
static inline void wqe_copy_sge(struct ibv_sge *to, const struct ibv_sge *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		copy_member(&to[i], &from[i], addr);
		copy_member(&to[i], &from[i], length);
		copy_member(&to[i], &from[i], lkey);
	}
}

/* Is there room for a message of this many bytes? */
static inline bool recv_wqe_fits(const struct recv_wqe *w, uint64_t bytes)
{
	return w->clip || bytes <= (uint64_t)w->skip + w->length;
}

/* A ring of equal-sized slots; size is a power of two, limit (the advertised depth) may be less. */
struct wq_ring {
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;		/* size - 1 */
	uint32_t limit;		/* most entries posted at once */
	uint32_t max_sge;
};

struct send_queue {
	struct wq_ring ring;
	uint32_t head;
	uint32_t next;
	uint32_t done;
	/* atomic: stored (release) by pollers under their CQ lock, loaded (acquire) by posters */
	uint32_t released;
	uint32_t max_inline;
	uint8_t sig_all;
};

struct recv_queue {
	struct wq_ring ring;
	uint32_t head;		/* next free slot */
	uint32_t next;		/* next entry to use */
	uint32_t released;	/* atomic, as in send_queue */
};

static inline void *wq_slot(const struct wq_ring *r, uint32_t index)
{
	return r->slots + (size_t)(index & r->mask) * r->stride;
}

/* The header of a TSO request follows the room for inline data and SGEs. */
static inline uint8_t *wqe_tso_header(const struct send_queue *sq, struct send_wqe *w)
{
	return (uint8_t *)w->sge + sq->max_inline;
}

static inline struct send_wqe *sq_wqe(const struct send_queue *sq, uint32_t index)
{
	return wq_slot(&sq->ring, index);
}

/*
 * Datagrams: the last bytes of a slot hold the path, because the AH may be destroyed before the
 * request is executed.
 */
static inline void wqe_set_path(const struct send_queue *sq, struct send_wqe *w,
				const struct net_path *path)
{
	struct net_path *copy = (struct net_path *)((uint8_t *)w + sq->ring.stride) - 1;

	*copy = *path;
	w->ud.path = copy;
}

static inline struct recv_wqe *rq_wqe(const struct recv_queue *rq, uint32_t index)
{
	return wq_slot(&rq->ring, index);
}

#endif
