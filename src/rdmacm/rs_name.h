/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses in calls of rsockets. */
#ifndef VRB_RDMACM_RS_NAME_H
#define VRB_RDMACM_RS_NAME_H

#include <sys/socket.h>

/* Returns an address as accept() does: truncated to *len, which is set to its full length. */
void rs_copy_name(const struct sockaddr *from, struct sockaddr *to, socklen_t *len);

struct rsocket;

/*
 * The same for an address of a stream's id: an IPv6 socket has that of IPv4 mapped, as with TCP.
 * Without one, the unspecified address of the socket's family.
 */
void rs_copy_id_name(const struct rsocket *rs, const struct sockaddr *from, struct sockaddr *to,
		     socklen_t *len);

/* Checks an address from the program.  Returns 0, EINVAL or EAFNOSUPPORT. */
int rs_check_name(const struct sockaddr *addr, socklen_t len);

#endif
