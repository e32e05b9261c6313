/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From addresses to devices and paths, for rdma_bind_addr(), rdma_resolve_addr(),
 * rdma_resolve_route() and for requests. Calls verbs and netlink: never under the cma lock.
 */
#ifndef VRB_RDMACM_PATH_H
#define VRB_RDMACM_PATH_H

#include <stdint.h>

#include <infiniband/sa.h>

struct cma_id;
struct sockaddr;

/* Packet lifetime, 4.096 us * 2^n; the value that Linux uses for RoCE. */
enum { PATH_LIFE_TIME = 16 };

/* rdma_bind_addr().  Returns 0 or an errno value. */
int path_bind(struct cma_id *id, const struct sockaddr *addr);

/* Sets the result of rdma_resolve_addr() in "pub". */
void path_show(struct cma_id *id);

/* Sets device, addresses and path of a request's new id.  Returns 0 or an errno value. */
int path_of_request(struct cma_id *id);

#endif
