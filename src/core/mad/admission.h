/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many requests of communication management are let in while more come than this process can
 * look at.  They share sockets with data and with the answers of connections that are being made,
 * which a flood would push out of the receive buffer: so the kernel drops requests first
 * (wire/admit.h), as many as it takes to keep room in the buffer.
 *
 * State under vrb.poll_lock.
 */
#ifndef VRB_CORE_MAD_ADMISSION_H
#define VRB_CORE_MAD_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "wire/admit.h"
#include "wire/udp.h"

/* What is decided on: the share of requests let in, and the fill of the buffer when last looked. */
struct admission {
	unsigned int keep;		/* of ADMIT_ALL */
	unsigned int fill;		/* of UDP_FULL */
};

/*
 * The next share.  flooded: most of what came since the last decision were requests.  A buffer more
 * than half full halves it, unless it empties already; one that has room raises it by a quarter.
 */
static inline void admission_decide(struct admission *a, unsigned int fill, bool flooded)
{
	if (flooded && fill > UDP_FULL / 2 && fill >= a->fill)
		a->keep = max(a->keep / 2, 1u);
	else if (fill < UDP_FULL * 5 / 16)
		a->keep = min(a->keep + a->keep / 4 + 1, (unsigned int)ADMIT_ALL);
	a->fill = fill;
}

/* A request came by the wire. */
void vrb_admission_request(uint64_t now);

/* With the process, in vrb_gsi_start() and vrb_gsi_stop(), and in a forked child. */
int vrb_admission_start(void);
void vrb_admission_stop(void);
void vrb_admission_forget(void);

#endif
