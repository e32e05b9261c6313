/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NETLINK_RDMA sockets under the preloaded library: the program gets a socket of a protocol open to
 * all users instead.  Requests to the kernel are answered here (nldev.h) by messages to that
 * socket. All other calls on the socket work unchanged.
 */
#ifndef VRB_SHIM_NETLINK_H
#define VRB_SHIM_NETLINK_H

#include <stdbool.h>
#include <stddef.h>

/* Opens a socket in place of a NETLINK_RDMA one.  Returns its descriptor; -1: use the kernel's. */
int shim_netlink_open(const char *tree, int type, int (*make)(int domain, int type, int protocol));

/* True if the descriptor is still a socket made here.  Cheap if the program has none. */
bool shim_netlink_is_ours(int fd);

void shim_netlink_answer(const char *tree, int fd, const void *data, size_t len);

#endif
