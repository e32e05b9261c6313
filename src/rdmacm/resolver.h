/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses that wait for a neighbour to answer: a thread that watches the kernel's neighbours
 * while any does, and ends afterwards.
 *
 * Lock: a mutex of its own, before the cma lock.
 */
#ifndef VRB_RDMACM_RESOLVER_H
#define VRB_RDMACM_RESOLVER_H

#include "rdmacm/route.h"

struct cma_id;

/*
 * ADDR_RESOLVED, or ADDR_ERROR after timeout_ms, comes for the id.  Must not hold the cma lock.
 * Returns 0 or an errno value.
 */
int resolver_wait(struct cma_id *id, const struct route *route, const struct sockaddr *dst,
		  int timeout_ms);

/* Nothing comes any more when it returns.  Must not hold the cma lock. */
void resolver_cancel(struct cma_id *id);

/* In a forked child. */
void resolver_forget(void);

#endif
