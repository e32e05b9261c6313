/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_resolve_addrinfo(): name resolution in a thread. */
#ifndef VRB_RDMACM_LOOKUP_H
#define VRB_RDMACM_LOOKUP_H

struct cma_id;

/* The id is destroyed; its lookup's result is dropped.  Under the cma lock. */
void lookup_cancel(struct cma_id *id);

#endif
