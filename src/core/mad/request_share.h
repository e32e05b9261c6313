/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which connection requests are let in while more come than this process can look at: each bucket
 * of sources (wire/admit.h) gets the same share, so that a source with few requests is not held up
 * by others with many.  Pure.
 */
#ifndef VRB_CORE_MAD_REQUEST_SHARE_H
#define VRB_CORE_MAD_REQUEST_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/admit.h"

enum {
	SHARE_UNIT = 256,		/* one request per period */
	SHARE_LEAST = SHARE_UNIT / 32,
	SHARE_ALL = 1 << 30,
	SHARE_REHASH = 512,		/* periods; sources that meet in a bucket part then */
};

/* How this process keeps up with the packets that come. */
enum share_load {
	SHARE_ROOM,
	SHARE_ENOUGH,
	SHARE_OVERLOAD,
};

struct request_share {
	struct admit_rule rule;
	uint32_t share;			/* of one bucket; SHARE_ALL: no limit */
	uint32_t came[ADMIT_BUCKETS];	/* requests let in since the last decision */
	uint32_t average[ADMIT_BUCKETS];	/* SHARE_UNIT; what was not let in included */
	unsigned int periods;
};

void share_init(struct request_share *s, uint32_t salt);

static inline void share_came(struct request_share *s, const struct net_addr *src)
{
	s->came[admit_bucket(s->rule.salt, src)]++;
}

static inline bool share_is_limited(const struct request_share *s)
{
	return s->share != SHARE_ALL;
}

/* False for a source that has less than its share. */
static inline bool share_is_crowded(const struct request_share *s, const struct net_addr *src)
{
	return admit_level(&s->rule, admit_bucket(s->rule.salt, src)) != 0;
}

/* Once per period: makes the next rule.  salt: random, for a new hash from time to time. */
void share_decide(struct request_share *s, enum share_load load, uint32_t salt);

#endif
