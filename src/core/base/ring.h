/* SPDX-License-Identifier: BSD-2-Clause */
/* Sizing of work-queue rings. */
#ifndef VRB_CORE_BASE_RING_H
#define VRB_CORE_BASE_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/compiler.h"
#include "wq/wqe.h"

static inline uint32_t ring_round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size <<= 1;
	return size;
}

/*
 * The next power of two above n, never n itself: mlx4 and mlx5 grant these sizes, and some programs
 * ask for one entry too few.
 */
static inline uint32_t ring_beyond(uint32_t n)
{
	return ring_round_up(n + 1);
}

/*
 * Sets everything but the memory: at least `limit` entries of at least `stride` bytes, aligned to
 * 16 bytes.
 */
static inline void ring_shape(struct wq_ring *r, uint32_t limit, uint32_t max_sge, size_t stride)
{
	r->limit = limit;
	r->max_sge = max_sge;
	r->mask = ring_round_up(limit) - 1;
	r->stride = (stride + 15) & ~(size_t)15;
}

static inline size_t ring_bytes(const struct wq_ring *r)
{
	return (size_t)(r->mask + 1) * r->stride;
}

/*
 * Gives a ring its memory at the first post, since in a program with many QPs most are idle. Call
 * before a slot is used; false: memory is exhausted. Under the lock of the ring's queue.
 */
static inline bool ring_has_memory(struct wq_ring *r)
{
	if (unlikely(!r->slots))
		r->slots = malloc(ring_bytes(r));
	return r->slots;
}

static inline size_t recv_stride(uint32_t max_sge)
{
	return sizeof(struct recv_wqe) + max_sge * sizeof(struct ibv_sge);
}

#endif
