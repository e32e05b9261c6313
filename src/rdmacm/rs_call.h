/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librspreload knows of the calls of rsockets: it takes care of signals.  Exported under the
 * version node VERBENA_RDMACM_PRIVATE_2, which is renamed with every change.
 */
#ifndef VRB_RDMACM_RS_CALL_H
#define VRB_RDMACM_RS_CALL_H

#include <poll.h>
#include <stdbool.h>

/* Where this thread is. */
enum rs_where {
	RS_OUTSIDE,
	RS_INSIDE,  /* of a call, and may hold locks */
	RS_SLEEPING, /* holds none; what it has is released by cleanups */
};
enum rs_where vrb_rs_where(void);

/* fn() is called once, by this thread, when it leaves its call or is about to sleep. */
void vrb_rs_later(void (*fn)(void));

/*
 * Where rconnect() fails, in the call or later, librspreload has another way: a peer without RDMA
 * is given up early, and repoll_wait() reports such a stream as RS_CONNECT_FAILED, data.fd the
 * rsocket, until it is told otherwise (has false) or the rsocket is gone.
 */
enum { RS_CONNECT_FAILED = POLLNVAL };	/* events; epoll itself never has this one */
void vrb_rs_other_way(int fd, bool has);

enum rs_attempt {
	RS_ATTEMPT_LASTS,
	RS_ATTEMPT_FAILED,
	RS_ATTEMPT_OVER,  /* else */
};
enum rs_attempt vrb_rs_attempt(int fd);

/* rclose(), as TCP ends: if the program has not read all, the peer's stream is reset. */
void vrb_rs_close_as_tcp(int fd);

/* In all epolls, a descriptor of the system takes the rsocket's place, with the same event. */
void vrb_rs_epoll_replace(int fd, int by);

/* As rs.h has them, for what librspreload does on its own. */
void vrb_rs_call_begin(void);
void vrb_rs_call_end(void);
bool vrb_rs_wait_begin(void);
void vrb_rs_wait_end(void);

#endif
