/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket filter that drops requests of communication management (REQ, SIDR_REQ to QP 1) at
 * random, before they use the receive buffer: of each bucket of sources as many as its level says.
 * Replies of the same protocol and data pass.
 *
 * A bucket is a hash of source addresses: of IPv4 addresses, or /64 prefixes of IPv6.
 */
#ifndef VRB_WIRE_ADMIT_H
#define VRB_WIRE_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

struct sock_filter;

enum {
	ADMIT_ALL = 256,
	ADMIT_BUCKETS = 1024,
	ADMIT_LEVELS = 4,
	ADMIT_PER_WORD = 16,
	ADMIT_WORDS = ADMIT_BUCKETS / ADMIT_PER_WORD,
	ADMIT_INSNS = 256,
};

/* Level 0 lets all requests in. */
struct admit_rule {
	uint32_t salt;		/* odd; chooses the hash, which a sender must not foresee */
	uint32_t keep[ADMIT_LEVELS];	/* of ADMIT_ALL; [0] is not read */
	uint32_t level[ADMIT_WORDS];	/* two bits for each bucket */
};

unsigned int admit_bucket(uint32_t salt, const struct net_addr *src);

static inline unsigned int admit_level(const struct admit_rule *r, unsigned int bucket)
{
	return r->level[bucket / ADMIT_PER_WORD] >> bucket % ADMIT_PER_WORD * 2 & 3;
}

/* From level 0. */
static inline void admit_set_level(struct admit_rule *r, unsigned int bucket, unsigned int level)
{
	r->level[bucket / ADMIT_PER_WORD] |= level << bucket % ADMIT_PER_WORD * 2;
}

/* prog: ADMIT_INSNS instructions. Returns the number written. */
size_t admit_build(const struct admit_rule *r, struct sock_filter *prog);

#endif
