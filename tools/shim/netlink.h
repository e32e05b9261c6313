/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NETLINK_RDMA sockets under the preloaded library: in their place the program gets a socket of a protocol that any user may have, and what it
 * sends to the kernel is answered here (nldev.h) by a message to that socket.  So all else that a program does with a socket works as it is.
 */
#ifndef VRB_SHIM_NETLINK_H
#define VRB_SHIM_NETLINK_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the descriptor of a socket in place of one of NETLINK_RDMA; -1: the kernel shall be asked. */
int shim_netlink_open(const char *tree, int type, int (*make)(int domain, int type, int protocol));

/* Was it made here, and is it still that?  Costs nothing in a program that has none. */
bool shim_netlink_is_ours(int fd);

void shim_netlink_answer(const char *tree, int fd, const void *data, size_t len);

#endif
