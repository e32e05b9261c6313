/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for descriptors of both kinds, rsockets and others.  There are no rsockets yet, so that
 * every descriptor is the system's. (The stock programs of rdmacm-utils wait for plain sockets by
 * rpoll().)
 */
#include <poll.h>
#include <sys/select.h>

#include "rdmacm/cma.h"

CMA_EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);
CMA_EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		       struct timeval *timeout);

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}
