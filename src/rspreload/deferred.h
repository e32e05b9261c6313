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
#include <sys/socket.h>

struct entry;

/* True if sockets of this kind begin as TCP. */
bool deferred_wanted(int domain, int type);

/*
 * Accepted sockets that no data has passed have a mark, by which a process that gets one, by exec()
 * or with a message, knows that the other side may be waiting for the greeting. If it writes first,
 * the socket stays TCP, which the other side understands: such servers often fork in the middle of
 * a connection.
 */
void deferred_accepted(struct entry *e, int number);
void deferred_take_from(struct msghdr *msg);

enum { DEFERRED_LATER = -2 };

/*
 * For calls that transfer data, with their flags: returns the rsocket of the number, and converts a
 * deferred one, which may wait for the other side as the call may. -1: the number is a socket of
 * the system, perhaps because the other side does not use librspreload. DEFERRED_LATER with errno:
 * the other side has not answered; EAGAIN, or EINTR. Otherwise preserves errno.
 */
int deferred_in(int number, int flags);
int deferred_out(int number, int flags);

/* The same for other calls; waits in any case. */
int deferred_fd(int number);

/* It has connected, and is not an rsocket before the other side greets it. */
bool deferred_is_connected(const struct entry *e);

/*
 * For polling. A connected one is writable until a call was refused, so that the program learns of
 * its connection; one whose calls would wait is not.
 */
bool deferred_is_writable(const struct entry *e, int number);

/*
 * It is readable: something was sent to it, or it has ended. False: it cannot become what it is
 * now, because another thread is at it, which may take long, or part of the greeting is missing.
 */
bool deferred_settle(int number);

#endif
