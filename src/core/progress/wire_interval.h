/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often a poller reads the sockets, which costs a system call:
 *
 *	a QP expects packets from the wire	at each poll, unless a lane has just had some
 *	no QP does				every TUNE_POLL_WIRE_US
 *	no QP does, and lanes are in use	the interval doubles with each empty read, up to
 *						TUNE_POLL_WIRE_MAX_US
 *
 * Belongs to the main RX queue, whose lock protects it. Pure code.
 */
#ifndef VRB_CORE_PROGRESS_WIRE_INTERVAL_H
#define VRB_CORE_PROGRESS_WIRE_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct wire_interval {
	uint64_t wait;		/* ns between reads; 0: none yet */
	uint64_t local_at;	/* when lanes last had packets */
};

/*
 * wire: a QP expects packets from it. local: this poll received packets from lanes. at: last read.
 */
static inline bool wire_interval_over(struct wire_interval *l, bool wire, bool local, uint64_t at,
				      uint64_t now)
{
	uint64_t wait = wire || !l->wait ? TUNE_POLL_WIRE_US * VRB_USEC : l->wait;

	if (local)
		l->local_at = now;
	if (local != wire)
		return wire;
	return time_since(at, now) >= wait;
}

/* found: the read returned packets. */
static inline void wire_interval_begin(struct wire_interval *l, bool wire, bool found, uint64_t now)
{
	const uint64_t least = TUNE_POLL_WIRE_US * VRB_USEC;
	const uint64_t most = TUNE_POLL_WIRE_MAX_US * VRB_USEC;
	bool local = l->local_at && time_since(l->local_at, now) < LIMIT_POLL_LOCAL;

	l->wait = local && !wire && !found ? min(max(l->wait, least) * 2, most) : least;
}

#endif
