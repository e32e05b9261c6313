/* SPDX-License-Identifier: BSD-2-Clause */
/* The only place that reads the time; thread_use.h reads CPU time. */
#ifndef VRB_RUN_CLOCK_H
#define VRB_RUN_CLOCK_H

#include <stdint.h>

/* Nanoseconds on CLOCK_MONOTONIC. Any thread, async-signal-safe. */
uint64_t clock_now(void);

/* As clock_now(), but up to a tick of the kernel (1 to 10 ms) behind, and cheaper. */
uint64_t clock_coarse(void);

/* Converts a time of clock_now() to CLOCK_REALTIME. Monotonic unless CLOCK_REALTIME is set. */
uint64_t clock_wall(uint64_t time);

/*
 * The offset between both clocks. `known` is the current one, initially 0. wall was read between
 * the two others. Both clocks are slewed alike, so only a step changes the offset; a smaller change
 * is an error of measurement.
 */
uint64_t clock_distance(uint64_t known, uint64_t before, uint64_t wall, uint64_t after);

#endif
