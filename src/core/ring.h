/* SPDX-License-Identifier: BSD-2-Clause */
/* Sizes and memory of work-queue rings. */
#ifndef VRB_CORE_RING_H
#define VRB_CORE_RING_H

#include <stdint.h>
#include <stdlib.h>

#include "wq/wqe.h"

static inline uint32_t ring_round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size <<= 1;
	return size;
}

/* As mlx4 and mlx5 size what programs count one short: the next power of two, and never the very number. */
static inline uint32_t ring_beyond(uint32_t n)
{
	return ring_round_up(n + 1);
}

/* Fills everything but the memory: `limit` entries of `stride` bytes at least, 16-aligned. */
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

static inline size_t recv_stride(uint32_t max_sge)
{
	return sizeof(struct recv_wqe) + max_sge * sizeof(struct ibv_sge);
}

#endif
