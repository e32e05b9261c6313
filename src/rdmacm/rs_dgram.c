/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams.
 *
 *	the first one to a peer	is sent over UDP, with a header that names our queue pair
 *	the receiver		stores it and answers over UDP with a header only
 *	all others		go from queue pair to queue pair, but for one a second, in case
 *				another process has the peer's address now
 *
 * There is a queue pair per local address in use (rs_port.h).  Received datagrams are copied into a
 * queue.  Everything received is untrusted: a header is accepted for the source address of its
 * packet only.
 */
#include "rdmacm/rs_dgram.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_from.h"
#include "rdmacm/rs_io.h"
#include "rdmacm/rs_name.h"
#include "rdmacm/rs_port.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_wait.h"
#include "rsocket/rs_header.h"
#include "run/clock.h"
#include "util/time.h"

enum {
	MOST_PEERS = 4096, /* entries of the table of peers */
	BATCH = 16,
	/*
	 * Packets that a call reads from the UDP socket: a flood must not hold it.  The service
	 * thread reads what is left.
	 */
	MOST_READ = 256,
};

/* How long a queue pair number is relied on. */
#define ASK_AGAIN VRB_SECOND

/* A peer whose queue pair is known. */
struct peer {
	struct list node; /* rs_dgram.peers, oldest first */
	struct rs_from at;
	struct rs_port *port;
	struct ibv_ah *ah;
	uint32_t qpn;
	uint64_t ask_at; /* coarse clock: the next datagram goes over UDP, which is answered */
};

struct datagram {
	struct list node; /* rs_dgram.queue */
	struct rs_from from;
	size_t len;
	uint8_t data[];
};

struct rs_dgram {
	int udp, events; /* events: an epoll of all descriptors to wait for */
	bool bound, connected;
	struct sockaddr_storage peer;
	struct rs_from only; /* connected: the same */
	struct list ports, peers, queue;
	unsigned int known; /* number of peers */
	size_t queued;      /* bytes */
};

/* The port with the source address of packets to the peer. */
static int port_towards(struct rsocket *rs, const struct sockaddr_storage *to,
			struct rs_port **out)
{
	return rs_port_towards(rs, &rs->dgram->ports, rs->dgram->events, to, out);
}

/* ---- Peers ---- */

static struct peer *find_peer(struct rs_dgram *d, const struct rs_from *at)
{
	struct list *pos;

	list_for_each (pos, &d->peers) {
		struct peer *p = list_entry(pos, struct peer, node);

		if (rs_from_same(&p->at, at))
			return p;
	}
	return NULL;
}

static void free_peer(struct rs_dgram *d, struct peer *p)
{
	list_del(&p->node);
	d->known--;
	ibv_destroy_ah(p->ah);
	free(p);
}

/* Stores the peer's queue pair number. */
static void learn(struct rsocket *rs, struct rs_port *port, const struct rs_from *at, uint32_t qpn)
{
	struct rs_dgram *d = rs->dgram;
	struct peer *p = find_peer(d, at);

	if (p) {
		p->qpn = qpn;
		return;
	}
	if (d->known == MOST_PEERS)
		free_peer(d, list_entry(d->peers.next, struct peer, node));
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	*p = (struct peer){
		.at = *at,
		.port = port,
		.qpn = qpn,
		.ah = rs_port_ah(port, at),
		.ask_at = time_after(clock_coarse(), ASK_AGAIN),
	};
	list_init(&p->node);
	if (!p->ah) {
		free(p);
		return;
	}
	list_add_tail(&d->peers, &p->node);
	d->known++;
}

/* ---- Receiving ---- */

/*
 * Queues a datagram for the program; drops it if the queue is full, or the socket connected to
 * another peer.
 */
static void queue_up(struct rsocket *rs, const struct rs_from *from, const uint8_t *data,
		     size_t len)
{
	struct rs_dgram *d = rs->dgram;
	struct datagram *g;

	if (d->queued + len + sizeof(*g) > rs->opt.rcvbuf)
		return;
	if (d->connected && !rs_from_same(from, &d->only))
		return;
	g = malloc(sizeof(*g) + len);
	if (!g)
		return;
	g->from = *from;
	g->len = len;
	memcpy(g->data, data, len);
	list_add_tail(&d->queue, &g->node);
	d->queued += len + sizeof(*g);
}

static size_t own_header(const struct rs_port *p, uint8_t op, uint8_t out[RS_UDP_HEADER_MAX])
{
	struct rs_udp_header h = { .op = op, .qpn = p->id->qp->qp_num, .from = p->self };

	return rs_udp_encode(out, &h);
}

static void take_udp(struct rsocket *rs, struct sockaddr_storage *from, const uint8_t *data,
		     size_t len)
{
	uint8_t answer[RS_UDP_HEADER_MAX];
	struct rs_udp_header h;
	struct rs_from at;
	struct rs_port *port;
	size_t head = rs_udp_decode(data, len, &h);

	rs_from_of(from, &at);
	if (!head || !rs_from_same_ip(&h.from, &at) || port_towards(rs, from, &port))
		return;
	learn(rs, port, &at, h.qpn);
	if (h.op != RS_UDP_DATA)
		return;
	queue_up(rs, &at, data + head, len - head);
	if (sendto(rs->fd, answer, own_header(port, RS_UDP_CONTROL, answer), MSG_DONTWAIT,
		   (struct sockaddr *)from, addr_len((struct sockaddr *)from)) < 0)
		return; /* the peer's next datagram comes over UDP again */
}

static bool read_udp(struct rsocket *rs)
{
	uint8_t data[RS_UDP_HEADER_MAX + 2048];
	struct sockaddr_storage from;
	int i;

	for (i = 0; i < MOST_READ; i++) {
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(rs->fd, data, sizeof(data), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &len);

		if (n < 0)
			break;
		take_udp(rs, &from, data, (size_t)n);
	}
	return i;
}

/*
 * Is the header's address the packet's source?  grh: the 40 bytes before a datagram, an IPv6 header
 * or, in the last 20, one of IPv4.  All of 127/8 is this host (rs_from_gid()).
 */
static bool is_from(const uint8_t *grh, const struct rs_from *from)
{
	const uint8_t *ipv4 = grh + 20;

	if (from->version == 6)
		return grh[0] >> 4 == 6 && !memcmp(grh + 8, from->ip, 16);
	return ipv4[0] >> 4 == 4 &&
	       (!memcmp(ipv4 + 12, from->ip, 4) || (ipv4[12] == 127 && from->ip[0] == 127));
}

static void take_receive(struct rsocket *rs, struct rs_port *p, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id & (RS_PORT_RECEIVE - 1);
	const uint8_t *grh = p->memory + (size_t)slot * RS_PORT_SLOT, *data = grh + RS_PORT_GRH;
	struct rs_from from;
	size_t len, head;

	if (wc->status)
		return;
	len = wc->byte_len > RS_PORT_GRH ? wc->byte_len - RS_PORT_GRH : 0;
	head = rs_ud_decode(data, len, &from);
	if (head && is_from(grh, &from))
		queue_up(rs, &from, data + head, len - head);
	rs_port_post_receive(p, slot);
}

/*
 * Takes what the CQ can hold at once: those that come meanwhile have an event if it is armed, and
 * must not hold the call.
 */
static bool poll_port(struct rsocket *rs, struct rs_port *p)
{
	uint32_t most = p->in_slots + RS_PORT_OUT_SLOTS, taken = 0;
	struct ibv_wc wc[BATCH];
	int n, i;

	while (taken < most && (n = ibv_poll_cq(p->cq, BATCH, wc)) > 0) {
		taken += (uint32_t)n;
		for (i = 0; i < n; i++) {
			if (wc[i].wr_id & RS_PORT_RECEIVE)
				take_receive(rs, p, &wc[i]);
			else
				p->free_slot[p->free_slots++] = (uint16_t)wc[i].wr_id;
		}
	}
	return taken;
}

static bool take_events(struct rs_port *p)
{
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	while (p->armed && !ibv_get_cq_event(p->events, &cq, &context)) {
		p->armed = false;
		p->unacked++;
		any = true;
	}
	return any;
}

bool rs_dgram_progress(struct rsocket *rs)
{
	struct list *pos;
	bool any = false;

	list_for_each (pos, &rs->dgram->ports)
		any |= poll_port(rs, list_entry(pos, struct rs_port, node));
	return any;
}

bool rs_dgram_progress_all(struct rsocket *rs)
{
	struct list *pos;
	bool any = read_udp(rs);

	list_for_each (pos, &rs->dgram->ports)
		any |= take_events(list_entry(pos, struct rs_port, node));
	return any;
}

unsigned int rs_dgram_arm(struct rsocket *rs, struct pollfd *fds)
{
	struct list *pos;

	list_for_each (pos, &rs->dgram->ports) {
		struct rs_port *p = list_entry(pos, struct rs_port, node);

		if (!p->armed)
			ibv_req_notify_cq(p->cq, 0);
		p->armed = true;
	}
	fds[0] = (struct pollfd){ .fd = rs->dgram->events, .events = POLLIN };
	return 1;
}

/* In the service thread: peers get answers even if the program does not receive. */
static void udp_event(struct rsocket *rs)
{
	pthread_mutex_lock(&rs->lock);
	if (read_udp(rs))
		rs_wake(rs);
	pthread_mutex_unlock(&rs->lock);
}

/* ---- The calls ---- */

int rs_dgram_create(struct rsocket *rs)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct rs_dgram *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return ENOMEM;
	list_init(&d->ports);
	list_init(&d->peers);
	list_init(&d->queue);
	d->udp = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	d->events = epoll_create1(EPOLL_CLOEXEC);
	if (d->udp >= 0 && d->events >= 0 && !epoll_ctl(d->events, EPOLL_CTL_ADD, d->udp, &e)) {
		rs->fd = d->udp;
		rs->dgram = d;
		return 0;
	}
	err = errno;
	if (d->udp >= 0)
		close(d->udp);
	if (d->events >= 0)
		close(d->events);
	free(d);
	return err;
}

void rs_dgram_free_port(struct rsocket *rs)
{
	int unbound = socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (unbound < 0)
		return;
	dup3(unbound, rs->dgram->udp, O_CLOEXEC);
	close(unbound);
}

void rs_dgram_destroy(struct rsocket *rs)
{
	struct rs_dgram *d = rs->dgram;

	while (!list_empty(&d->queue)) {
		struct datagram *g = list_entry(d->queue.next, struct datagram, node);

		list_del(&g->node);
		free(g);
	}
	while (!list_empty(&d->peers))
		free_peer(d, list_entry(d->peers.next, struct peer, node));
	while (!list_empty(&d->ports))
		rs_port_free(list_entry(d->ports.next, struct rs_port, node));
	close(d->events);
	close(d->udp);
	free(d);
}

/*
 * Watches the UDP socket before peers can reach its port: they get answers, or the call fails and
 * has changed nothing.
 */
static int now_bound(struct rsocket *rs)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };
	socklen_t len = addr_len((struct sockaddr *)&any);
	struct rs_from self;
	int err;

	if (rs->state == RS_CLOSED)
		return EBADF;
	if (rs->dgram->bound)
		return 0;
	err = rs_watch(rs, rs->fd, udp_event);
	if (err)
		return err;
	if (getsockname(rs->fd, (struct sockaddr *)&any, &len))
		return errno;
	rs_from_of(&any, &self);
	if (!self.port && bind(rs->fd, (struct sockaddr *)&any, len))
		return errno;
	rs->dgram->bound = true;
	return 0;
}

int rs_dgram_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	int err = rs->state == RS_CLOSED ? EBADF : rs_watch(rs, rs->fd, udp_event);

	if (err)
		return err;
	return bind(rs->fd, addr, len) ? errno : now_bound(rs);
}

/* The system forgets a port that it has chosen; ours is known to peers, and stays. */
static int dissolve(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage before, now;
	socklen_t had = sizeof(before), has = sizeof(now);

	if (getsockname(rs->fd, (struct sockaddr *)&before, &had) || connect(rs->fd, addr, len) ||
	    getsockname(rs->fd, (struct sockaddr *)&now, &has))
		return errno;
	rs->dgram->connected = false;
	if (addr_port((struct sockaddr *)&now))
		return 0;
	addr_set_port((struct sockaddr *)&now, addr_port((struct sockaddr *)&before));
	return bind(rs->fd, (struct sockaddr *)&now, has) ? errno : 0;
}

int rs_dgram_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rs_dgram *d = rs->dgram;
	socklen_t got = sizeof(d->peer);
	struct rs_port *port;
	int err = now_bound(rs);

	if (err)
		return err;
	if (addr->sa_family == AF_UNSPEC)
		return dissolve(rs, addr, len);
	/* The system knows which peer a wildcard means. */
	if (connect(rs->fd, addr, len) || getpeername(rs->fd, (struct sockaddr *)&d->peer, &got))
		return errno;
	rs_from_of(&d->peer, &d->only);
	d->connected = true;
	return port_towards(rs, &d->peer, &port);
}

short rs_dgram_ready(struct rsocket *rs)
{
	return list_empty(&rs->dgram->queue) ? POLLOUT : POLLIN | POLLOUT;
}

static bool has_datagram(struct rsocket *rs)
{
	return !list_empty(&rs->dgram->queue) || rs->state == RS_CLOSED;
}

static size_t gather(const struct iovec *iov, int n, uint8_t *out, size_t room)
{
	size_t done = 0;

	for (; n > 0; n--, iov++) {
		size_t part = min(iov->iov_len, room - done);

		memcpy(out + done, iov->iov_base, part);
		done += part;
	}
	return done;
}

static int send_udp(struct rsocket *rs, const struct rs_port *port, const uint8_t *data, size_t n,
		    const struct sockaddr_storage *to)
{
	uint8_t head[RS_UDP_HEADER_MAX];
	struct iovec iov[2] = {
		{ head, own_header(port, RS_UDP_DATA, head) },
		{ (void *)(uintptr_t)data, n },
	};
	struct msghdr msg = {
		.msg_name = (void *)(uintptr_t)to,
		.msg_namelen = addr_len((const struct sockaddr *)to),
		.msg_iov = iov,
		.msg_iovlen = 2,
	};

	return sendmsg(rs->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Under tx_turn; the slot is free. */
static int send_ud(struct rs_port *port, const struct peer *peer, const uint8_t *data, size_t n)
{
	uint16_t slot = port->free_slot[--port->free_slots];
	uint8_t *at = port->memory + ((size_t)port->in_slots + slot) * RS_PORT_SLOT;
	size_t head = rs_ud_encode(at, &port->self);
	struct ibv_sge sge = { (uintptr_t)at, (uint32_t)(head + n), port->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = peer->ah, .remote_qpn = peer->qpn, .remote_qkey = RDMA_UDP_QKEY },
	}, *bad;
	int err;

	memcpy(at + head, data, n);
	err = cma_verb(ibv_post_send(port->id->qp, &wr, &bad));
	if (err)
		port->free_slot[port->free_slots++] = slot;
	return err;
}

/* True once each port has a free slot, which completions return soon. */
static bool all_have_slots(struct rsocket *rs)
{
	struct list *pos;

	if (rs->state == RS_CLOSED)
		return true;
	list_for_each (pos, &rs->dgram->ports)
		if (!list_entry(pos, struct rs_port, node)->free_slots)
			return false;
	return true;
}

static bool must_ask(struct peer *p)
{
	uint64_t now = clock_coarse();

	if (!time_reached(p->ask_at, now))
		return false;
	p->ask_at = time_after(now, ASK_AGAIN);
	return true;
}

/* The datagram also asks the peer for its queue pair. */
static int send_asking(struct rsocket *rs, const struct rs_port *port,
		       const struct sockaddr_storage *to, const uint8_t *data, size_t n)
{
	if (n + RS_UD_HEADER_MAX > port->most)
		return EMSGSIZE;
	return send_udp(rs, port, data, n, to);
}

static int send_to(struct rsocket *rs, struct sockaddr_storage *to, const uint8_t *data, size_t n,
		   bool nonblock)
{
	struct rs_port *port;
	struct peer *peer;
	struct rs_from at;
	int err;

	rs_from_of(to, &at);
	peer = find_peer(rs->dgram, &at);
	if (!peer) {
		/* The peer's answer may have arrived, and datagrams that other threads wait for. */
		if (read_udp(rs))
			rs_wake(rs);
		peer = find_peer(rs->dgram, &at);
	}
	if (!peer) {
		err = port_towards(rs, to, &port);
		return err ? err : send_asking(rs, port, to, data, n);
	}
	if (n + RS_UD_HEADER_MAX <= peer->port->most && must_ask(peer))
		return send_asking(rs, peer->port, to, data, n);
	if (n + (at.version == 4 ? 8 : RS_UD_HEADER_MAX) > peer->port->most)
		return EMSGSIZE;
	err = rs_await(rs, &rs->tx_turn, all_have_slots, nonblock, rs->opt.snd_timeout);
	if (!err && rs->state == RS_CLOSED)
		err = EBADF;
	if (err)
		return err;
	/* The peer may have been evicted meanwhile. */
	peer = find_peer(rs->dgram, &at);
	return peer ? send_ud(peer->port, peer, data, n) : EAGAIN;
}

ssize_t rs_dgram_send(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
		      const struct sockaddr *to, socklen_t len)
{
	struct sockaddr_storage addr = rs->dgram->peer;
	uint8_t data[2048 + 1];
	size_t n = gather(iov, iovcnt, data, sizeof(data));
	int err = now_bound(rs);

	if (!err && to)
		err = rs_check_name(to, len);
	if (!err && !to && !rs->dgram->connected)
		err = EDESTADDRREQ;
	if (err)
		return cma_result(err);
	if (n == sizeof(data))
		return cma_result(EMSGSIZE);
	if (to) {
		memset(&addr, 0, sizeof(addr));
		memcpy(&addr, to, addr_len(to));
	}
	err = send_to(rs, &addr, data, n, rs_never_waits(rs, flags));
	return err ? cma_result(err) : (ssize_t)n;
}

static size_t scatter(const struct iovec *iov, int n, const uint8_t *data, size_t len)
{
	size_t done = 0;

	for (; n > 0 && done < len; n--, iov++) {
		size_t part = min(iov->iov_len, len - done);

		memcpy(iov->iov_base, data + done, part);
		done += part;
	}
	return done;
}

ssize_t rs_dgram_recv(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
		      struct sockaddr *from, socklen_t *len, int *msg_flags)
{
	bool nonblock = rs_never_waits(rs, flags);
	struct sockaddr_storage addr;
	struct datagram *g;
	size_t n;
	int err = rs_await(rs, &rs->rx_turn, has_datagram, nonblock, rs->opt.rcv_timeout);

	if (!err && rs->state == RS_CLOSED)
		err = EBADF;
	if (err)
		return cma_result(err);
	g = list_entry(rs->dgram->queue.next, struct datagram, node);
	n = scatter(iov, iovcnt, g->data, g->len);
	*msg_flags = n < g->len ? MSG_TRUNC : 0;
	if (flags & MSG_TRUNC)
		n = g->len;
	if (from && len) {
		rs_from_to_addr(&g->from, rs->domain, &addr);
		rs_copy_name((struct sockaddr *)&addr, from, len);
	}
	if (flags & MSG_PEEK)
		return (ssize_t)n;
	list_del(&g->node);
	rs->dgram->queued -= g->len + sizeof(*g);
	free(g);
	return (ssize_t)n;
}
