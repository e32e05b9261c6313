/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of a reliable connection that arrived before one that is missing.  The engine knows no
 * order but the right one, and has asked for the missing one; when that comes, the others need not
 * be sent again.  What is not held is only sent again, so there are limits, and memory may be out.
 *
 * One per QP, made at its first gap; under the QP's lock.
 */
#ifndef VRB_CORE_HELD_H
#define VRB_CORE_HELD_H

#include <stdint.h>

#include "roce/pkt.h"

enum {
	HELD_PACKETS = 256,		/* of a QP: the largest window; a power of two */
	HELD_BYTES = 16 << 20,		/* of all QPs of the process */
};

struct held;

/* Keeps a copy of a packet that roce_early() names. */
void held_keep(struct held **h, const struct roce_pkt *pkt);

/*
 * The packet with this PSN, or NULL; it holds until the next call.  What lies before it, and is of no
 * use any more, is forgotten.
 */
const struct roce_pkt *held_take(struct held *h, uint32_t psn);

/* The packet nearest behind this PSN, or NULL; it stays. */
const struct roce_pkt *held_behind(const struct held *h, uint32_t psn);

/* Forgets all, and itself. */
void held_free(struct held **h);

#endif
