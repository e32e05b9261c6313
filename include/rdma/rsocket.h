/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: socket calls over RDMA, connected by rdma_cma.h.  verbena-rsocket(7)
 *
 * Source and binary compatible with the header of the same name in rdma-core 44, plus additions of
 * later releases.
 *
 * Each call behaves as the system call without the "r": arguments, results, errno.  These calls
 * accept descriptors of rsockets only; rpoll(), rselect() and the calls of epoll accept others too.
 *
 *   Kinds    AF_INET, AF_INET6; SOCK_STREAM and SOCK_DGRAM, with SOCK_NONBLOCK and SOCK_CLOEXEC.
 *   Threads  Any.  One may read and one write at the same time; closing must not race with them.
 *   Fork     A child must not use rsockets of its parent: EIO.
 *   Closed   Writing after the peer has closed fails with ECONNRESET, and raises no signal.
 *   Results  As the system call: -1 with errno, EBADF for a descriptor that is no rsocket.
 *   Units    Lengths are bytes; timeouts of rpoll() and repoll_wait() milliseconds, -1: none.
 *   Source   rsocket(7) and the manual page of the system call.
 */
#ifndef RSOCKET_H
#define RSOCKET_H

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Creates an rsocket; the caller closes it with rclose(). */
int rsocket(int domain, int type, int protocol);

/* As rdma_bind_addr(); datagram rsockets bind a UDP socket. */
int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen);

/* Connections are established in the background, up to backlog, and wait for raccept(). */
int rlisten(int socket, int backlog);
int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen);

/*
 * ECONNREFUSED, ETIMEDOUT, ENETUNREACH and others; non-blocking: EINPROGRESS, then SO_ERROR has the
 * result.
 */
int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen);

/* how: SHUT_RD, SHUT_WR, SHUT_RDWR; data already written still arrives. */
int rshutdown(int socket, int how);

/* Waits until written data has arrived at the peer, at most 10 s or as SO_LINGER says. */
int rclose(int socket);

/* Flags: MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL, MSG_NOSIGNAL. */
ssize_t rrecv(int socket, void *buf, size_t len, int flags);
ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen);
ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags);
ssize_t rsend(int socket, const void *buf, size_t len, int flags);
ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen);

/* ENOTSUP: control data. */
ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags);
ssize_t rread(int socket, void *buf, size_t count);
ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt);
ssize_t rwrite(int socket, const void *buf, size_t count);
ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt);

/* Accept rsockets and other descriptors. */
int rpoll(struct pollfd *fds, nfds_t nfds, int timeout);
int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
	    struct timeval *timeout);

/* Addresses as struct sockaddr_in or sockaddr_in6. */
int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen);
int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen);

/* Options of this level; EINVAL once connected. */
#define SOL_RDMA 0x10000
enum {
	RDMA_SQSIZE,    /* int: outstanding messages */
	RDMA_RQSIZE,    /* int: posted receives */
	RDMA_INLINE,    /* int: bytes of inline data */
	RDMA_IOMAPSIZE, /* int: mappings that the peer may create with riomap() */
	RDMA_ROUTE      /* struct ibv_path_data[]: the route to the peer */
};

/* SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6, SOL_RDMA; unknown ones: ENOTSUP. */
int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen);
int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen);

/* F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD, F_SETFD; others: ENOTSUP. */
int rfcntl(int socket, int cmd, ... /* arg */);

/*
 * Lets the peer write to buf with riowrite(), at `offset`; -1: at its address.  prot: PROT_WRITE,
 * or PROT_NONE for this side only.  ENOMEM: the peer's table is full.  Returns the offset, or -1.
 */
off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset);

/* Ends a mapping.  EINVAL: no such mapping.  The peer is not notified. */
int riounmap(int socket, void *buf, size_t len);

/*
 * Writes to the peer's mapping at `offset`, before any data that is written to the stream later.
 * Returns the number of bytes, which is smaller if the mapping ends; or -1.
 */
size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags);

/* epoll for rsockets and other descriptors.  Close with rclose(). */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
