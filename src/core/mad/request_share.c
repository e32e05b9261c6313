/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/request_share.h"

#include <string.h>

#include "util/compiler.h"

enum {
	WEIGHT = 32,		/* periods that an average covers, about */
	RISE = 32,
	SOME = ADMIT_ALL / 2,	/* let in of the levels 1 and 2 */
	FEW = ADMIT_ALL / 8,
};

static void rehash(struct request_share *s, uint32_t salt)
{
	memset(s->came, 0, sizeof(s->came));
	memset(s->average, 0, sizeof(s->average));
	s->rule = (struct admit_rule){ .salt = salt | 1,
					.keep = { ADMIT_ALL, SOME, FEW, FEW } };
	s->periods = 0;
}

void share_init(struct request_share *s, uint32_t salt)
{
	s->share = SHARE_ALL;
	rehash(s, salt);
}

/* Of a crowded bucket few requests are let in, so that its average has to cover more periods. */
static uint32_t average_of(const struct request_share *s, unsigned int b)
{
	unsigned int level = admit_level(&s->rule, b);
	uint64_t n = (uint64_t)s->came[b] * SHARE_UNIT, weight = WEIGHT;

	if (level)
		n = n * ADMIT_ALL / s->rule.keep[level];
	if (level == ADMIT_LEVELS - 1)
		weight = 4 * WEIGHT;
	n = min(n, (uint64_t)SHARE_ALL / 2);
	return (uint32_t)((s->average[b] * (weight - 1) + n) / weight);
}

/* Returns the largest average. */
static uint32_t count(struct request_share *s)
{
	uint32_t most = 0;

	for (unsigned int b = 0; b < ADMIT_BUCKETS; b++) {
		s->average[b] = average_of(s, b);
		s->came[b] = 0;
		most = max(most, s->average[b]);
	}
	return most;
}

/*
 * Overload halves the share, room raises it slowly: what comes in while this process waits for its
 * processor cannot be taken back.
 */
static void adjust(struct request_share *s, enum share_load load, uint32_t most)
{
	if (load == SHARE_OVERLOAD)
		s->share = max(min(s->share, most) / 2, (uint32_t)SHARE_LEAST);
	else if (load == SHARE_ROOM && share_is_limited(s))
		s->share += s->share / RISE + 1;
	if (load == SHARE_ROOM && s->share / 2 >= most && s->periods)
		s->share = SHARE_ALL;
}

static unsigned int level_of(uint32_t average, uint32_t share)
{
	uint64_t wanted = (uint64_t)share * ADMIT_ALL;

	return average <= share ? 0 : wanted >= (uint64_t)average * SOME ? 1
				    : wanted >= (uint64_t)average * FEW  ? 2 : 3;
}

static void make_rule(struct request_share *s)
{
	uint64_t crowd = 0, n = 0;

	memset(s->rule.level, 0, sizeof(s->rule.level));
	for (unsigned int b = 0; b < ADMIT_BUCKETS; b++) {
		unsigned int level = level_of(s->average[b], s->share);

		admit_set_level(&s->rule, b, level);
		if (level < ADMIT_LEVELS - 1)
			continue;
		crowd += s->average[b];
		n++;
	}
	s->rule.keep[ADMIT_LEVELS - 1] =
		n ? (uint32_t)max(s->share * n * ADMIT_ALL / crowd, (uint64_t)1) : FEW;
}

void share_decide(struct request_share *s, enum share_load load, uint32_t salt)
{
	uint32_t most = count(s);

	adjust(s, load, most);
	if (share_is_limited(s) && ++s->periods >= SHARE_REHASH)
		rehash(s, salt);
	else
		make_rule(s);
}
