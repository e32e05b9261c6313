/* SPDX-License-Identifier: BSD-2-Clause */
/* See heavy_fence.h. */
#include "util/heavy_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/cancel.h"
#include "util/sleep.h"

#define SETTLE_NS 10000000

static bool membarrier(int command)
{
	return SYS_CALL(SYS_membarrier, command, 0, 0) == 0;
}

bool heavy_fence_join(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

bool heavy_fence_own_join(void)
{
	return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool heavy_fence_own(void)
{
	return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool heavy_fence(void)
{
	return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void heavy_fence_settle(void)
{
	full_fence();
	sleep_whole(SETTLE_NS);
}
