/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a stream copies into the peer's ring: through the caches, or past them. A line of the ring is
 * in the peer's cache. If that is far away, taking each line from it is slow, and so is the peer's
 * read of a line that is in this cache: by way of memory both are several times as fast. If it is
 * near, the peer reads faster from the caches. So copies are tried both ways from time to time; the
 * rest go past the caches if the other way was slow, and this one faster.
 *
 * Pure; the caller serializes calls.
 */
#ifndef VRB_RSOCKET_RS_PACE_H
#define VRB_RSOCKET_RS_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"

enum {
	/*
	 * Bytes: shorter copies go through the caches, and are not counted.  A message one way,
	 * caches 0.05 us apart: 2 KiB past them 0.60 instead of 0.30 us, 4 KiB 0.8 instead of 1.0.
	 */
	RS_PACE_LEAST = 4096,
	/*
	 * ns per MiB of a slow copy.  Measured (bench/shm_ref stream): 440,000 where caches are
	 * 0.23 us apart, 50,000 to 100,000 at 0.05 us.
	 */
	RS_PACE_SLOW = 200000,
	RS_PACE_TRIES = 4,    /* copies each way; the fastest counts: one is not interrupted */
	RS_PACE_PERIOD = 512, /* copies; tries that take three times as long cost 2 % */
};

/* All zero at first. */
struct rs_pace {
	unsigned int n;    /* copies in this period */
	bool past;         /* the way of those that are no tries */
	uint64_t least[2]; /* ns per MiB, of this period's tries; [past] */
};

/* Is the next copy a try, whose time counts? */
static inline bool rs_pace_tries(const struct rs_pace *p)
{
	return p->n < 2 * RS_PACE_TRIES;
}

/* Does the next copy go past the caches? */
static inline bool rs_pace_past(const struct rs_pace *p)
{
	return rs_pace_tries(p) ? p->n >= RS_PACE_TRIES : p->past;
}

/* The next copy was made. ns: of a try. */
static inline void rs_pace_copied(struct rs_pace *p, uint32_t len, uint64_t ns)
{
	if (rs_pace_tries(p)) {
		uint64_t *least = &p->least[rs_pace_past(p)], pace = (ns << 20) / len;

		*least = p->n % RS_PACE_TRIES ? min(*least, pace) : pace;
		if (p->n + 1 == 2 * RS_PACE_TRIES)
			p->past = p->least[0] > RS_PACE_SLOW && p->least[1] < p->least[0];
	}
	p->n = (p->n + 1) % RS_PACE_PERIOD;
}

#endif
