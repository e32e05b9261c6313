/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams.
 *
 *	the first one to a peer	is sent over UDP, with a header that names our queue pair
 *	the receiver		stores it and answers over UDP with a header only
 *	all others		go from queue pair to queue pair
 *
 * There is a queue pair per local address in use.  Received datagrams are copied into a queue.
 * Everything received is untrusted: a header is accepted for the source address of its packet only.
 */
#include "rdmacm/rs_dgram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_io.h"
#include "rdmacm/rs_name.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_wait.h"
#include "rsocket/rs_header.h"

enum {
	GRH = 40,
	SLOT = 2048 + RS_UD_HEADER_MAX + GRH,
	OUT_SLOTS = 64,
	MOST_PEERS = 4096, /* entries of the table of peers */
	RESOLVE_MS = 2000,
	BATCH = 16,
	RECEIVE = 1 << 16, /* flag in wr_id; the other bits are the slot */
};

/* A queue pair and its local address. */
struct port {
	struct list node; /* rs_dgram.ports */
	struct rs_from self;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* in_slots, then OUT_SLOTS */
	uint32_t in_slots;
	uint32_t most; /* largest message, bytes */
	uint16_t free_slot[OUT_SLOTS];
	unsigned int free_slots;
	bool armed;
	unsigned int unacked;
};

/* A peer whose queue pair is known. */
struct peer {
	struct list node; /* rs_dgram.peers, most recently used first */
	struct rs_from at;
	struct port *port;
	struct ibv_ah *ah;
	uint32_t qpn;
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
	struct list ports, peers, queue;
	unsigned int known; /* number of peers */
	size_t queued;      /* bytes */
};

/* ---- Addresses ---- */

static void to_from(const struct sockaddr_storage *a, struct rs_from *f)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;

	memset(f, 0, sizeof(*f));
	if (a->ss_family == AF_INET) {
		f->version = 4;
		f->port = ntohs(four->sin_port);
		memcpy(f->ip, &four->sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		f->version = 4;
		f->port = ntohs(six->sin6_port);
		memcpy(f->ip, six->sin6_addr.s6_addr + 12, 4);
	} else {
		f->version = 6;
		f->port = ntohs(six->sin6_port);
		memcpy(f->ip, &six->sin6_addr, 16);
	}
}

/* Converts to the family of the socket. */
static void from_from(const struct rs_from *f, int domain, struct sockaddr_storage *a)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)a;
	struct sockaddr_in *four = (struct sockaddr_in *)a;

	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)domain;
	if (domain == AF_INET) {
		four->sin_port = htons(f->port);
		memcpy(&four->sin_addr, f->ip, 4);
		return;
	}
	six->sin6_port = htons(f->port);
	if (f->version == 6) {
		memcpy(&six->sin6_addr, f->ip, 16);
		return;
	}
	six->sin6_addr.s6_addr[10] = six->sin6_addr.s6_addr[11] = 0xff;
	memcpy(six->sin6_addr.s6_addr + 12, f->ip, 4);
}

static bool same_ip(const struct rs_from *a, const struct rs_from *b)
{
	return a->version == b->version && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

static bool same_from(const struct rs_from *a, const struct rs_from *b)
{
	return a->port == b->port && same_ip(a, b);
}

static void to_gid(const struct rs_from *f, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (f->version == 6) {
		memcpy(gid->raw, f->ip, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, f->ip, 4);
}

/* The source address of packets to it, by the system's routes. */
static int route_from(const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t len = sizeof(*from);

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)to, addr_len((const struct sockaddr *)to)) ||
	    getsockname(fd, (struct sockaddr *)from, &len))
		err = errno;
	close(fd);
	return err;
}

/* ---- Ports ---- */

static struct port *find_port(struct rs_dgram *d, const struct rs_from *self)
{
	struct list *pos;

	list_for_each (pos, &d->ports) {
		struct port *p = list_entry(pos, struct port, node);

		if (same_ip(&p->self, self))
			return p;
	}
	return NULL;
}

static int post_receive(struct port *p, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)p->memory + (size_t)slot * SLOT, SLOT, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE | slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return cma_verb(ibv_post_recv(p->id->qp, &wr, &bad));
}

static void free_port(struct port *p)
{
	if (p->id && p->id->qp)
		rdma_destroy_qp(p->id);
	if (p->mr)
		ibv_dereg_mr(p->mr);
	if (p->cq) {
		ibv_ack_cq_events(p->cq, p->unacked);
		ibv_destroy_cq(p->cq);
	}
	if (p->events)
		ibv_destroy_comp_channel(p->events);
	if (p->id)
		rdma_destroy_id(p->id);
	free(p->memory);
	list_del(&p->node);
	free(p);
}

/* Converts mapped addresses to IPv4: rdma_cm takes them for IPv6. */
static struct sockaddr_storage unmapped(const struct sockaddr_storage *a)
{
	struct sockaddr_storage out = *a;
	struct rs_from f;

	to_from(a, &f);
	if (f.version == 4)
		from_from(&f, AF_INET, &out);
	return out;
}

/* Makes an id with the local address and the UDP socket's port. */
static int resolve(struct port *p, const struct sockaddr_storage *local,
		   const struct sockaddr_storage *remote)
{
	struct sockaddr_storage from_addr = unmapped(local), to_addr = unmapped(remote);
	struct sockaddr_storage *from = &from_addr, *to = &to_addr;
	int on = 1;

	if (rdma_create_id(NULL, &p->id, p, RDMA_PS_UDP))
		return errno;
	rdma_set_option(p->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (rdma_resolve_addr(p->id, (struct sockaddr *)from, (struct sockaddr *)to, RESOLVE_MS))
		return errno;
	p->most = min(128U << to_id(p->id)->path.place.mtu, 2048U);
	return 0;
}

static int make_qp(struct rsocket *rs, struct port *p)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = OUT_SLOTS,
			.max_recv_wr = p->in_slots,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	size_t len = ((size_t)p->in_slots + OUT_SLOTS) * SLOT;

	p->events = ibv_create_comp_channel(p->id->verbs);
	if (!p->events || fcntl(p->events->fd, F_SETFL, O_NONBLOCK))
		return errno;
	p->cq = ibv_create_cq(p->id->verbs, (int)p->in_slots + OUT_SLOTS, rs, p->events, 0);
	p->memory = malloc(len);
	if (!p->cq || !p->memory)
		return ENOMEM;
	p->mr = ibv_reg_mr(p->id->pd, p->memory, len, IBV_ACCESS_LOCAL_WRITE);
	if (!p->mr)
		return errno;
	attr.send_cq = attr.recv_cq = p->cq;
	return rdma_create_qp(p->id, NULL, &attr) ? errno : 0;
}

static int start_port(struct rsocket *rs, struct port *p)
{
	struct epoll_event e = { .events = EPOLLIN };
	uint32_t i;
	int err = 0;

	for (i = 0; i < p->in_slots && !err; i++)
		err = post_receive(p, i);
	for (i = 0; i < OUT_SLOTS; i++)
		p->free_slot[p->free_slots++] = (uint16_t)i;
	if (!err && epoll_ctl(rs->dgram->events, EPOLL_CTL_ADD, p->events->fd, &e))
		err = errno;
	return err;
}

/* The port with the source address of packets to the peer. */
static int port_towards(struct rsocket *rs, struct sockaddr_storage *to, struct port **out)
{
	struct sockaddr_storage from, udp;
	socklen_t len = sizeof(udp);
	struct rs_from self, bound;
	struct port *p;
	int err = route_from(to, &from);

	if (err || getsockname(rs->fd, (struct sockaddr *)&udp, &len))
		return err ? err : errno;
	to_from(&from, &self);
	to_from(&udp, &bound);
	self.port = bound.port;
	*out = find_port(rs->dgram, &self);
	if (*out)
		return 0;
	((struct sockaddr_in *)&from)->sin_port = htons(self.port);
	p = calloc(1, sizeof(*p));
	if (!p)
		return ENOMEM;
	list_init(&p->node);
	p->self = self;
	p->in_slots = min(rs->opt.rq, 512U);
	err = resolve(p, &from, to);
	if (!err)
		err = make_qp(rs, p);
	if (!err)
		err = start_port(rs, p);
	if (err) {
		free_port(p);
		return err;
	}
	list_add_tail(&rs->dgram->ports, &p->node);
	*out = p;
	return 0;
}

/* ---- Peers ---- */

static struct peer *find_peer(struct rs_dgram *d, const struct rs_from *at)
{
	struct list *pos;

	list_for_each (pos, &d->peers) {
		struct peer *p = list_entry(pos, struct peer, node);

		if (same_from(&p->at, at))
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

static struct ibv_ah *make_ah(const struct port *port, const struct rs_from *at)
{
	const struct place *place = &to_id(port->id)->path.place;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = place->port_num,
		.grh = { .sgid_index = place->gid_index, .hop_limit = 64 },
	};

	to_gid(at, &attr.grh.dgid);
	return ibv_create_ah(port->id->pd, &attr);
}

/* Stores the peer's queue pair number. */
static void learn(struct rsocket *rs, struct port *port, const struct rs_from *at, uint32_t qpn)
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
	*p = (struct peer){ .at = *at, .port = port, .qpn = qpn, .ah = make_ah(port, at) };
	list_init(&p->node);
	if (!p->ah) {
		free(p);
		return;
	}
	list_add_tail(&d->peers, &p->node);
	d->known++;
}

/* ---- Receiving ---- */

/* Queues a datagram for the program; drops it if the queue is full. */
static void queue_up(struct rsocket *rs, const struct rs_from *from, const uint8_t *data,
		     size_t len)
{
	struct rs_dgram *d = rs->dgram;
	struct datagram *g;

	if (d->queued + len + sizeof(*g) > rs->opt.rcvbuf)
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

static size_t own_header(const struct port *p, uint8_t op, uint8_t out[RS_UDP_HEADER_MAX])
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
	struct port *port;
	size_t head = rs_udp_decode(data, len, &h);

	to_from(from, &at);
	if (!head || !same_ip(&h.from, &at) || port_towards(rs, from, &port))
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
	bool any = false;
	ssize_t n;

	for (;;) {
		socklen_t len = sizeof(from);

		n = recvfrom(rs->fd, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &len);
		if (n < 0)
			return any;
		any = true;
		take_udp(rs, &from, data, (size_t)n);
	}
}

static void take_receive(struct rsocket *rs, struct port *p, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id & (RECEIVE - 1);
	const uint8_t *data = p->memory + (size_t)slot * SLOT + GRH;
	struct rs_from from;
	size_t len, head;

	if (wc->status)
		return;
	len = wc->byte_len > GRH ? wc->byte_len - GRH : 0;
	head = rs_ud_decode(data, len, &from);
	if (head)
		queue_up(rs, &from, data + head, len - head);
	post_receive(p, slot);
}

static bool poll_port(struct rsocket *rs, struct port *p)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int n, i;

	while ((n = ibv_poll_cq(p->cq, BATCH, wc)) > 0) {
		any = true;
		for (i = 0; i < n; i++) {
			if (wc[i].wr_id & RECEIVE)
				take_receive(rs, p, &wc[i]);
			else
				p->free_slot[p->free_slots++] = (uint16_t)wc[i].wr_id;
		}
	}
	return any;
}

static bool take_events(struct port *p)
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
		any |= poll_port(rs, list_entry(pos, struct port, node));
	return any;
}

bool rs_dgram_progress_all(struct rsocket *rs)
{
	struct list *pos;
	bool any = read_udp(rs);

	list_for_each (pos, &rs->dgram->ports)
		any |= take_events(list_entry(pos, struct port, node));
	return any;
}

unsigned int rs_dgram_arm(struct rsocket *rs, struct pollfd *fds)
{
	struct list *pos;

	list_for_each (pos, &rs->dgram->ports) {
		struct port *p = list_entry(pos, struct port, node);

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
		free_port(list_entry(d->ports.next, struct port, node));
	close(d->events);
	close(d->udp);
	free(d);
}

/* Watches the UDP socket from now on, because peers can reach its port. */
static int now_bound(struct rsocket *rs)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };
	socklen_t len = addr_len((struct sockaddr *)&any);
	struct rs_from self;

	if (rs->state == RS_CLOSED)
		return EBADF;
	if (rs->dgram->bound)
		return 0;
	if (getsockname(rs->fd, (struct sockaddr *)&any, &len))
		return errno;
	to_from(&any, &self);
	if (!self.port && bind(rs->fd, (struct sockaddr *)&any, len))
		return errno;
	rs->dgram->bound = true;
	return rs_watch(rs, rs->fd, udp_event);
}

int rs_dgram_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	return bind(rs->fd, addr, len) ? errno : now_bound(rs);
}

int rs_dgram_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct port *port;
	int err = now_bound(rs);

	if (err)
		return err;
	if (connect(rs->fd, addr, len))
		return errno;
	memset(&rs->dgram->peer, 0, sizeof(rs->dgram->peer));
	memcpy(&rs->dgram->peer, addr, addr_len(addr));
	rs->dgram->connected = true;
	return port_towards(rs, &rs->dgram->peer, &port);
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

static int send_udp(struct rsocket *rs, const struct port *port, const uint8_t *data, size_t n,
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
static int send_ud(struct port *port, const struct peer *peer, const uint8_t *data, size_t n)
{
	uint16_t slot = port->free_slot[--port->free_slots];
	uint8_t *at = port->memory + ((size_t)port->in_slots + slot) * SLOT;
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
		if (!list_entry(pos, struct port, node)->free_slots)
			return false;
	return true;
}

static int send_to(struct rsocket *rs, struct sockaddr_storage *to, const uint8_t *data, size_t n,
		   bool nonblock)
{
	struct port *port;
	struct peer *peer;
	struct rs_from at;
	int err;

	to_from(to, &at);
	peer = find_peer(rs->dgram, &at);
	if (!peer) {
		/* The peer's answer may have arrived. */
		read_udp(rs);
		peer = find_peer(rs->dgram, &at);
	}
	if (!peer) {
		err = port_towards(rs, to, &port);
		if (err)
			return err;
		if (n + RS_UD_HEADER_MAX > port->most)
			return EMSGSIZE;
		return send_udp(rs, port, data, n, to);
	}
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
		from_from(&g->from, rs->domain, &addr);
		rs_copy_name((struct sockaddr *)&addr, from, len);
	}
	if (flags & MSG_PEEK)
		return (ssize_t)n;
	list_del(&g->node);
	rs->dgram->queued -= g->len + sizeof(*g);
	free(g);
	return (ssize_t)n;
}
