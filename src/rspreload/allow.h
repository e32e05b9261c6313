/* SPDX-License-Identifier: BSD-2-Clause */
/* Which sockets become rsockets: /etc/rdma/rsocket/preload_config. */
#ifndef VRB_RSPRELOAD_ALLOW_H
#define VRB_RSPRELOAD_ALLOW_H

#include <stdbool.h>

/*
 * True if a line of the file for this program allows it, or if there is no file and rsockets
 * support this kind of socket.
 */
bool allow(int domain, int type, int protocol);

/* True if the line names this program and this kind of socket. Public for its test. */
bool allow_line(const char *line, const char *program, int domain, int type, int protocol);

#endif
