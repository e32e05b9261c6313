/* SPDX-License-Identifier: BSD-2-Clause */
/* The one place that reads the clock. */
#ifndef VRB_RUN_CLOCK_H
#define VRB_RUN_CLOCK_H

#include <stdint.h>

/* Nanoseconds on CLOCK_MONOTONIC. Any thread, async-signal-safe. */
uint64_t clock_now(void);

/*
 * What CLOCK_REALTIME said at a time of clock_now(), as far as it is known now. Later times are
 * later there, unless that clock is set.
 */
uint64_t clock_wall(uint64_t time);

/*
 * The distance between both clocks.  `known` is the one in use, 0 at first.  wall was read between
 * the two others.  Both clocks are slewed alike, so that only a step changes the distance; less is
 * an error of the measurement.
 */
uint64_t clock_distance(uint64_t known, uint64_t before, uint64_t wall, uint64_t after);

#endif
