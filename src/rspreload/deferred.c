/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of TCP sockets to rsockets; deferred.h has the protocol. */
#include "rspreload/deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rspreload/entry.h"
#include "rspreload/kept.h"
#include "rspreload/real.h"
#include "rspreload/tune.h"

enum {
	RETRY_MS = 2,    /* while another child has the port */
	GRACE_MS = 5000, /* for a requested connection whose TCP has ended */
	GREETING = 4, /* zero bytes */
};

bool deferred_wanted(int domain, int type)
{
	const char *text = getenv("RDMAV_FORK_SAFE");

	return text && atoi(text) && type == SOCK_STREAM &&
	       (domain == AF_INET || domain == AF_INET6);
}

/* ---- Both sides ---- */

/* In this thread; librdmacm's own calls come by here, too. */
static __thread bool settling;
/* Can the program cancel it? While it converts, only in what waits for the other side. */
static __thread int cancellable;

static int await(int (*wait)(struct pollfd *, nfds_t, int), struct pollfd *p, nfds_t n, int ms)
{
	int ready, old;

	pthread_setcancelstate(cancellable, &old);
	ready = wait(p, n, ms);
	pthread_setcancelstate(old, NULL);
	return ready;
}

/* The number stands for fd from now on.  In other processes it stays TCP. */
static void become(struct entry *e, int number, int fd)
{
	int made = entry_placeholder(true);

	kept_by_rsocket(number, fd);
	rfcntl(fd, F_SETFL, real()->fcntl(number, F_GETFL) & O_NONBLOCK);
	e->fd = fd;
	e->kind = ENTRY_SOCKET;
	if (made >= 0)
		entry_replace(e, number, made);
}

static int new_rsocket(const struct sockaddr_storage *addr)
{
	int fd = rsocket(addr->ss_family, SOCK_STREAM, 0);

	if (fd >= 0)
		tune(fd);
	return fd;
}

/* IPv4 at a socket of IPv6 is IPv4 to rdma_cm. */
static socklen_t unmap(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four = { .sin_family = AF_INET };

	if (addr->ss_family != AF_INET6)
		return sizeof(four);
	memcpy(&six, addr, sizeof(six));
	if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		return sizeof(six);
	four.sin_port = six.sin6_port;
	memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, sizeof(four.sin_addr));
	memcpy(addr, &four, sizeof(four));
	return sizeof(four);
}

/* The other side has closed, or never was there.  Waits so long. */
static bool gone(int number, int ms)
{
	struct pollfd p = { .fd = number, .events = POLLRDHUP };

	return await(real()->poll, &p, 1, ms) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- The side that accepted ---- */

/* The port is the lock: one child has it at a time, until its own client has come. */
static int listen_at(int number, const struct sockaddr_storage *addr, socklen_t len)
{
	for (;;) {
		int fd = new_rsocket(addr);

		if (fd < 0)
			return -1;
		if (!rbind(fd, (const struct sockaddr *)addr, len) && !rlisten(fd, 1))
			return fd;
		rclose(fd);
		if ((errno != EADDRINUSE && errno != EADDRNOTAVAIL) || gone(number, RETRY_MS))
			return -1;
	}
}

static bool requested(int listener)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return !rgetsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len) && info.tcpi_unacked;
}

static void close_listener(void *listener)
{
	rclose(*(int *)listener);
}

/*
 * The connecting side closes TCP at once, perhaps before the listener has the connection, but not
 * before its request was answered: without one, it has gone. Closes the listener.
 */
static int accept_from(int listener, int number)
{
	struct pollfd p[2] = { { .fd = listener, .events = POLLIN },
			       { .fd = number, .events = POLLRDHUP } };
	int ready, fd;

	pthread_cleanup_push(close_listener, &listener);
	do
		ready = await(rpoll, p, 2, -1);
	while (ready < 0 && errno == EINTR);
	if (ready > 0 && !p[0].revents)
		ready = requested(listener) ? await(rpoll, p, 1, GRACE_MS) : 0;
	fd = ready > 0 && p[0].revents ? raccept(listener, NULL, NULL) : -1;
	pthread_cleanup_pop(1);
	return fd;
}

static int settle_accepted(int number)
{
	static const uint8_t greeting[GREETING];
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int listener;

	if (real()->getsockname(number, (struct sockaddr *)&addr, &len))
		return -1;
	len = unmap(&addr);
	listener = listen_at(number, &addr, len);
	if (listener < 0)
		return -1;
	if (real()->send(number, greeting, GREETING, MSG_NOSIGNAL) == GREETING)
		return accept_from(listener, number);
	rclose(listener);
	return -1;
}

/* ---- The side that connects ---- */

static void settle(struct entry *e, int number);

static void end_other(void *other)
{
	struct entry *e = other;

	pthread_mutex_unlock(&e->turn);
	entry_release(entry_put(e));
}

/* Unless another thread does. */
static void settle_other(int number)
{
	struct entry *e = entry_hold(number);

	if (!e)
		return;
	if (e->kind != ENTRY_DEFERRED || pthread_mutex_trylock(&e->turn)) {
		entry_release(entry_put(e));
		return;
	}
	pthread_cleanup_push(end_other, e);
	if (e->kind == ENTRY_DEFERRED && e->side == SIDE_CONNECTED)
		settle(e, number);
	pthread_cleanup_pop(1);
}

static nfds_t watch_others(struct pollfd *fds, int most, int but)
{
	nfds_t n = 0;
	int number;

	for (number = 0; number < most; number++) {
		struct entry *e = number != but && entry_find(number) ? entry_hold(number) : NULL;

		if (!e)
			continue;
		if (e->kind == ENTRY_DEFERRED && e->side == SIDE_CONNECTED)
			fds[n++] = (struct pollfd){ .fd = number, .events = POLLIN };
		entry_release(entry_put(e));
	}
	return n;
}

/*
 * Waits for p.  The server converts one connection of a port at a time, and may have chosen another
 * of this process: no other thread may ever answer that one, and then p's turn would never come.
 */
static int await_greeting(struct pollfd *p)
{
	const int most = entry_end();
	struct pollfd *fds = calloc((size_t)most + 1, sizeof(*fds));
	nfds_t n = 1, i;
	int ready;

	if (!fds)
		return await(real()->poll, p, 1, -1);
	pthread_cleanup_push(free, fds);
	fds[0] = *p;
	n += watch_others(fds + 1, most, p->fd);
	ready = await(real()->poll, fds, n, -1);
	*p = fds[0];
	for (i = 1; ready > 0 && !p->revents && i < n; i++)
		if (fds[i].revents)
			settle_other(fds[i].fd);
	pthread_cleanup_pop(1);
	return ready;
}

/* False: something else was sent, or the connection has ended. */
static bool hear_greeting(int number)
{
	static const uint8_t greeting[GREETING];
	uint8_t got[GREETING];
	ssize_t n;

	for (;;) {
		struct pollfd p = { .fd = number, .events = POLLIN };

		if (await_greeting(&p) < 0 && errno != EINTR)
			return false;
		if (!p.revents)
			continue;
		/* An error of the connection is for the program. */
		if (p.revents & POLLERR)
			return false;
		n = real()->recv(number, got, GREETING, MSG_PEEK | MSG_DONTWAIT);
		if (n <= 0 || memcmp(got, greeting, (size_t)n))
			return false;
		if (n == GREETING)
			return true;
		/* The rest comes in a moment, but poll() would not wait for it. */
		if (gone(number, RETRY_MS))
			return false;
	}
}

/* The peer waits in accept_from(): a failure must end that wait. */
static int settle_connected(int number)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int fd;

	if (!hear_greeting(number) || real()->getpeername(number, (struct sockaddr *)&addr, &len))
		return -1;
	len = unmap(&addr);
	fd = new_rsocket(&addr);
	if (fd >= 0 && !rconnect(fd, (const struct sockaddr *)&addr, len))
		return fd;
	if (fd >= 0)
		rclose(fd);
	real()->shutdown(number, SHUT_RDWR);
	return -1;
}

/* ---- Data ---- */

/* A socket that cannot become an rsocket stays TCP; conversion is not tried again. */
static void settle(struct entry *e, int number)
{
	int fd = e->side == SIDE_ACCEPTED ? settle_accepted(number) : settle_connected(number);

	if (fd >= 0)
		become(e, number, fd);
	else
		e->side = SIDE_NONE;
}

static void end_turn(void *turn)
{
	settling = false;
	pthread_mutex_unlock(turn);
}

/* A thread that is cancelled leaves the conversion to the next. */
static void take_turn(struct entry *e, int number)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	pthread_mutex_lock(&e->turn);
	pthread_cleanup_push(end_turn, &e->turn);
	settling = true;
	if (e->kind == ENTRY_DEFERRED && e->side != SIDE_NONE)
		settle(e, number);
	pthread_cleanup_pop(1);
	pthread_setcancelstate(cancellable, NULL);
}

int deferred_fd(int number)
{
	struct entry *e = entry_find(number);
	int error = errno;

	if (!e)
		return -1;
	if (!settling && e->kind == ENTRY_DEFERRED && e->side != SIDE_NONE) {
		take_turn(e, number);
		errno = error;
	}
	return e->fd;
}
