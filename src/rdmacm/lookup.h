/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addrinfo(): names that a thread of their own looks up.
 */
#ifndef VRB_RDMACM_LOOKUP_H
#define VRB_RDMACM_LOOKUP_H

struct cma_id;

/* Of an id that ends: nobody wants its result any more.  Under the cma lock. */
void lookup_cancel(struct cma_id *id);

#endif
