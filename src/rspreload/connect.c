/* SPDX-License-Identifier: BSD-2-Clause */
/* connect(), by an rsocket or by TCP. */
#include "rspreload/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include <rdma/rsocket.h>

#include "rdmacm/rs_call.h"
#include "rspreload/call.h"
#include "rspreload/epoll.h"
#include "rspreload/kept.h"
#include "rspreload/real.h"
#include "rspreload/tune.h"
#include "util/compiler.h"

/* One thread at a time finds out how an attempt has ended; outside of epoll.c's gate. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void after_fork(void)
{
	pthread_mutex_init(&gate, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

/* ---- By TCP ---- */

/*
 * A socket of the system that takes its place.  That of a datagram rsocket exists, as it carries
 * the first datagrams.
 */
static int make_like(const struct entry *e)
{
	bool stream = e->type == SOCK_STREAM;
	int made = stream ? real()->socket(e->domain, e->type | SOCK_CLOEXEC, 0)
			  : real()->fcntl(e->fd, F_DUPFD_CLOEXEC, 0);

	if (made < 0)
		return -1;
	real()->fcntl(made, F_SETFL, rfcntl(e->fd, F_GETFL));
	if (stream)
		kept_by_system(e->fd, made);
	if (!stream || !e->bound_len ||
	    !real()->bind(made, (const struct sockaddr *)&e->bound, e->bound_len))
		return made;
	real()->close(made);
	return -1;
}

/* Turns the numbers of e, which the caller holds, into `made`, a socket of the system. */
static void become_system(struct entry *e, int made)
{
	CALL;
	int number;

	for (number = 0; number < entry_end(); number++)
		if (entry_find(number) == e) {
			entry_replace(e, number, made);
			epoll_replaced(e, number);
		}
}

static void close_made(void *made)
{
	real()->close(*(int *)made);
}

/* The attempt has ended this rsocket: the next one is another's, as TCP's may be repeated. */
static void renew(struct entry *e)
{
	CALL;
	int fd = e->type == SOCK_STREAM ? rsocket(e->domain, e->type, 0) : -1, old = e->fd;

	if (fd < 0)
		return;
	tune(fd);
	kept_by_another(old, fd);
	rfcntl(fd, F_SETFL, rfcntl(old, F_GETFL));
	e->fd = fd;
	rclose(old);
	if (e->bound_len)
		rbind(fd, (const struct sockaddr *)&e->bound, e->bound_len);
}

static int connect_really(struct entry *e, const struct sockaddr *addr, socklen_t len)
{
	int made = make_like(e), ret, error;

	if (made < 0)
		return -1;
	pthread_cleanup_push(close_made, &made);
	ret = real()->connect(made, addr, len);
	error = errno;
	if (!ret || error == EINPROGRESS || error == EINTR)
		become_system(e, made);
	else
		renew(e);
	pthread_cleanup_pop(1);
	errno = error;
	return ret;
}

/* ---- In the background ---- */

static bool begin_by_tcp(struct entry *e)
{
	int made = make_like(e), flags;
	bool begun;

	if (made < 0)
		return false;
	/* A call that waited may have been interrupted. */
	flags = real()->fcntl(made, F_GETFL);
	real()->fcntl(made, F_SETFL, flags | O_NONBLOCK);
	begun = !real()->connect(made, (const struct sockaddr *)&e->peer, e->peer_len) ||
		errno == EINPROGRESS;
	real()->fcntl(made, F_SETFL, flags);
	if (begun)
		become_system(e, made);
	real()->close(made);
	return begun;
}

/* The program learns of no failure but TCP's, unless that does not begin. */
static void settle(struct entry *e)
{
	enum rs_attempt is = vrb_rs_attempt(e->fd);

	if (is == RS_ATTEMPT_LASTS || (is == RS_ATTEMPT_FAILED && begin_by_tcp(e)))
		return;
	store_release(&e->connects, false);
	vrb_rs_other_way(e->fd, false);
}

int connect_settle(int number)
{
	CALL;
	struct entry *e = entry_hold(number);

	pthread_mutex_lock(&gate);
	/* Another thread may have done it. */
	if (e && entry_find(number) == e && e->connects)
		settle(e);
	pthread_mutex_unlock(&gate);
	if (e)
		entry_release(entry_put(e));
	return entry_fd(number);
}

void connect_failed(int fd)
{
	int number;

	for (number = 0; number < entry_end(); number++) {
		const struct entry *e = entry_find(number);

		if (e && e->fd == fd) {
			connect_fd(number);
			return;
		}
	}
	vrb_rs_other_way(fd, false);
}

/* ---- The call ---- */

/* There is no RDMA path to the peer; TCP may work. */
static bool try_real(int error)
{
	return error != EINPROGRESS && error != EALREADY && error != EISCONN && error != EINTR &&
	       error != EBADF && error != EFAULT && error != EIO;
}

static int connect_deferred(struct entry *e, int number, const struct sockaddr *addr, socklen_t len)
{
	int ret = real()->connect(number, addr, len);

	if (!ret || errno == EINPROGRESS)
		e->side = SIDE_CONNECTED;
	return ret;
}

static void go_on(struct entry *e, const struct sockaddr *addr, socklen_t len)
{
	if (e->type != SOCK_STREAM || e->connects)
		return;
	e->peer_len = min(len, (socklen_t)sizeof(e->peer));
	memcpy(&e->peer, addr, e->peer_len);
	store_release(&e->connects, true);
}

/* Of rconnect(), with errno. */
static int failed(struct entry *e, const struct sockaddr *addr, socklen_t len)
{
	const int error = errno;

	if (error == EINPROGRESS || error == EINTR) {
		go_on(e, addr, len);
	} else if (error != EALREADY) {
		store_release(&e->connects, false);
		vrb_rs_other_way(e->fd, false);
	}
	errno = error;
	return try_real(error) ? connect_really(e, addr, len) : -1;
}

/* If the number is still e's. */
static struct entry *hold(int number, const struct entry *e)
{
	CALL;
	struct entry *is = entry_hold(number);

	if (!is || is == e)
		return is;
	entry_release(entry_put(is));
	return NULL;
}

static void let_go(void *e)
{
	entry_release(entry_put(e));
}

PRELOAD_EXPORT int connect(int number, const struct sockaddr *addr, socklen_t len)
{
	int fd = connect_fd(number), ret;
	struct entry *e = entry_find(number);

	if (e && e->kind == ENTRY_DEFERRED)
		return connect_deferred(e, number, addr, len);
	if (fd < 0 || !e)
		return real()->connect(number, addr, len);
	if (e->type == SOCK_STREAM)
		vrb_rs_other_way(fd, true);
	ret = rconnect(fd, addr, len);
	if (!ret)
		return 0;
	/* Another thread may have closed it. */
	e = hold(number, e);
	if (!e) {
		errno = EBADF;
		return -1;
	}
	pthread_cleanup_push(let_go, e);
	ret = failed(e, addr, len);
	pthread_cleanup_pop(1);
	return ret;
}
