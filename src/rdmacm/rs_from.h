/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses as the headers of datagrams have them (rsocket/rs_header.h), and sockets'. */
#ifndef VRB_RDMACM_RS_FROM_H
#define VRB_RDMACM_RS_FROM_H

#include <stdbool.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "rsocket/rs_header.h"

/* An IPv4 address that an IPv6 socket has is IPv4. */
void rs_from_of(const struct sockaddr_storage *a, struct rs_from *f);

/* Converts to the family of the socket. */
void rs_from_to_addr(const struct rs_from *f, int domain, struct sockaddr_storage *a);

bool rs_from_same_ip(const struct rs_from *a, const struct rs_from *b);

/* The port, too. */
bool rs_from_same(const struct rs_from *a, const struct rs_from *b);

void rs_from_gid(const struct rs_from *f, union ibv_gid *gid);

#endif
