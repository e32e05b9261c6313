/* SPDX-License-Identifier: BSD-2-Clause */
/* See heavy_fence.h. */
#include "util/heavy_fence.h"

#include <linux/membarrier.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/compiler.h"

#define SETTLE_NS 10000000

static bool membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool heavy_fence_join(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

bool heavy_fence(void)
{
	return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

/* atomic: what the kernel said; once refused, it stays so */
static enum { UNKNOWN, JOINED, REFUSED } own;

bool heavy_fence_own_join(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#endif
	if (unlikely(load_relaxed(&own) == UNKNOWN))
		store_relaxed(&own, membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
					    ? JOINED
					    : REFUSED);
	return load_relaxed(&own) == JOINED;
}

/* A forked child may have to join again. */
void heavy_fence_own(void)
{
	full_fence();
	if (likely(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) ||
	    (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	     membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
		return;
	store_relaxed(&own, REFUSED);
	heavy_fence_settle();
}

void heavy_fence_settle(void)
{
	const struct timespec settle = { .tv_nsec = SETTLE_NS };

	full_fence();
	syscall(SYS_nanosleep, &settle, NULL);	/* no cancellation point */
}
