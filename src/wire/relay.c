/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/relay.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/cancel.h"
#include "wire/udp_state.h"

enum {
	PORTS = 49152,		/* the first of the dynamic ports (RFC 6335) */
	MAGIC = 0x56524252,	/* "VRBR" */
	TRIES = 3,
	HOP_LIMIT = 64,
};

struct relay_head {
	uint32_t magic;
	uint32_t ifindex;
	uint32_t flow_label;
	uint16_t src_port, dst_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[6];
	struct net_addr src, dst;
};
static_assert(sizeof(struct relay_head) == 56, "head of a relayed packet");
static_assert(WIRE_MAX_PACKET + sizeof(struct relay_head) <= UDP_CELL, "it can be received");

uint16_t relay_port(unsigned int number)
{
	return (uint16_t)(PORTS + number - NET_RELAY_FIRST);
}

static socklen_t loopback(union udp_sockaddr *to, unsigned int family, uint16_t port)
{
	if (family == UDP_IPV4) {
		to->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
					       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		return sizeof(to->v4);
	}
	to->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	return sizeof(to->v6);
}

/* Loopback usually tells at once that nobody has the port. The error queue keeps what ICMP says. */
static int take_error(int fd)
{
	socklen_t len = sizeof(int);
	int err = 0;

	return SYS_RESULT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len)) < 0 ? 0 : err;
}

int relay_packet(struct wire *w, unsigned int number, const struct net_path *path,
		 const void *data, size_t len, bool look)
{
	unsigned int family = w->ipv4 ? UDP_IPV4 : UDP_IPV6;
	struct relay_head head = {
		.magic = MAGIC, .ifindex = path->ifindex, .flow_label = path->flow_label,
		.src_port = path->src_port, .dst_port = path->dst_port,
		.traffic_class = path->traffic_class, .hop_limit = path->hop_limit,
		.src = path->src, .dst = path->dst,
	};
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)data, len } };
	union udp_sockaddr to;
	struct msghdr mh = { .msg_name = &to, .msg_iov = iov, .msg_iovlen = 2 };
	int fd = to_udp(w)->fd[family];
	ssize_t sent = -EINTR;

	if (number < NET_RELAY_FIRST || number > NET_RELAY_LAST || load_relaxed(&w->relayed) ||
	    number == to_udp(w)->number)
		return ENOENT;
	mh.msg_namelen = loopback(&to, family, relay_port(number));
	if (look)
		take_error(fd);
	/* The error of an older packet is told once. */
	for (unsigned int i = 0; sent < 0 && sent != -EAGAIN && i < TRIES; i++)
		sent = sys_sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return (int)-sent;
	return look && take_error(fd) == ECONNREFUSED ? ENOENT : 0;
}

/* The addresses from and to which packets are relayed. */
static const struct net_addr loopback_ipv4 = { .raw = { [10] = 0xff, [11] = 0xff,
						       [12] = 127, [15] = 1 } };
static const struct net_addr loopback_ipv6 = { .raw = { [15] = 1 } };

bool relay_is_at(const struct net_addr *dst, uint16_t port)
{
	return port >= relay_port(NET_RELAY_FIRST) && port <= relay_port(NET_RELAY_LAST) &&
	       (net_addr_equal(dst, &loopback_ipv4) || net_addr_equal(dst, &loopback_ipv6));
}

unsigned int relay_number_of(const struct net_path *path)
{
	if (!relay_is_at(&path->src, path->src_port))
		return 0;
	return path->src_port - PORTS + NET_RELAY_FIRST;
}

struct net_path relay_path(const struct wire *w, uint16_t src_port, uint16_t dst_port)
{
	const struct net_addr *at = load_relaxed(&w->ipv4) ? &loopback_ipv4 : &loopback_ipv6;

	return (struct net_path){ .src = *at, .dst = *at, .src_port = src_port,
				  .dst_port = dst_port, .hop_limit = HOP_LIMIT };
}

/*
 * Only where a holder sends from: it may not have the port of the other family, and a host nearby
 * may send from other addresses of 127.0.0.0/8 to interfaces with route_localnet.
 */
static bool is_from_holder(const struct wire *w, const struct net_path *path)
{
	return path->src_port == w->port &&
	       net_addr_equal(&path->src, load_relaxed(&w->ipv4) ? &loopback_ipv4 : &loopback_ipv6);
}

bool relay_unwrap(const struct wire *w, struct wire_pkt *pkt)
{
	struct relay_head head;

	if (!is_from_holder(w, &pkt->path) || pkt->len <= sizeof(head) ||
	    pkt->len > sizeof(head) + WIRE_MAX_PACKET)
		return false;
	memcpy(&head, pkt->data, sizeof(head));
	if (head.magic != MAGIC)
		return false;
	pkt->path = (struct net_path){
		.src = head.src, .dst = head.dst, .ifindex = head.ifindex,
		.flow_label = head.flow_label & 0xfffff, .src_port = head.src_port,
		.dst_port = head.dst_port, .traffic_class = head.traffic_class,
		.hop_limit = head.hop_limit,
	};
	pkt->data += sizeof(head);
	pkt->len -= sizeof(head);
	pkt->ip_id = 0;
	pkt->id_known = false;
	return true;
}
