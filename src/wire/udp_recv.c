/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: one recvmmsg(2) into the wire's cells. Control messages give the destination and
 * traffic class of each message, and the packet length if the kernel has merged several packets
 * into it (UDP_GRO, once there has been a burst). Each call returns packets cut from these
 * messages. Steering probes are consumed here.
 */
#include <errno.h>
#include <string.h>
#include <time.h>	/* must precede <linux/errqueue.h> */
#include <unistd.h>

#include <linux/errqueue.h>
#include <netinet/ip_icmp.h>

#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/tuning.h"
#include "wire/udp.h"
#include "wire/relay.h"
#include "wire/udp_state.h"

static void map_ipv4(struct net_addr *a, const struct in_addr *ipv4)
{
	*a = (struct net_addr){ .raw = { [10] = 0xff, [11] = 0xff } };
	memcpy(a->raw + 12, ipv4, 4);
}

static void read_ipv4(struct net_path *path, const struct cmsghdr *c)
{
	const void *data = CMSG_DATA(c);
	struct in_pktinfo info;
	int ttl;

	switch (c->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, data, sizeof(info));
		map_ipv4(&path->dst, &info.ipi_addr);
		path->ifindex = (uint32_t)info.ipi_ifindex;
		break;
	case IP_TOS:
		memcpy(&path->traffic_class, data, 1);
		break;
	case IP_TTL:
		memcpy(&ttl, data, sizeof(ttl));
		path->hop_limit = (uint8_t)ttl;
		break;
	}
}

static void read_ipv6(struct net_path *path, const struct cmsghdr *c)
{
	const void *data = CMSG_DATA(c);
	struct in6_pktinfo info;
	uint32_t flow;
	int value;

	switch (c->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, data, sizeof(info));
		memcpy(path->dst.raw, &info.ipi6_addr, 16);
		path->ifindex = info.ipi6_ifindex;
		break;
	case IPV6_TCLASS:
		memcpy(&value, data, sizeof(value));
		path->traffic_class = (uint8_t)value;
		break;
	case IPV6_HOPLIMIT:
		memcpy(&value, data, sizeof(value));
		path->hop_limit = (uint8_t)value;
		break;
	case IPV6_FLOWINFO:
		memcpy(&flow, data, sizeof(flow));
		path->flow_label = ntohl(flow) & 0xfffff;
		break;
	}
}

enum { ERRORS = 64 };	/* taken from a socket per call */

static void read_segment(uint32_t *segment, const struct cmsghdr *c)
{
	int value;

	memcpy(&value, CMSG_DATA(c), sizeof(value));
	if (value > 0)
		*segment = (uint32_t)value;
}

/*
 * *segment: if the kernel has merged packets, the length of all but the last. *lost: how many
 * packets have found the receive buffer full since the socket was created; not logged while it is
 * 0.
 */
static void read_path(struct net_path *path, struct msghdr *mh, uint16_t port, uint32_t *segment,
		      uint32_t *lost)
{
	const union udp_sockaddr *from = mh->msg_name;
	struct cmsghdr *c;

	memset(path, 0, sizeof(*path));
	path->dst_port = port;
	if (from->sa.sa_family == AF_INET) {
		map_ipv4(&path->src, &from->v4.sin_addr);
		path->src_port = ntohs(from->v4.sin_port);
	} else {
		memcpy(path->src.raw, &from->v6.sin6_addr, 16);
		path->src_port = ntohs(from->v6.sin6_port);
	}
	for (c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			read_ipv4(path, c);
		else if (c->cmsg_level == IPPROTO_IPV6)
			read_ipv6(path, c);
		else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == OPT_UDP_GRO)
			read_segment(segment, c);
		else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL)
			memcpy(lost, CMSG_DATA(c), sizeof(*lost));
	}
}

/* Logged once, to explain slow connections: senders slow down until no packets are lost. */
static void note_overflow(struct udp_wire *u, uint32_t lost)
{
	static bool logged;
	int size = 0;
	socklen_t len = sizeof(size);
	uint64_t n = lost - u->overflow[u->family];

	u->overflow[u->family] = lost;
	/* The kernel counts both as one. */
	if (load_relaxed(&u->limited)) {
		u->wire.stats.recv_not_admitted += n;
		return;
	}
	u->wire.stats.recv_overflow += n;
	if (load_relaxed(&logged))
		return;
	store_relaxed(&logged, true);
	(void)SYS_RESULT(getsockopt(u->fd[u->family], SOL_SOCKET, SO_RCVBUF, &size, &len));
	log_warn(LOG_WIRE,
		 "packets were lost: the receive buffer of UDP port %u (%d KiB) was full, "
		 "net.core.rmem_max limits it; or they were damaged (nstat UdpInCsumErrors)",
		 u->wire.port, size / 1024);
}

/* <linux/sock_diag.h> has names for them, and much else. */
enum {
	MEMINFO_QUEUED = 0,
	MEMINFO_BUFFER = 1,
	MEMINFO_VARS = 9,
	ECN_MASK = 3,
	ECN_NOT_ECT = 0,
	ECN_CE = 3,
};

static uint32_t nearly_all(uint32_t buffer)
{
	return buffer / 4 * 3;
}

/* False if the kernel does not report it. */
static bool queue_is_nearly_full(struct udp_wire *u, unsigned int family)
{
	uint32_t info[MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (SYS_RESULT(getsockopt(u->fd[family], SOL_SOCKET, SO_MEMINFO, info, &len)) < 0)
		return false;
	u->buffer[family] = info[MEMINFO_BUFFER];
	return info[MEMINFO_QUEUED] > nearly_all(info[MEMINFO_BUFFER]);
}

uint32_t udp_backlog(const struct wire *w)
{
	const struct udp_wire *u = container_of(w, struct udp_wire, wire);

	return max(load_relaxed(&u->backlog[UDP_IPV4]), load_relaxed(&u->backlog[UDP_IPV6]));
}

/*
 * The level costs a system call, so it is read only where it may be high: if the last call left
 * messages behind, or took a quarter of the buffer, as counted by their length. Otherwise it took
 * all that was queued, which occupied up to three times that.
 */
static bool may_be_full(const struct udp_wire *u, unsigned int family)
{
	return u->got_bytes >= TUNE_SOCKET_CROWD &&
	       (load_relaxed(&u->backlog[family]) || u->got_bytes >= u->buffer[family] / 4);
}

/*
 * The socket's buffer is the last queue of the path and marks packets as a router does: if more
 * than three quarters are in use, ECN-capable packets are marked, so that their senders slow down
 * before any is lost. The kernel counts the memory that packets occupy, which may be several times
 * their length, and may release received packets late, by a quarter of the buffer.
 *
 * u->got_bytes is that of the call before. After a call, those that it took are a lower bound of
 * what was in use, for which no system call is needed.
 */
static bool was_nearly_full(struct udp_wire *u, unsigned int family)
{
	return may_be_full(u, family) && queue_is_nearly_full(u, family);
}

static bool took_nearly_all(const struct udp_wire *u, unsigned int family)
{
	return u->buffer[family] && u->got_bytes > nearly_all(u->buffer[family]);
}

static void mark(struct udp_wire *u, struct net_path *path)
{
	if (likely(!u->nearly_full) || (path->traffic_class & ECN_MASK) == ECN_NOT_ECT)
		return;
	path->traffic_class |= ECN_CE;
	u->wire.stats.recv_marked++;
}

/* Resets the first n messages for reuse. When little arrives, these are few. */
static void clean(struct udp_wire *u, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct msghdr *mh = &u->mm[i].msg_hdr;

		mh->msg_namelen = sizeof(u->cell[i].from);
		mh->msg_controllen = sizeof(u->cell[i].control);
		mh->msg_flags = 0;
	}
}

void udp_recv_prepare(struct udp_wire *u)
{
	unsigned int i;

	for (i = 0; i < UDP_MESSAGES; i++) {
		struct udp_cell *cell = &u->cell[i];

		cell->iov = (struct iovec){ u->data[i], UDP_CELL };
		u->mm[i].msg_hdr = (struct msghdr){
			.msg_name = &cell->from,
			.msg_iov = &cell->iov,
			.msg_iovlen = 1,
			.msg_control = cell->control,
		};
	}
	clean(u, UDP_MESSAGES);
	u->got = u->next = 0;
}

/*
 * A probe that returns tells the position of this socket. Positions beyond the group's end arrive
 * anywhere, so the lowest one is correct. Those of the other family are looked for at once: the
 * caller acts on both together.
 */
static bool take_probe(struct udp_wire *u, const uint8_t *data, size_t len)
{
	int32_t *position = &u->position[u->family];
	uint16_t to;
	bool mine;

	if (!steer_probe_read(data, len, load_relaxed(&u->nonce), &mine, &to))
		return false;
	u->wire.stats.probes++;
	if (mine && (load_relaxed(position) < 0 || to < load_relaxed(position)))
		store_relaxed(position, to);
	if (mine)
		u->first = u->family ^ 1;
	return true;
}

/* Reads the destination of a packet that an ICMP message reports, and returns the port. */
static uint16_t read_destination(struct net_addr *dst, const union udp_sockaddr *to)
{
	if (to->sa.sa_family == AF_INET) {
		map_ipv4(dst, &to->v4.sin_addr);
		return ntohs(to->v4.sin_port);
	}
	memcpy(dst->raw, &to->v6.sin6_addr, 16);
	return ntohs(to->v6.sin6_port);
}

/* For IPv4 the kernel takes a router that forbids a packet for one that cannot pass it on. */
static int meaning(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP && e->ee_type == ICMP_DEST_UNREACH &&
	    (e->ee_code == ICMP_NET_ANO || e->ee_code == ICMP_HOST_ANO ||
	     e->ee_code == ICMP_PKT_FILTERED))
		return EACCES;
	return (int)e->ee_errno;
}

static void note_error(struct udp_wire *u, struct msghdr *mh)
{
	struct sock_extended_err e;
	struct net_addr dst;
	struct cmsghdr *c;
	uint16_t port;

	for (c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
		    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		port = read_destination(&dst, mh->msg_name);
		log_debug(LOG_WIRE, "ICMP error for a sent packet: %s", strerror(meaning(&e)));
		/* This process's own QPs send to the RoCEv2 port. */
		if (e.ee_errno && !relay_is_at(&dst, port))
			path_errors_note(u->wire.path_errors, &dst, meaning(&e), clock_now());
	}
}

/* While errors are pending, the descriptor polls as ready. */
static void drain_errors(struct udp_wire *u, int fd)
{
	union udp_sockaddr to;
	uint8_t control[UDP_RECV_CONTROL] __attribute__((aligned(sizeof(struct cmsghdr))));
	uint8_t packet[64];
	struct iovec iov = { packet, sizeof(packet) };
	int i;

	for (i = 0; fd >= 0 && i < ERRORS; i++) {
		struct msghdr mh = {
			.msg_name = &to,
			.msg_namelen = sizeof(to),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		memset(&to, 0, sizeof(to));
		if (sys_recvmsg(fd, &mh, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		u->wire.stats.recv_errors++;
		note_error(u, &mh);
	}
}

static void count_backlog(struct udp_wire *u, unsigned int family, int got)
{
	uint32_t *backlog = &u->backlog[family];

	store_relaxed(backlog, got == UDP_MESSAGES ? load_relaxed(backlog) + UDP_MESSAGES : 0);
}

/* Messages from one socket; errors that are pending on it are drained. */
static unsigned int receive(struct udp_wire *u, unsigned int family)
{
	int got = -1, tries;

	if (u->fd[family] < 0)
		return 0;
	u->nearly_full = was_nearly_full(u, family);
	for (tries = 0; tries < UDP_MESSAGES; tries++) {
		got = sys_recvmmsg(u->fd[family], u->mm, UDP_MESSAGES, MSG_DONTWAIT);
		if (got >= 0 || got == -EAGAIN)
			break;
		if (got != -EINTR)
			drain_errors(u, u->fd[family]);
	}
	u->got_bytes = 0;
	count_backlog(u, family, got);
	if (got <= 0)
		return 0;
	u->family = u->first = family;
	u->got = (unsigned int)got;
	for (unsigned int i = 0; i < u->got; i++)
		u->got_bytes += u->mm[i].msg_len;
	u->nearly_full |= took_nearly_all(u, family);
	return u->got;
}

/* All messages have been returned. */
static void begin_messages(struct udp_wire *u)
{
	clean(u, u->got);
	u->got = u->next = 0;
	u->cut.offset = 0;
}

/* Refills the messages: usually one system call, rarely two. */
static bool refill(struct udp_wire *u)
{
	unsigned int family = u->family;
	bool turn = u->first == family && ++u->turn % UDP_OTHER_EVERY == 0;

	begin_messages(u);
	if (turn || u->first != family) {
		u->first = family;
		if (receive(u, family ^ 1)) {
			/* A turn must not leave the other family unread for longer. */
			if (turn)
				u->first = family;
			return true;
		}
	}
	return receive(u, family) > 0;
}

static void begin_message(struct udp_wire *u, struct mmsghdr *mm)
{
	struct udp_cut *cut = &u->cut;
	uint32_t lost = u->overflow[u->family];

	cut->segment = mm->msg_len;
	cut->index = 0;
	read_path(&cut->path, &mm->msg_hdr, u->wire.port, &cut->segment, &lost);
	if (unlikely(lost != u->overflow[u->family]))
		note_overflow(u, lost);
	mark(u, &cut->path);
	if (cut->segment < mm->msg_len)
		u->wire.stats.recv_runs++;
}

/* Cuts the next packet from the current message; false if it is not for the caller. */
static bool cut_packet(struct udp_wire *u, struct wire_pkt *pkt)
{
	struct mmsghdr *mm = &u->mm[u->next];
	struct udp_cut *cut = &u->cut;
	uint8_t *data = u->data[u->next];
	uint32_t len;

	if (!cut->offset)
		begin_message(u, mm);
	data += cut->offset;
	len = min(cut->segment, mm->msg_len - cut->offset);
	cut->offset += len;
	if (cut->offset >= mm->msg_len) {
		cut->offset = 0;
		u->next++;
	}
	*pkt = (struct wire_pkt){ .path = cut->path, .data = data, .len = len,
				  .ip_id = cut->index++ };
	if (unlikely(u->wire.relayed) && !relay_unwrap(&u->wire, pkt))
		return false;
	if (mm->msg_hdr.msg_flags & MSG_TRUNC || pkt->len > WIRE_MAX_PACKET) {
		u->wire.stats.recv_truncated++;
		return false;
	}
	if (take_probe(u, data, len))
		return false;
	u->wire.stats.received++;
	return true;
}

/*
 * Most processes get few packets by UDP, or none. The host's first socket with this option, and the
 * end of the last one, make the kernel change its own code, which interrupts all CPUs and takes
 * half a millisecond.
 */
static void start_merging(struct udp_wire *u)
{
	const int on = 1;

	u->merges[u->family] = true;
	(void)SYS_RESULT(setsockopt(u->fd[u->family], IPPROTO_UDP, OPT_UDP_GRO, &on, sizeof(on)));
}

unsigned int udp_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	struct udp_wire *u = to_udp(w);
	unsigned int out = 0, rounds = 0;

	/* A message may contain no packet for the caller while the other family has some. */
	while (!out && (u->next < u->got || (rounds++ < UDP_OTHER_EVERY && refill(u))))
		while (out < n && u->next < u->got)
			out += cut_packet(u, &pkts[out]);
	if (!out && u->woken) {
		drain_errors(u, u->fd[UDP_IPV4]);
		drain_errors(u, u->fd[UDP_IPV6]);
	}
	u->woken = false;
	w->held = u->next < u->got;
	if (unlikely(out >= UDP_MERGE_FROM && !u->merges[u->family]))
		start_merging(u);
	return out;
}

void udp_end(struct wire *w, unsigned int family)
{
	struct udp_wire *u = to_udp(w);
	int fd = u->fd[family];

	if (fd < 0)
		return;
	begin_messages(u);
	w->held = receive(u, family) > 0;
	/* First: a child forked meanwhile closes what it finds; and others may be in udp_fds(). */
	store_relaxed(&u->fd[family], -1);
	close(fd);
}

void udp_look(struct wire *w, int fd, bool readable)
{
	struct udp_wire *u = to_udp(w);

	u->woken |= readable;
	if (u->next == u->got && fd >= 0)
		u->first = fd == u->fd[UDP_IPV6] ? UDP_IPV6 : UDP_IPV4;
}
