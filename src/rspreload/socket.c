/* SPDX-License-Identifier: BSD-2-Clause */
/* From socket() to close(). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rspreload/allow.h"
#include "rspreload/call.h"
#include "rspreload/connect.h"
#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/epoll.h"
#include "rspreload/real.h"
#include "rspreload/tune.h"
#include "util/atomic.h"
#include "util/compiler.h"

/* Not in every system's headers. */
PRELOAD_EXPORT int accept4(int number, struct sockaddr *addr, socklen_t *len, int flags);
PRELOAD_EXPORT int dup3(int old, int number, int flags);
PRELOAD_EXPORT int close_range(unsigned int first, unsigned int last, int flags);
PRELOAD_EXPORT void closefrom(int first);
PRELOAD_EXPORT long syscall(long number, ...);

/* ---- Making ---- */

/* A socket of the system, which becomes an rsocket later. */
static int make_deferred(int domain, int type, int protocol)
{
	int number = real()->socket(domain, type, protocol);

	if (number >= 0 && !entry_adopt(number, domain)) {
		real()->close(number);
		return -1;
	}
	return number;
}

PRELOAD_EXPORT int socket(int domain, int type, int protocol)
{
	CALL;
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC), kind = type & ~flags, fd, number;
	struct entry *e;

	if (real_is_ours(__builtin_return_address(0)) || !allow(domain, kind, protocol))
		return real()->socket(domain, type, protocol);
	if (deferred_wanted(domain, kind))
		return make_deferred(domain, type, protocol);
	fd = rsocket(domain, type, protocol);
	if (fd < 0)
		return real()->socket(domain, type, protocol);
	tune(fd);
	number = entry_make(ENTRY_SOCKET, fd, flags & SOCK_CLOEXEC);
	if (number < 0) {
		rclose(fd);
		return -1;
	}
	e = entry_find(number);
	e->domain = domain;
	e->type = kind;
	return number;
}

/* Of the system, at any port. */
static bool is_local(const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_in6 any_port = { 0 }; /* the port is where it is in struct sockaddr_in */
	int fd = real()->socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is;

	if (fd < 0)
		return false;
	len = min(len, (socklen_t)sizeof(any_port));
	memcpy(&any_port, addr, len);
	any_port.sin6_port = 0;
	is = !real()->bind(fd, (const struct sockaddr *)&any_port, len);
	real()->close(fd);
	return is;
}

/*
 * rdma_cm says of a port in use that it is in use, or, if one of the addresses is "any" or of
 * 127/8, that the address is not available.  Programs try another port in the first case only.
 */
static int bind_error(const struct sockaddr *addr, socklen_t len)
{
	const int error = errno;

	errno = error == EADDRNOTAVAIL && is_local(addr, len) ? EADDRINUSE : error;
	return -1;
}

static bool has_name(int fd, const struct sockaddr *addr)
{
	struct sockaddr_in6 is = { 0 }; /* the port is where it is in struct sockaddr_in */
	const struct sockaddr_in *four = (const void *)addr, *is_four = (const void *)&is;
	const struct sockaddr_in6 *six = (const void *)addr;
	socklen_t len = sizeof(is);

	if (rgetsockname(fd, (struct sockaddr *)&is, &len) || is.sin6_family != addr->sa_family ||
	    is.sin6_port != six->sin6_port)
		return false;
	return addr->sa_family == AF_INET
		       ? is_four->sin_addr.s_addr == four->sin_addr.s_addr
		       : IN6_ARE_ADDR_EQUAL(&is.sin6_addr, &six->sin6_addr) &&
				 is.sin6_scope_id == six->sin6_scope_id;
}

/*
 * With SO_REUSEPORT threads of a program share a port, each by a socket of its own.  To rdma_cm a
 * port is one id's, so the number becomes another one of the rsocket that has it.  False: none has.
 */
static bool share_port(const struct entry *e, int number, const struct sockaddr *addr)
{
	CALL;
	struct entry *other;
	int i;

	for (i = 0; e->reuses_port && i < entry_end(); i++) {
		other = entry_hold(i);
		if (other && other != e && other->kind == ENTRY_SOCKET && other->reuses_port &&
		    other->type == e->type && has_name(other->fd, addr)) {
			entry_release(entry_drop(number));
			entry_share(other, number);
			entry_release(entry_put(other));
			return true;
		}
		if (other)
			entry_release(entry_put(other));
	}
	return false;
}

PRELOAD_EXPORT int bind(int number, const struct sockaddr *addr, socklen_t len)
{
	struct entry *e = entry_find(number);
	int fd = entry_fd(number);

	if (fd < 0)
		return real()->bind(number, addr, len);
	if (rbind(fd, addr, len))
		return bind_error(addr, len) && share_port(e, number, addr) ? 0 : -1;
	e->bound_len = min(len, (socklen_t)sizeof(e->bound));
	memcpy(&e->bound, addr, e->bound_len);
	return 0;
}

PRELOAD_EXPORT int listen(int number, int backlog)
{
	const struct entry *e = entry_find(number);
	int fd = entry_fd(number);
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (fd < 0)
		return real()->listen(number, backlog);
	if (!rlisten(fd, backlog))
		return 0;
	if (e && e->reuses_port && !rgetsockname(fd, (struct sockaddr *)&addr, &len) &&
	    share_port(e, number, (struct sockaddr *)&addr))
		return listen(number, backlog);
	errno = errno == EADDRNOTAVAIL ? EADDRINUSE : errno;
	return -1;
}

/* As the system's, it takes a number first: without one, the connection waits for the next call. */
static int accept_on(const struct entry *e, struct sockaddr *addr, socklen_t *len, int flags)
{
	CALL;
	/* Another thread may close it concurrently. */
	int domain = e->domain, type = e->type, listener = e->fd, fd;
	struct entry_place made;

	if (!entry_reserve(&made, flags & SOCK_CLOEXEC))
		return -1;
	pthread_cleanup_push(entry_unreserve, &made);
	fd = raccept(listener, addr, len);
	pthread_cleanup_pop(fd < 0);
	if (fd < 0)
		return -1;
	/* accept() does not inherit flags, raccept() does. */
	rfcntl(fd, F_SETFL, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0);
	entry_fill(&made, ENTRY_SOCKET, fd);
	made.e->domain = domain;
	made.e->type = type;
	return made.number;
}

static int accept_deferred(const struct entry *e, int number, struct sockaddr *addr, socklen_t *len,
			   int flags)
{
	int got = real()->accept4(number, addr, len, flags);
	struct entry *made = got >= 0 ? entry_adopt(got, e->domain) : NULL;

	if (made)
		deferred_accepted(made, got);
	return got;
}

PRELOAD_EXPORT int accept4(int number, struct sockaddr *addr, socklen_t *len, int flags)
{
	const struct entry *e = entry_find(number);

	if (e && e->kind == ENTRY_DEFERRED)
		return accept_deferred(e, number, addr, len, flags);
	if (!e)
		return real()->accept4(number, addr, len, flags);
	if (!(flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)))
		return accept_on(e, addr, len, flags);
	errno = EINVAL;
	return -1;
}

PRELOAD_EXPORT int accept(int number, struct sockaddr *addr, socklen_t *len)
{
	return accept4(number, addr, len, 0);
}

/* ---- Ending ---- */

void entry_release(struct entry *e)
{
	CALL;

	if (!e)
		return;
	if (e->kind != ENTRY_DEFERRED)
		vrb_rs_close_as_tcp(e->fd);
	epoll_end(e);
	free(e);
}

PRELOAD_EXPORT int close(int number)
{
	struct entry *e;
	int ret, old;

	/*
	 * A library's descriptor is no rsocket.  If the program has closed one behind our back, its
	 * number may be that of a library, which must not call itself while it holds locks.
	 */
	if (!entry_find(number) || real_is_ours(__builtin_return_address(0)) || entry_is_parents())
		return real()->close(number);
	/* A cancelled thread must not end with one of both closed. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	e = entry_drop(number);
	ret = real()->close(number);
	pthread_setcancelstate(old, NULL);
	entry_release(e);
	return ret;
}

/* Their numbers may soon be those of other files. */
static void release_range(unsigned int first, unsigned int last)
{
	unsigned int number;

	if (!entry_any() || entry_is_parents())
		return;
	for (number = first; number <= last && number < ENTRY_NUMBERS; number++)
		entry_release(entry_drop((int)number));
}

PRELOAD_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	if (!real()->close_range) {
		errno = ENOSYS;
		return -1;
	}
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		release_range(first, last);
	return real()->close_range(first, last, flags);
}

PRELOAD_EXPORT void closefrom(int first)
{
	release_range((unsigned int)max(first, 0), UINT_MAX);
	real()->closefrom(first);
}

/* libuv (Node.js, BIND) closes by system call, and before 1.45 sends and receives datagrams so. */
PRELOAD_EXPORT long syscall(long number, ...)
{
	/* Not by real(): what finds calls for it may make system calls. */
	static long (*next)(long, ...);
	long (*call)(long, ...) = load_relaxed(&next);
	long arg[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	switch (number) {
	case SYS_close:
		return close((int)arg[0]);
	case SYS_sendmmsg:
		return sendmmsg((int)arg[0], (struct mmsghdr *)arg[1], (unsigned int)arg[2],
				(int)arg[3]);
	case SYS_recvmmsg:
		return recvmmsg((int)arg[0], (struct mmsghdr *)arg[1], (unsigned int)arg[2],
				(int)arg[3], (struct timespec *)arg[4]);
	default:
		break;
	}
	if (!call) {
		call = (__typeof__(call))dlsym(RTLD_NEXT, "syscall");
		store_relaxed(&next, call);
	}
	return call(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

PRELOAD_EXPORT int shutdown(int number, int how)
{
	int fd = deferred_fd(number);

	return fd < 0 ? real()->shutdown(number, how) : rshutdown(fd, how);
}

/* ---- More numbers for one ---- */

static int shared(struct entry *e, int number)
{
	return e && number >= 0 && !entry_is_parents() ? entry_share(e, number) : number;
}

PRELOAD_EXPORT int dup(int old)
{
	return shared(entry_find(old), real()->dup(old));
}

/* The number's previous meaning is gone. */
static int replaced(int old, int number, int got)
{
	if (got < 0 || (entry_find(number) && entry_is_parents()))
		return got;
	entry_release(entry_drop(number));
	return shared(entry_find(old), got);
}

PRELOAD_EXPORT int dup2(int old, int number)
{
	if (old == number)
		return real()->dup2(old, number);
	return replaced(old, number, real()->dup2(old, number));
}

PRELOAD_EXPORT int dup3(int old, int number, int flags)
{
	return replaced(old, number, real()->dup3(old, number, flags));
}

/* ---- Names ---- */

PRELOAD_EXPORT int getpeername(int number, struct sockaddr *addr, socklen_t *len)
{
	int fd = connect_fd(number);

	return fd < 0 ? real()->getpeername(number, addr, len) : rgetpeername(fd, addr, len);
}

PRELOAD_EXPORT int getsockname(int number, struct sockaddr *addr, socklen_t *len)
{
	int fd = entry_fd(number);

	return fd < 0 ? real()->getsockname(number, addr, len) : rgetsockname(fd, addr, len);
}
