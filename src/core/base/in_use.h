/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail because other objects use theirs. */
#ifndef VRB_CORE_BASE_IN_USE_H
#define VRB_CORE_BASE_IN_USE_H

#include <errno.h>
#include <stdint.h>

#include "run/log.h"

/* Logs which objects, and how many, still use that of `call`. Returns EBUSY. */
static inline int vrb_in_use(const char *call, uint32_t n, const char *users)
{
	log_info(LOG_CORE, "%s: still used by %u (%s)", call, n, users);
	return EBUSY;
}

#endif
