/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream that no rsocket answers becomes a socket of the system, which connects by TCP.  If it
 * connects in the background, whoever looks at it next finds that out.
 */
#ifndef VRB_RSPRELOAD_CONNECT_H
#define VRB_RSPRELOAD_CONNECT_H

#include "rspreload/entry.h"
#include "util/atomic.h"

int connect_settle(int number);

/* entry_fd(), for calls by which the program learns how its connect() has ended. */
static inline int connect_fd(int number)
{
	const struct entry *e = entry_find(number);

	if (!e)
		return -1;
	return load_acquire(&e->connects) ? connect_settle(number) : e->fd;
}

/* An epoll has reported this rsocket as RS_CONNECT_FAILED. */
void connect_failed(int fd);

#endif
