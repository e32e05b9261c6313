/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recent destinations of a UD QP. Only a receiver can have seen a marked packet, so a congestion
 * notification from another address is forged or misdirected.
 *
 * A hash table that keeps the newest address in each place. A notification from an evicted address
 * is ignored, so only a later one takes effect.
 */
#ifndef VRB_ROCE_SENTTO_H
#define VRB_ROCE_SENTTO_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"
#include "util/time.h"

enum { ROCE_SENT_TO_SLOTS = 32 };

#define ROCE_LATELY VRB_SECOND	/* longer than the round trip of any path */

struct roce_sent_to {
	struct {
		struct net_addr addr;
		uint64_t at;
	} slot[ROCE_SENT_TO_SLOTS];
};

/* One place only, without probing: addresses of one network differ in their last bytes. */
static inline uint32_t roce_sent_to_place(const struct net_addr *a)
{
	return (a->raw[15] ^ a->raw[14] ^ a->raw[13]) % ROCE_SENT_TO_SLOTS;
}

static inline void roce_sent_to_note(struct roce_sent_to *s, const struct net_addr *dst,
				     uint64_t now)
{
	uint32_t i = roce_sent_to_place(dst);

	s->slot[i].addr = *dst;
	s->slot[i].at = now;
}

static inline bool roce_sent_to_lately(const struct roce_sent_to *s, const struct net_addr *a,
				       uint64_t now)
{
	uint32_t i = roce_sent_to_place(a);

	return net_addr_equal(&s->slot[i].addr, a) && time_since(s->slot[i].at, now) <= ROCE_LATELY;
}

#endif
