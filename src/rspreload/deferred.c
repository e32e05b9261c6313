/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversion of TCP sockets to rsockets; deferred.h has the protocol. */
#include "rspreload/deferred.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rdmacm/rs_call.h"
#include "rspreload/allow.h"
#include "rspreload/connect.h"
#include "rspreload/entry.h"
#include "rspreload/epoll.h"
#include "rspreload/kept.h"
#include "rspreload/real.h"
#include "rspreload/tune.h"
#include "rspreload/wait.h"
#include "util/atomic.h"
#include "util/restart.h"

enum {
	RETRY_MS = 2,    /* while another child has the port */
	GRACE_PARTS = 50, /* for a requested connection whose TCP has ended */
	GRACE_PART_MS = 100,
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

/*
 * The program can cancel it, or a handler leave it. What the system waits for is a call of ours;
 * rpoll() does the same.
 */
static int await(int (*wait)(struct pollfd *, nfds_t, int), struct pollfd *p, nfds_t n, int ms)
{
	const struct inner_wait was = inner_wait;
	int ready;

	if (wait == real()->poll) {
		ready = vrb_rs_wait_begin() ? wait(p, n, ms) : -1;
		vrb_rs_wait_end();
		return ready;
	}
	inner_wait = (struct inner_wait){ .active = true };
	ready = wait(p, n, ms);
	inner_wait = was;
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
	epoll_settled(e, number, fd);
	if (made < 0)
		return;
	entry_replace(e, number, made);
	real()->close(made);
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

/* ---- Other connections of the process ---- */

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
 * Waits as wait() does, and converts others that are greeted meanwhile.  The server converts one
 * connection of a port at a time, and may have chosen another of this process: no other thread may
 * ever answer that one, and then this one's turn would never come.
 */
static int await_among_others(int (*wait)(struct pollfd *, nfds_t, int), struct pollfd *p, nfds_t n,
			      int ms)
{
	const int most = entry_end();
	struct pollfd *fds = calloc((size_t)most + n, sizeof(*fds));
	nfds_t all, i;
	int ready;

	if (!fds)
		return await(wait, p, n, ms);
	pthread_cleanup_push(free, fds);
	memcpy(fds, p, n * sizeof(*p));
	all = n + watch_others(fds + n, most, p[n - 1].fd);
	ready = await(wait, fds, all, ms);
	memcpy(p, fds, n * sizeof(*p));
	for (i = n; ready > 0 && i < all; i++)
		if (fds[i].revents)
			settle_other(fds[i].fd);
	pthread_cleanup_pop(1);
	return ready;
}

/* ---- The side that accepted ---- */

/* Of no meaning for TCP, and kept by the socket wherever it goes. */
static void mark(int number, bool on)
{
	const int all = !on;

	real()->setsockopt(number, IPPROTO_IP, IP_MULTICAST_ALL, &all, sizeof(all));
}

static int option(int number, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return real()->getsockopt(number, level, name, &value, &len) ? -1 : value;
}

static bool is_marked(int number)
{
	return !option(number, IPPROTO_IP, IP_MULTICAST_ALL);
}

void deferred_accepted(struct entry *e, int number)
{
	e->side = SIDE_ACCEPTED;
	mark(number, true);
}

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

/* In parts, as a stop of this process is no grace, but ends the wait in which it happens. */
static int await_requested(struct pollfd *listener)
{
	int ready = 0;

	for (int i = 0; i < GRACE_PARTS && !ready; i++) {
		ready = await(rpoll, listener, 1, GRACE_PART_MS);
		if (ready < 0 && errno == EINTR)
			ready = 0;
	}
	return ready;
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
		ready = await_among_others(rpoll, p, 2, -1);
	while (ready < 0 ? errno == EINTR : !p[0].revents && !p[1].revents);
	if (ready > 0 && !p[0].revents)
		ready = requested(listener) ? await_requested(p) : 0;
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

	mark(number, false);
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

enum heard {
	NOTHING,
	THE_GREETING,
	SOMETHING_ELSE, /* or the connection's end, or its error, which is left for the program */
};

static enum heard hear(int number)
{
	static const uint8_t greeting[GREETING];
	struct pollfd p = { .fd = number, .events = POLLIN };
	uint8_t got[GREETING];
	ssize_t n;

	if (real()->poll(&p, 1, 0) <= 0)
		return NOTHING;
	if (p.revents & POLLERR)
		return SOMETHING_ELSE;
	n = real()->recv(number, got, GREETING, MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0 || memcmp(got, greeting, (size_t)n))
		return SOMETHING_ELSE;
	if (n == GREETING)
		return THE_GREETING;
	/* The rest comes in a moment, but poll() would not wait for it. */
	return gone(number, RETRY_MS) ? SOMETHING_ELSE : NOTHING;
}

/* The peer waits in accept_from(): a failure must end that wait. */
static int settle_connected(int number)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int fd;

	if (hear(number) != THE_GREETING ||
	    real()->getpeername(number, (struct sockaddr *)&addr, &len))
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

static bool is_settled(const struct entry *e)
{
	return e->kind != ENTRY_DEFERRED || e->side == SIDE_NONE || e->side == SIDE_TCP;
}

static void stay_tcp(struct entry *e, int number)
{
	e->side = SIDE_TCP;
	epoll_settled(e, number, -1);
}

/*
 * Unless the other side must act first.  A socket that cannot become an rsocket stays TCP;
 * conversion is not tried again.
 */
static void settle(struct entry *e, int number)
{
	int fd;

	if (is_settled(e) || (e->side == SIDE_CONNECTED && hear(number) == NOTHING))
		return;
	fd = e->side == SIDE_ACCEPTED ? settle_accepted(number) : settle_connected(number);
	if (fd >= 0)
		become(e, number, fd);
	else
		stay_tcp(e, number);
}

/* How long the call may wait for the other side. */
struct patience {
	bool no_signal; /* ends it */
	int ms;		/* -1: no limit */
};

/* Returns 0, EAGAIN or EINTR. */
static int settle_patiently(struct entry *e, int number, const struct patience *p)
{
	const uint64_t start = p->ms > 0 ? wait_now_us() : 0;
	struct pollfd fd = { .fd = number, .events = POLLIN };
	int ready, left = p->ms;

	for (;;) {
		settle(e, number);
		if (is_settled(e))
			return 0;
		if (!left)
			return EAGAIN;
		ready = await_among_others(real()->poll, &fd, 1, left);
		if (ready < 0 && errno != EINTR)
			stay_tcp(e, number);
		else if (ready < 0 && !p->no_signal && (p->ms > 0 || restart_is_refused()))
			return EINTR;
		left = wait_left_ms(p->ms, start);
	}
}

static void end_turn(void *turn)
{
	settling = false;
	pthread_mutex_unlock(turn);
}

/* A thread that is cancelled leaves the conversion to the next. */
static int take_turn(struct entry *e, int number, const struct patience *p)
{
	int err;

	if (p->ms)
		pthread_mutex_lock(&e->turn);
	else if (pthread_mutex_trylock(&e->turn))
		return EAGAIN;
	pthread_cleanup_push(end_turn, &e->turn);
	settling = true;
	err = settle_patiently(e, number, p);
	pthread_cleanup_pop(1);
	return err;
}

static void end_call(void *unused)
{
	vrb_rs_call_end();
}

static int get(struct entry *e, int number, const struct patience *p)
{
	int error = errno, err;

	vrb_rs_call_begin();
	pthread_cleanup_push(end_call, NULL);
	err = take_turn(e, number, p);
	pthread_cleanup_pop(1);
	errno = err ? err : error;
	return err ? DEFERRED_LATER : e->fd;
}

/* The call would not wait. */
static bool is_urgent(int number, int flags)
{
	return flags & MSG_DONTWAIT || real()->fcntl(number, F_GETFL) & O_NONBLOCK;
}

static int limit_ms(int number, int option)
{
	struct timeval t = { 0 };
	socklen_t len = sizeof(t);

	real()->getsockopt(number, SOL_SOCKET, option, &t, &len);
	if (!t.tv_sec && !t.tv_usec)
		return -1;
	return t.tv_sec < INT_MAX / 1000 ? (int)(t.tv_sec * 1000 + (t.tv_usec + 999) / 1000)
					 : INT_MAX;
}

static void write_first(struct entry *e, int number)
{
	if (!e->inherited || pthread_mutex_trylock(&e->turn))
		return;
	if (!is_settled(e)) {
		mark(number, false);
		stay_tcp(e, number);
	}
	pthread_mutex_unlock(&e->turn);
}

static int get_for_data(int number, int flags, int limit)
{
	struct entry *e = entry_find(number);
	struct patience p = { .ms = -1 };
	int fd;

	if (e && !settling && limit == SO_SNDTIMEO)
		write_first(e, number);
	if (!e || settling || is_settled(e))
		return connect_fd(number);
	if (e->side == SIDE_CONNECTED)
		p.ms = is_urgent(number, flags) ? 0 : limit_ms(number, limit);
	fd = get(e, number, &p);
	if (fd == DEFERRED_LATER && limit == SO_SNDTIMEO)
		store_relaxed(&e->refused, true);
	return fd;
}

int deferred_in(int number, int flags)
{
	return get_for_data(number, flags, SO_RCVTIMEO);
}

int deferred_out(int number, int flags)
{
	return get_for_data(number, flags, SO_SNDTIMEO);
}

int deferred_fd(int number)
{
	const struct patience p = { .no_signal = true, .ms = -1 };
	struct entry *e = entry_find(number);

	if (!e || settling || is_settled(e))
		return e ? e->fd : -1;
	return get(e, number, &p);
}

/* ---- From other processes ---- */

static bool is_the_same(int number, int other)
{
	struct stat a, b;

	return !fstat(number, &a) && !fstat(other, &b) && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

static struct entry *find_the_same(int number)
{
	int other;

	for (other = 0; other < entry_end(); other++) {
		struct entry *e = entry_find(other);

		if (e && e->inherited && is_the_same(number, other))
			return e;
	}
	return NULL;
}

/* Of connected ones, those with the mark. */
static void take(int number)
{
	const int domain = option(number, SOL_SOCKET, SO_DOMAIN),
		  type = option(number, SOL_SOCKET, SO_TYPE),
		  protocol = option(number, SOL_SOCKET, SO_PROTOCOL);
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	bool connected;
	struct entry *e;

	if (entry_find(number) || !deferred_wanted(domain, type) || !allow(domain, type, protocol))
		return;
	connected = !real()->getpeername(number, (struct sockaddr *)&addr, &len);
	if (connected && !is_marked(number))
		return;
	e = connected ? find_the_same(number) : NULL;
	if (e) {
		entry_share(e, number);
		return;
	}
	e = entry_adopt(number, domain);
	if (e && connected) {
		e->side = SIDE_ACCEPTED;
		e->inherited = true;
	}
}

void deferred_take_from(struct msghdr *msg)
{
	struct cmsghdr *c;
	size_t at;
	int number;

	if (!msg->msg_controllen || !deferred_wanted(AF_INET, SOCK_STREAM))
		return;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		for (at = CMSG_LEN(0); c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
				       at + sizeof(number) <= c->cmsg_len;
		     at += sizeof(number)) {
			memcpy(&number, (const char *)c + at, sizeof(number));
			take(number);
		}
}

/* Those that the program begins with. */
__attribute__((constructor)) static void take_all(void)
{
	DIR *numbers = deferred_wanted(AF_INET, SOCK_STREAM) ? opendir("/proc/self/fd") : NULL;
	const struct dirent *d;

	if (!numbers)
		return;
	while ((d = readdir(numbers)))
		if (d->d_name[0] != '.')
			take(atoi(d->d_name));
	closedir(numbers);
}

/* ---- Polling ---- */

bool deferred_is_connected(const struct entry *e)
{
	return e && e->kind == ENTRY_DEFERRED && e->side == SIDE_CONNECTED;
}

bool deferred_is_writable(const struct entry *e, int number)
{
	return !deferred_is_connected(e) || (!load_relaxed(&e->refused) && is_urgent(number, 0));
}

bool deferred_settle(int number)
{
	const struct patience p = { .ms = 0 };
	struct entry *e = entry_find(number);

	return !deferred_is_connected(e) || get(e, number, &p) != DEFERRED_LATER;
}
