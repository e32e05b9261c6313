/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From addresses to devices and paths: what rdma_bind_addr(), rdma_resolve_addr() and
 * rdma_resolve_route() find out, and what a request brings along.  Verbs and netlink are called
 * here: never under the cma lock.
 */
#ifndef VRB_RDMACM_PATH_H
#define VRB_RDMACM_PATH_H

#include <stdint.h>

#include <infiniband/sa.h>

struct cma_id;
struct sockaddr;

/* 4.096 us * 2^n: how long a packet may live, as Linux says of RoCE. */
enum { PATH_LIFE_TIME = 16 };

/* Binds: rdma_bind_addr(). Returns 0 or an errno value. */
int path_bind(struct cma_id *id, const struct sockaddr *addr);

/* Shows the program the result of rdma_resolve_addr(). */
void path_show(struct cma_id *id);

/* Of a request: device, addresses and path of the new id.  Returns 0 or an errno value. */
int path_of_request(struct cma_id *id);

#endif
