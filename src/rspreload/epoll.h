/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll over rsockets, sockets of the system, and deferred sockets. */
#ifndef VRB_RSPRELOAD_EPOLL_H
#define VRB_RSPRELOAD_EPOLL_H

struct entry;

/*
 * A deferred socket has become what it is: its epolls watch fd from now on, or the number if fd
 * is -1.  The number is still the TCP socket's.
 */
void epoll_settled(const struct entry *e, int number, int fd);

/* A number of a stream is the system's from now on, also in epolls. */
void epoll_replaced(struct entry *e, int number);

/* Frees what an epoll's entry has here. */
void epoll_end(struct entry *e);

#endif
