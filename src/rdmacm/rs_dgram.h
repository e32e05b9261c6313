/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: a UDP socket, over which peers exchange their queue pair numbers, and UD queue
 * pairs for everything after that.
 *
 * Under rs->lock.
 */
#ifndef VRB_RDMACM_RS_DGRAM_H
#define VRB_RDMACM_RS_DGRAM_H

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct rsocket;

int rs_dgram_create(struct rsocket *rs);
void rs_dgram_destroy(struct rsocket *rs);

/*
 * Frees the port now, though other threads may hold the rsocket: its descriptor keeps its number,
 * but is another socket.  No effect without a descriptor to spare.  Under rs->lock.
 */
void rs_dgram_free_port(struct rsocket *rs);
int rs_dgram_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t len);
int rs_dgram_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t len);
bool rs_dgram_progress(struct rsocket *rs);
bool rs_dgram_progress_all(struct rsocket *rs);
unsigned int rs_dgram_arm(struct rsocket *rs, struct pollfd *fds);
short rs_dgram_ready(struct rsocket *rs);

/* Returns the number of bytes, or -1 with errno. */
ssize_t rs_dgram_send(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
		      const struct sockaddr *to, socklen_t len);
ssize_t rs_dgram_recv(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
		      struct sockaddr *from, socklen_t *len, int *msg_flags);

#endif
