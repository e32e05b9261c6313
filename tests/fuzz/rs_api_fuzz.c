/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequences of calls of rsockets in any order, good and bad, by one thread that owns both ends of
 * every connection, against an oracle:
 *
 *	a call works, or fails with an errno, and none blocks, as all are non-blocking;
 *	a stream brings the bytes that were sent, in order, and after its end no more; it ends
 *	early only if an end was closed with data that it had not read;
 *	a datagram is whole, comes from where it was sent, and none comes twice.
 *
 * The input is a program of one-byte steps with operands.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include <rdma/rsocket.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"

enum {
	SLOTS = 8,
	CONNECTIONS = 64,	/* remembered, the oldest are forgotten */
	LEN = 40000,		/* more than a ring of the small ones below takes */
	SMALL_RING = 8192,
	WAIT_MS = 2,
	HEAD = 12,		/* of a datagram: the sender's port, a number, its life */
};

enum kind { FREE, STREAM, DATAGRAM };

/* Bytes of one direction. */
struct flow {
	uint64_t sent, got;
	bool ended;	/* the sender will send no more */
	bool cut;	/* the reader closed an end or a direction: bytes may be missing */
};

struct connection {
	uint16_t port;		/* of the side that connected; 0: none */
	struct flow flow[2];	/* from it; to it */
};

struct slot {
	enum kind kind;
	int fd;
	bool listens, asked;	/* asked: rconnect() was called */
	uint16_t port;		/* bound to */
	struct connection *conn;
	int side;		/* of the connection: 0: connected; 1: accepted */
	uint32_t life;		/* unlike a port, no other socket has it later */
	uint32_t sent, last[SLOTS];	/* of datagrams: own number; of each slot, last received */
};

static struct slot slots[SLOTS];
static struct connection connections[CONNECTIONS];
static unsigned int next_connection;
static uint32_t lives;
static unsigned int asked;	/* for what becomes ready by itself */
static uint8_t buffer[LEN];

static struct slot *slot(struct input *in)
{
	return &slots[byte(in) % SLOTS];
}

/* The byte at this place of a flow. */
static uint8_t pattern(uint16_t port, int side, uint64_t place)
{
	return (uint8_t)(port + 97 * side + place * 31 + (place >> 8) * 7);
}

/* True if it worked. */
static bool answered(ssize_t answer)
{
	FUZZ_CHECK(answer >= 0 || (answer == -1 && errno > 0));
	return answer >= 0;
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static uint16_t name_of(int fd)
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);

	return rgetsockname(fd, (struct sockaddr *)&a, &len) == 0 ? ntohs(a.sin_port) : 0;
}

static void create_step(struct input *in)
{
	struct slot *s = slot(in);
	bool stream = byte(in) % 4;
	int ring = SMALL_RING, no_delay = 1;

	if (s->kind)
		return;
	*s = (struct slot){ .kind = stream ? STREAM : DATAGRAM, .life = ++lives };
	s->fd = rsocket(AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
	FUZZ_CHECK(s->fd >= 0 && rfcntl(s->fd, F_SETFL, O_NONBLOCK) == 0);
	if (byte(in) % 2)
		answered(rsetsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &ring, sizeof(ring)));
	if (byte(in) % 2)
		answered(rsetsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof(no_delay)));
}

static void bind_step(struct input *in)
{
	struct slot *s = slot(in);
	struct sockaddr_in a = loopback(0);

	if (s->kind && answered(rbind(s->fd, (struct sockaddr *)&a, sizeof(a))))
		s->port = name_of(s->fd);
}

static void listen_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->kind && answered(rlisten(s->fd, byte(in) % 8)))
		s->listens = s->kind == STREAM;
}

static struct slot *some(struct input *in, bool listener)
{
	int first = byte(in);

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[(first + i) % SLOTS];

		if (listener ? s->listens : s->kind == DATAGRAM && s->port)
			return s;
	}
	return NULL;
}

/* Of the connection that this port began; the newest. */
static struct connection *connection_of(uint16_t port)
{
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		if (connections[i].port && connections[i].port == port)
			return &connections[i];
	return NULL;
}

static struct connection *remember(uint16_t port)
{
	struct connection *c = connection_of(port);

	if (!c)
		c = &connections[next_connection++ % CONNECTIONS];
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].conn == c)
			slots[i].conn = NULL;	/* it is not followed any more */
	*c = (struct connection){ .port = port };
	return c;
}

static void connect_step(struct input *in)
{
	struct slot *s = slot(in), *l = some(in, true);
	struct sockaddr_in a;
	uint16_t port;

	if (s->kind != STREAM || !l || s == l)
		return;
	a = loopback(l->port);
	if (rconnect(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno != EINPROGRESS) {
		FUZZ_CHECK(errno > 0);
		return;
	}
	asked++;
	port = name_of(s->fd);
	if (s->asked || !port)
		return;
	s->asked = true;
	s->conn = remember(port);
	s->side = 0;
}

static void accept_step(struct input *in)
{
	struct slot *l = some(in, true), *s = slot(in);
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fd;

	if (!l || s->kind)
		return;
	fd = raccept(l->fd, (struct sockaddr *)&a, &len);
	if (!answered(fd))
		return;
	FUZZ_CHECK(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	*s = (struct slot){ .kind = STREAM, .fd = fd, .side = 1, .asked = true };
	s->conn = connection_of(ntohs(a.sin_port));
}

static void send_stream(struct slot *s, size_t len)
{
	struct flow *f = s->conn ? &s->conn->flow[s->side] : NULL;
	ssize_t n;

	for (size_t i = 0; f && i < len; i++)
		buffer[i] = pattern(s->conn->port, s->side, f->sent + i);
	n = rsend(s->fd, buffer, len, MSG_NOSIGNAL);
	if (!answered(n) || !f)
		return;
	FUZZ_CHECK((size_t)n <= len && !f->ended);
	f->sent += (size_t)n;
	asked += n > 0;
}

/* How much came, or -1. Bytes that are only looked at stay. */
static void recv_stream(struct slot *s, size_t len, int flags)
{
	struct flow *f = s->conn ? &s->conn->flow[!s->side] : NULL;
	ssize_t n = rrecv(s->fd, buffer, len, flags);

	if (!answered(n) || !f || s->listens)
		return;
	FUZZ_CHECK((size_t)n <= len && f->got + (size_t)n <= f->sent);
	for (size_t i = 0; i < (size_t)n; i++)
		FUZZ_CHECK(buffer[i] == pattern(s->conn->port, !s->side, f->got + i));
	if (!(flags & MSG_PEEK))
		f->got += (size_t)n;
	if (n == 0 && len && f->ended && !f->cut)
		FUZZ_CHECK(f->got == f->sent);
}

static void send_datagram(struct slot *s, const struct slot *to, size_t len)
{
	struct sockaddr_in a = loopback(to->port);
	uint32_t head[3] = { s->port, s->sent + 1, s->life };

	len = HEAD + len % 1000;
	memcpy(buffer, head, HEAD);
	for (size_t i = HEAD; i < len; i++)
		buffer[i] = pattern(s->port, 2, s->sent + 1 + i);
	if (!answered(rsendto(s->fd, buffer, len, 0, (struct sockaddr *)&a, sizeof(a))))
		return;
	s->sent++;
	asked++;
	if (!s->port)
		s->port = name_of(s->fd);
}

static void recv_datagram(struct slot *s)
{
	struct sockaddr_in a = { 0 };
	socklen_t from_len = sizeof(a);
	uint32_t head[3];
	ssize_t n = rrecvfrom(s->fd, buffer, LEN, 0, (struct sockaddr *)&a, &from_len);

	if (!answered(n))
		return;
	FUZZ_CHECK(n >= HEAD);
	memcpy(head, buffer, HEAD);
	for (ssize_t i = HEAD; i < n; i++)
		FUZZ_CHECK(buffer[i] == pattern((uint16_t)head[0], 2, head[1] + (uint64_t)i));
	/* The first of a socket that was not bound does not know its port. */
	FUZZ_CHECK(!head[0] || head[0] == ntohs(a.sin_port));
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].kind == DATAGRAM && slots[i].life == head[2]) {
			FUZZ_CHECK(head[1] > s->last[i] && head[1] <= slots[i].sent);
			s->last[i] = head[1];
		}
}

static void send_step(struct input *in)
{
	static const uint16_t lens[] = { 0, 1, 63, 64, 65, 4096, 9000, LEN };
	struct slot *s = slot(in), *to = some(in, false);
	size_t len = lens[byte(in) % 8];

	if (s->kind == STREAM)
		send_stream(s, len);
	else if (s->kind == DATAGRAM && to)
		send_datagram(s, to, len);
}

static void recv_step(struct input *in)
{
	static const uint16_t lens[] = { 0, 1, 64, 1000, 4097, LEN, LEN, LEN };
	struct slot *s = slot(in);
	size_t len = lens[byte(in) % 8];

	if (s->kind == STREAM)
		recv_stream(s, len, byte(in) % 8 ? 0 : MSG_PEEK);
	else if (s->kind == DATAGRAM)
		recv_datagram(s);
}

static void shutdown_step(struct input *in)
{
	struct slot *s = slot(in);
	int how = byte(in) % 4;	/* one of them is no way */

	if (!s->kind || !answered(rshutdown(s->fd, how)))
		return;
	if (s->conn && how != SHUT_RD)
		s->conn->flow[s->side].ended = true;
	if (s->conn && how != SHUT_WR)
		s->conn->flow[!s->side].cut = true;
	if (s->listens)
		s->listens = false;
}

static void destroy(struct slot *s)
{
	if (s->conn) {
		s->conn->flow[s->side].ended = true;
		s->conn->flow[!s->side].cut = true;
	}
	FUZZ_CHECK(rclose(s->fd) == 0);
	*s = (struct slot){ .kind = FREE };
	for (int i = 0; i < SLOTS; i++)
		slots[i].last[s - slots] = 0;
}

static void close_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->kind)
		destroy(s);
}

static void option_step(struct input *in)
{
	static const int levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IPV6, SOL_RDMA };
	struct slot *s = slot(in);
	int level = levels[byte(in) % 4], name = byte(in) % 32, value = byte(in) * 64;
	socklen_t len = byte(in) % 20;

	if (!s->kind || (level == SOL_SOCKET && name == SO_LINGER))
		return;
	memset(buffer, 0, 32);
	memcpy(buffer, &value, sizeof(value));
	if (byte(in) % 2)
		answered(rsetsockopt(s->fd, level, name, buffer, len));
	else
		answered(rgetsockopt(s->fd, level, name, buffer, &len));
}

/* Waits a moment for what was asked for. */
static void poll_step(struct input *in)
{
	struct pollfd fds[SLOTS];
	nfds_t n = 0;
	int ready, count = 0;

	for (int i = 0; i < SLOTS; i++)
		if (slots[i].kind)
			fds[n++] = (struct pollfd){ .fd = slots[i].fd,
						    .events = byte(in) % 2 ? POLLIN | POLLOUT :
									     POLLIN };
	ready = rpoll(fds, n, asked ? WAIT_MS : 0);
	asked -= asked > 0;
	FUZZ_CHECK(ready >= 0);
	for (nfds_t i = 0; i < n; i++) {
		FUZZ_CHECK(!(fds[i].revents & POLLNVAL));
		count += fds[i].revents != 0;
	}
	FUZZ_CHECK(count == ready);
}

static void no_socket_step(struct input *in)
{
	int fd = byte(in) % 2 ? -1 : 1000000;

	errno = 0;
	switch (byte(in) % 4) {
	case 0:
		FUZZ_CHECK(rsend(fd, buffer, 1, 0) == -1);
		break;
	case 1:
		FUZZ_CHECK(rrecv(fd, buffer, 1, 0) == -1);
		break;
	case 2:
		FUZZ_CHECK(rclose(fd) == EBADF);	/* as stock rclose() */
		errno = EBADF;
		break;
	default:
		FUZZ_CHECK(rlisten(fd, 1) == -1);
	}
	FUZZ_CHECK(errno > 0);
}

static void (*const steps[])(struct input *) = {
	create_step,  create_step,   create_step, bind_step,   bind_step,    listen_step,
	listen_step,  connect_step,  accept_step, accept_step, connect_step, send_step,
	send_step,    send_step,     send_step,	  recv_step,   recv_step,    recv_step,
	recv_step,    shutdown_step, close_step,  option_step, poll_step,    poll_step,
	poll_step,    poll_step,     send_step,	  recv_step,   create_step,  no_socket_step,
	connect_step, accept_step,
};

/* A listener and a socket on its way there, as an input rarely begins. */
static void begin(void)
{
	struct sockaddr_in a = loopback(0);

	for (int i = 0; i < 2; i++) {
		slots[i] = (struct slot){ .kind = STREAM, .fd = rsocket(AF_INET, SOCK_STREAM, 0) };
		FUZZ_CHECK(slots[i].fd >= 0 && rfcntl(slots[i].fd, F_SETFL, O_NONBLOCK) == 0);
	}
	FUZZ_CHECK(rbind(slots[0].fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	FUZZ_CHECK(rlisten(slots[0].fd, 8) == 0);
	slots[0].listens = true;
	slots[0].port = name_of(slots[0].fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	asked = 0;
	begin();
	while (more(&in))
		steps[byte(&in) % (sizeof(steps) / sizeof(steps[0]))](&in);
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].kind)
			destroy(&slots[i]);
	return 0;
}
