/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork() needs no preparation. The device accesses memory by virtual address in the process that
 * registered it, so copy on write changes nothing; and a child drops inherited objects
 * (core/process/process.c).  RDMAV_FORK_SAFE and IBV_FORK_SAFE therefore change nothing, and ranges
 * need not be kept out of children.
 */
#include <infiniband/verbs.h>

#include "verbs/exports.h"

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
