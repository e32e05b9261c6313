/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, flags. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <rdma/rsocket.h>

#include "rspreload/call.h"
#include "rspreload/connect.h"
#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "util/sockopt.h"

enum { READABLE_MAX = 65536 };	/* bytes that FIONREAD counts */

PRELOAD_EXPORT int fcntl64(int number, int cmd, ...);

/*
 * Clients of a deferred listener send nothing before they were accepted, and with fast open do not
 * connect before they send: both would wait for ever.
 */
static bool waits_for_data(const struct entry *e, int level, int name)
{
	return e && e->kind == ENTRY_DEFERRED && level == IPPROTO_TCP &&
	       (name == TCP_DEFER_ACCEPT || name == TCP_FASTOPEN_CONNECT);
}

PRELOAD_EXPORT int setsockopt(int number, int level, int name, const void *value, socklen_t len)
{
	struct entry *e = entry_find(number);
	int fd = entry_fd(number);

	if (waits_for_data(e, level, name))
		return 0;
	if (fd < 0)
		return real()->setsockopt(number, level, name, value, len);
	if (!rsetsockopt(fd, level, name, value, len)) {
		if (e && level == SOL_SOCKET && name == SO_REUSEPORT)
			e->reuses_port = *(const int *)value;
		return 0;
	}
	/* Programs treat a refusal as a failure, so options without meaning for RDMA succeed. */
	if (errno == ENOTSUP && !sockopt_concerns_data(level, name))
		return 0;
	if (errno == ENOTSUP)
		errno = ENOPROTOOPT;
	return -1;
}

PRELOAD_EXPORT int getsockopt(int number, int level, int name, void *value, socklen_t *len)
{
	int fd = connect_fd(number);

	if (fd < 0)
		return real()->getsockopt(number, level, name, value, len);
	if (!rgetsockopt(fd, level, name, value, len))
		return 0;
	errno = errno == ENOTSUP ? ENOPROTOOPT : errno;
	return -1;
}

static int control(int number, int cmd, long arg)
{
	struct entry *e = entry_find(number);
	int made;

	if (!e)
		return real()->fcntl(number, cmd, arg);
	if (e->kind == ENTRY_DEFERRED && (cmd == F_GETFL || cmd == F_SETFL))
		return real()->fcntl(number, cmd, arg);
	switch (cmd) {
	case F_GETFL:
		return e->kind == ENTRY_SOCKET ? rfcntl(e->fd, cmd) : O_RDWR;
	case F_SETFL:
		return e->kind == ENTRY_SOCKET ? rfcntl(e->fd, cmd, arg) : 0;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		made = real()->fcntl(number, cmd, arg);
		return made < 0 || entry_is_parents() ? made : entry_share(e, made);
	default:
		return real()->fcntl(number, cmd, arg);
	}
}

PRELOAD_EXPORT int fcntl(int number, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	return control(number, cmd, arg);
}

PRELOAD_EXPORT int fcntl64(int number, int cmd, ...)
{
	va_list args;
	long arg;

	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	return control(number, cmd, arg);
}

static int set_nonblock(int fd, const int *on)
{
	int flags = rfcntl(fd, F_GETFL);

	return rfcntl(fd, F_SETFL, *on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

/* Stacks of threads may be small. */
static int count_readable(int fd, int *count)
{
	CALL;
	void *some = malloc(READABLE_MAX);
	ssize_t n;

	if (!some)
		return -1;
	n = rrecv(fd, some, READABLE_MAX, MSG_PEEK | MSG_DONTWAIT);
	free(some);
	if (n < 0 && errno != EAGAIN)
		return -1;
	*count = n < 0 ? 0 : (int)n;
	return 0;
}

/* About the system's interfaces, which any of its sockets answers. */
static bool is_about_interfaces(unsigned long request)
{
	return request >= SIOCGIFNAME && request < SIOCPROTOPRIVATE;
}

static int ask_system(int domain, unsigned long request, void *arg)
{
	int fd = real()->socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret, error;

	if (fd < 0)
		return -1;
	ret = real()->ioctl(fd, request, arg);
	error = errno;
	real()->close(fd);
	errno = error;
	return ret;
}

PRELOAD_EXPORT int ioctl(int number, IOCTL_REQUEST request, ...)
{
	const struct entry *e;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request == FIONREAD && deferred_in(number, MSG_DONTWAIT) == DEFERRED_LATER) {
		*(int *)arg = 0;
		return 0;
	}
	e = entry_find(number);
	if (!e || e->kind != ENTRY_SOCKET)
		return real()->ioctl(number, request, arg);
	if (request == FIONBIO)
		return set_nonblock(e->fd, arg);
	if (request == FIONREAD)
		return count_readable(e->fd, arg);
	if (is_about_interfaces(request))
		return ask_system(e->domain, request, arg);
	return real()->ioctl(number, request, arg);
}
