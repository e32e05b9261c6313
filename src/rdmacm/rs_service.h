/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service thread does what must not depend on the program's calls: it answers requests,
 * continues connecting, reads the UDP sockets of datagram rsockets and sends keepalives.  It is
 * started at first use, and sleeps while nothing happens.
 */
#ifndef VRB_RDMACM_RS_SERVICE_H
#define VRB_RDMACM_RS_SERVICE_H

#include <stdint.h>

struct rsocket;

/*
 * From now until rs_unwatch() the thread calls fn(rs), without locks, while fd is readable.  One
 * watch per rsocket.  Under the lock of an rsocket that is not closed: rclose() ends watches and
 * keepalives after it has held the lock.  Returns 0 or an errno value.
 */
int rs_watch(struct rsocket *rs, int fd, void (*fn)(struct rsocket *rs));

/*
 * The same from time `from` on (clock_now()), or from an earlier rs_watch_held(): for what the
 * program may still prepare for.
 */
int rs_watch_from(struct rsocket *rs, int fd, void (*fn)(struct rsocket *rs), uint64_t from);

/* Begins watches of rs_watch_from() now: that of rs, or all of the process (NULL). */
void rs_watch_held(struct rsocket *rs);

/* A call in progress may continue after it returns.  Does nothing without a watch. */
void rs_unwatch(struct rsocket *rs);

/*
 * The watch stays, and its function is not called meanwhile. Neither fails, nor does anything
 * without a watch; one that has not begun is not paused.
 */
void rs_watch_pause(struct rsocket *rs);
void rs_watch_resume(struct rsocket *rs);

/* Starts or stops keepalives after a change of rs->opt.  As rs_watch(). */
int rs_keepalive(struct rsocket *rs);
void rs_no_keepalive(struct rsocket *rs);

#endif
