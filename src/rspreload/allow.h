/* SPDX-License-Identifier: BSD-2-Clause */
/* Which sockets become rsockets: /etc/rdma/rsocket/preload_config. */
#ifndef VRB_RSPRELOAD_ALLOW_H
#define VRB_RSPRELOAD_ALLOW_H

#include <stdbool.h>

/* By the lines of the file for this program; without the file, all that can. */
bool allow(int domain, int type, int protocol);

/* One line: does it name this program and this kind of socket?  Exposed for its test. */
bool allow_line(const char *line, const char *program, int domain, int type, int protocol);

#endif
