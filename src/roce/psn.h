/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers: 24-bit serial arithmetic. MSNs and SSNs count in the same way.
 *
 * Relative to any PSN, the 2^23 - 1 numbers after it are later and the 2^23 numbers before it are
 * earlier, so a difference is in -2^23 .. 2^23 - 1. At most 2^23 packets may be outstanding, so
 * that the two halves cannot be confused. Bits of arguments above 23 are ignored; results have
 * none.
 */
#ifndef VRB_ROCE_PSN_H
#define VRB_ROCE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/const.h"

#define PSN_HALF (1u << 23)

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCE_PSN_MASK;
}

static inline uint32_t psn_next(uint32_t psn)
{
	return psn_add(psn, 1);
}

static inline uint32_t psn_prev(uint32_t psn)
{
	return psn_add(psn, ROCE_PSN_MASK);
}

/* a - b: positive if a is later. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* How many PSNs `to` is after `from`: 0..2^24 - 1. */
static inline uint32_t psn_distance(uint32_t from, uint32_t to)
{
	return (to - from) & ROCE_PSN_MASK;
}

static inline bool psn_before(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) < 0;
}

/* first <= psn <= last, for a range of at most 2^23 numbers. */
static inline bool psn_in_range(uint32_t psn, uint32_t first, uint32_t last)
{
	return ((psn - first) & ROCE_PSN_MASK) <= ((last - first) & ROCE_PSN_MASK);
}

/* Returns the number of packets of a message of `length` bytes; an empty message takes one. */
static inline uint32_t psn_packets(uint32_t length, uint32_t mtu)
{
	return length <= mtu ? 1 : (uint32_t)(((uint64_t)length + mtu - 1) / mtu);
}

#endif
