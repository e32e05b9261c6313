/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that transfer data. Compilers generate those with "_chk" for _FORTIFY_SOURCE. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rspreload/call.h"
#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "util/compiler.h"

PRELOAD_EXPORT ssize_t __read_chk(int number, void *buf, size_t n, size_t room);
PRELOAD_EXPORT ssize_t __recv_chk(int number, void *buf, size_t n, size_t room, int flags);
PRELOAD_EXPORT ssize_t __recvfrom_chk(int number, void *buf, size_t n, size_t room, int flags,
				      struct sockaddr *from, socklen_t *len);
PRELOAD_EXPORT ssize_t sendfile64(int number, int file, off_t *offset, size_t n);

static void check_room(size_t n, size_t room)
{
	if (n > room)
		abort();
}

/* ---- In ---- */

PRELOAD_EXPORT ssize_t recv(int number, void *buf, size_t n, int flags)
{
	int fd = deferred_in(number, flags);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->recv(number, buf, n, flags) : rrecv(fd, buf, n, flags);
}

PRELOAD_EXPORT ssize_t __recv_chk(int number, void *buf, size_t n, size_t room, int flags)
{
	check_room(n, room);
	return recv(number, buf, n, flags);
}

PRELOAD_EXPORT ssize_t recvfrom(int number, void *buf, size_t n, int flags, struct sockaddr *from,
				socklen_t *len)
{
	int fd = deferred_in(number, flags);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->recvfrom(number, buf, n, flags, from, len)
		      : rrecvfrom(fd, buf, n, flags, from, len);
}

PRELOAD_EXPORT ssize_t __recvfrom_chk(int number, void *buf, size_t n, size_t room, int flags,
				      struct sockaddr *from, socklen_t *len)
{
	check_room(n, room);
	return recvfrom(number, buf, n, flags, from, len);
}

PRELOAD_EXPORT ssize_t recvmsg(int number, struct msghdr *msg, int flags)
{
	int fd = deferred_in(number, flags);
	ssize_t n;

	if (fd == DEFERRED_LATER)
		return -1;
	if (fd >= 0)
		return rrecvmsg(fd, msg, flags);
	n = real()->recvmsg(number, msg, flags);
	if (n >= 0)
		deferred_take_from(msg);
	return n;
}

PRELOAD_EXPORT ssize_t read(int number, void *buf, size_t n)
{
	int fd = deferred_in(number, 0);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->read(number, buf, n) : rread(fd, buf, n);
}

PRELOAD_EXPORT ssize_t __read_chk(int number, void *buf, size_t n, size_t room)
{
	check_room(n, room);
	return read(number, buf, n);
}

PRELOAD_EXPORT ssize_t readv(int number, const struct iovec *iov, int n)
{
	int fd = deferred_in(number, 0);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->readv(number, iov, n) : rreadv(fd, iov, n);
}

/* ---- Out ---- */

/*
 * The result of a call with these flags.  As with TCP, a stream that the peer has closed, or whose
 * reset the program knows, is a broken pipe, and so is one that it has shut down itself.
 */
static ssize_t sent(int fd, ssize_t n, int flags)
{
	int error = 0, reset = n < 0 && errno == ECONNRESET;
	socklen_t len = sizeof(error);

	if (n >= 0 || (errno != EPIPE && !reset))
		return n;
	if (reset && (rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)) {
		errno = ECONNRESET;
		return -1;
	}
	if (!(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	errno = EPIPE;
	return -1;
}

PRELOAD_EXPORT ssize_t send(int number, const void *buf, size_t n, int flags)
{
	int fd = deferred_out(number, flags);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->send(number, buf, n, flags)
		      : sent(fd, rsend(fd, buf, n, flags), flags);
}

PRELOAD_EXPORT ssize_t sendto(int number, const void *buf, size_t n, int flags,
			      const struct sockaddr *to, socklen_t len)
{
	int fd = deferred_out(number, flags);
	const struct entry *e = entry_find(number);

	if (fd == DEFERRED_LATER)
		return -1;
	if (fd < 0)
		return real()->sendto(number, buf, n, flags, to, len);
	/* TCP ignores the address.  Another thread may have closed it. */
	return !e || e->type == SOCK_STREAM ? sent(fd, rsend(fd, buf, n, flags), flags)
					    : rsendto(fd, buf, n, flags, to, len);
}

PRELOAD_EXPORT ssize_t sendmsg(int number, const struct msghdr *msg, int flags)
{
	int fd = deferred_out(number, flags);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->sendmsg(number, msg, flags)
		      : sent(fd, rsendmsg(fd, msg, flags), flags);
}

PRELOAD_EXPORT ssize_t write(int number, const void *buf, size_t n)
{
	int fd = deferred_out(number, 0);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->write(number, buf, n) : sent(fd, rwrite(fd, buf, n), 0);
}

PRELOAD_EXPORT ssize_t writev(int number, const struct iovec *iov, int n)
{
	int fd = deferred_out(number, 0);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->writev(number, iov, n) : sent(fd, rwritev(fd, iov, n), 0);
}

/* ---- Several messages ---- */

PRELOAD_EXPORT int sendmmsg(int number, struct mmsghdr *msgs, unsigned int n, MMSG_FLAGS flags)
{
	int fd = deferred_out(number, flags);
	unsigned int i;

	if (fd == DEFERRED_LATER)
		return -1;
	if (fd < 0)
		return real()->sendmmsg(number, msgs, n, flags);
	for (i = 0; i < n; i++) {
		ssize_t sent = sendmsg(number, &msgs[i].msg_hdr, flags);

		if (sent < 0)
			return i ? (int)i : -1;
		msgs[i].msg_len = (unsigned int)sent;
	}
	return (int)n;
}

static bool is_over(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end->tv_sec ||
	       (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

static struct timespec end_of(const struct timespec *timeout)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += timeout->tv_sec;
	end.tv_nsec += timeout->tv_nsec;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return end;
}

static int receive_really(int number, struct mmsghdr *msgs, unsigned int n, int flags,
			  struct timespec *timeout)
{
	int got = real()->recvmmsg(number, msgs, n, flags, timeout);

	for (int i = 0; i < got; i++)
		deferred_take_from(&msgs[i].msg_hdr);
	return got;
}

/* As the system's, it looks at the time after each message only. */
PRELOAD_EXPORT int recvmmsg(int number, struct mmsghdr *msgs, unsigned int n, MMSG_FLAGS flags,
			    struct timespec *timeout)
{
	const struct timespec end = timeout ? end_of(timeout) : (struct timespec){ 0 };
	int fd = deferred_in(number, flags);
	unsigned int i;

	if (fd == DEFERRED_LATER)
		return -1;
	if (fd < 0)
		return receive_really(number, msgs, n, flags, timeout);
	for (i = 0; i < n && !(i && timeout && is_over(&end)); i++) {
		ssize_t got = recvmsg(number, &msgs[i].msg_hdr, flags & ~MSG_WAITFORONE);

		if (got < 0)
			return i ? (int)i : -1;
		msgs[i].msg_len = (unsigned int)got;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	return (int)i;
}

/* ---- From a file ---- */

enum { PIECE = 65536 };

/* Sends one piece; returns its bytes, 0 at the end of the file, or -1. */
static ssize_t send_piece(int fd, int file, off_t at, void *piece, size_t n)
{
	ssize_t got = pread(file, piece, min(n, (size_t)PIECE), at);

	return got > 0 ? rwrite(fd, piece, (size_t)got) : got;
}

/* Returns the result of the last piece; *done counts the bytes. Stacks of threads may be small. */
static ssize_t send_pieces(int fd, int file, off_t at, size_t n, size_t *done)
{
	CALL;
	void *piece = malloc(PIECE);
	ssize_t sent = piece ? 0 : -1;

	pthread_cleanup_push(free, piece);
	while (piece && *done < n) {
		sent = send_piece(fd, file, at + (off_t)*done, piece, n - *done);
		if (sent <= 0)
			break;
		*done += (size_t)sent;
	}
	pthread_cleanup_pop(1);
	return sent;
}

static ssize_t send_file(int fd, int file, off_t *offset, size_t n)
{
	off_t at = offset ? *offset : lseek(file, 0, SEEK_CUR);
	size_t done = 0;
	ssize_t sent;

	if (at < 0) {
		errno = offset ? EINVAL : errno;
		return -1;
	}
	sent = send_pieces(fd, file, at, n, &done);
	if (offset)
		*offset = at + (off_t)done;
	else
		lseek(file, at + (off_t)done, SEEK_SET);
	return done ? (ssize_t)done : sent;
}

PRELOAD_EXPORT ssize_t sendfile(int number, int file, off_t *offset, size_t n)
{
	int fd = deferred_out(number, 0);

	if (fd == DEFERRED_LATER)
		return -1;
	return fd < 0 ? real()->sendfile(number, file, offset, n)
		      : sent(fd, send_file(fd, file, offset, n), 0);
}

#ifndef sendfile64	/* musl has one width of off_t */
PRELOAD_EXPORT ssize_t sendfile64(int number, int file, off_t *offset, size_t n)
{
	return sendfile(number, file, offset, n);
}
#endif

/* Programs copy the bytes instead. */
PRELOAD_EXPORT ssize_t splice(int in, off_t *in_at, int out, off_t *out_at, size_t n,
			      unsigned int flags)
{
	int from = deferred_in(in, 0), to;

	if (from == DEFERRED_LATER)
		return -1;
	to = deferred_out(out, 0);
	if (to == DEFERRED_LATER)
		return -1;
	if (from < 0 && to < 0)
		return real()->splice(in, in_at, out, out_at, n, flags);
	errno = EINVAL;
	return -1;
}
