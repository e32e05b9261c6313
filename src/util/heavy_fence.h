/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fences of unequal cost, for two sides of which one comes often. A heavy fence, by membarrier(2),
 * makes each running thread of the processes that it is for execute a full fence between its call
 * and its return; a thread that does not run has executed one when it left its processor. So a
 * light_fence() (util/atomic.h), which stops the compiler only, and a heavy one order each other
 * as two full fences do. Two light fences do not, nor a light and a full one.
 *
 * Each costs a microsecond or more. All are thread-safe.
 */
#ifndef VRB_UTIL_HEAVY_FENCE_H
#define VRB_UTIL_HEAVY_FENCE_H

#include <stdbool.h>

/*
 * From now on the heavy fences of all processes count in this one's threads. False: the kernel has
 * none, or refuses them. A forked child joins by itself.
 */
bool heavy_fence_join(void);

/* The same between threads of this process only: others are not interrupted. */
bool heavy_fence_own_join(void);
bool heavy_fence_own(void);

/* For the threads of all that have joined. False: the kernel refuses, as after a new filter. */
bool heavy_fence(void);

/*
 * In place of a heavy fence that the kernel begins to refuse: waits until the light fences before
 * the call have taken effect, as no processor keeps a store to itself for milliseconds.
 */
void heavy_fence_settle(void);

#endif
