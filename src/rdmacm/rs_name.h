/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses in calls of rsockets. */
#ifndef VRB_RDMACM_RS_NAME_H
#define VRB_RDMACM_RS_NAME_H

#include <sys/socket.h>

/* Returns an address as accept() does: truncated to *len, which is set to its full length. */
void rs_copy_name(const struct sockaddr *from, struct sockaddr *to, socklen_t *len);

/* Checks an address from the program.  Returns 0, EINVAL or EAFNOSUPPORT. */
int rs_check_name(const struct sockaddr *addr, socklen_t len);

#endif
