/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids that wait for address resolution: a thread watches the kernel's neighbour table while there
 * are any.
 *
 * Lock: a mutex of its own, taken before the cma lock.
 */
#ifndef VRB_RDMACM_RESOLVER_H
#define VRB_RDMACM_RESOLVER_H

#include "rdmacm/route.h"

struct cma_id;

/*
 * Raises ADDR_RESOLVED for the id, or ADDR_ERROR after timeout_ms.  Must not hold the cma lock.
 * Returns 0 or an errno value.
 */
int resolver_wait(struct cma_id *id, const struct route *route, const struct sockaddr *dst,
		  int timeout_ms);

/* No event is raised after it returns.  Must not hold the cma lock. */
void resolver_cancel(struct cma_id *id);

/* In a forked child: drops the parent's thread and ids. */
void resolver_forget(void);

#endif
