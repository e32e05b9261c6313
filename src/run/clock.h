/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place that reads the clock. */
#ifndef VRB_RUN_CLOCK_H
#define VRB_RUN_CLOCK_H

#include <stdint.h>

/* Nanoseconds on CLOCK_MONOTONIC. Any thread, async-signal-safe. */
uint64_t clock_now(void);

#endif
