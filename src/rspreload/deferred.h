/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Servers that fork for each connection, with RDMAV_FORK_SAFE=1 on both sides: a child cannot use
 * its parent's rsockets.  So streams are TCP until their first data.  Then the process that has
 * accepted one (the child) listens with an rsocket on the same port, sends four zero bytes by TCP,
 * and accepts the rsocket with which the other side answers; the TCP connection ends. This is the
 * stock library's protocol.
 *
 * A process that waits for the greeting of one connection also converts its others that are
 * greeted: until then the server keeps the port.
 */
#ifndef VRB_RSPRELOAD_DEFERRED_H
#define VRB_RSPRELOAD_DEFERRED_H

#include <stdbool.h>

/* True if sockets of this kind begin as TCP. */
bool deferred_wanted(int domain, int type);

/*
 * For calls that transfer data: returns the rsocket of the number, and converts a deferred one,
 * which may wait for the other side. -1: the number is a socket of the system, perhaps because the
 * other side does not use librspreload. Preserves errno.
 */
int deferred_fd(int number);

#endif
