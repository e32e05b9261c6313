/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_CORE_FAULT_MADS_H
#define VRB_CORE_FAULT_MADS_H

#include <stdbool.h>

struct tap_mad;

/* A place of base/tap.h. */
bool vrb_fault_mad(const struct tap_mad *t);

/* No exchange is lost as a whole any more. */
void vrb_fault_mads_forget(void);
void vrb_fault_mads_after_fork(void);	/* the same in a forked child */

#endif
