/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How slow this machine's system calls are. How long to poll before a sleep was measured where a
 * call takes 0.1 us and a wake-up 5 to 60 us (util/tuning.h). In an emulator or a nested guest both
 * take ten times as long, and polls that end too early are all in vain.
 */
#ifndef VRB_RUN_SLOWDOWN_H
#define VRB_RUN_SLOWDOWN_H

#include <stdint.h>

enum { SLOWDOWN_MAX = 8 };

/* The factor for a call that takes `ns`: 1 to SLOWDOWN_MAX. */
unsigned int slowdown_of(uint64_t ns);

/*
 * This machine's factor. The first call measures, for some microseconds; all return the same. Any
 * thread.
 */
unsigned int slowdown(void);

#endif
