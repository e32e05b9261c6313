/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: one recvmmsg(2) per family into the wire's cells; control messages tell where each
 * packet was sent to and how. Steering probes end here.
 */
#include <errno.h>
#include <string.h>

#include "run/log.h"
#include "util/atomic.h"
#include "wire/steer.h"
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

static void read_path(struct net_path *path, struct msghdr *mh, uint16_t port)
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
	}
}

/*
 * Makes the first `dirty` messages ready again. Few are, when little arrives, so that an empty poll
 * is cheap.
 */
static void clean(struct udp_wire *u)
{
	unsigned int i;

	for (i = 0; i < u->dirty; i++) {
		struct msghdr *mh = &u->mm[i].msg_hdr;
		struct udp_cell *cell = &u->cell[i];

		cell->iov = (struct iovec){ .iov_base = cell->data, .iov_len = sizeof(cell->data) };
		*mh = (struct msghdr){
			.msg_name = &cell->from,
			.msg_namelen = sizeof(cell->from),
			.msg_iov = &cell->iov,
			.msg_iovlen = 1,
			.msg_control = cell->control,
			.msg_controllen = sizeof(cell->control),
		};
	}
	u->dirty = 0;
}

void udp_recv_prepare(struct udp_wire *u)
{
	u->dirty = WIRE_BURST;
	clean(u);
}

/*
 * A probe that came back says where this socket is. Positions beyond the group's end arrive
 * anywhere, so the lowest is true.
 */
static bool take_probe(struct udp_wire *u, unsigned int family, const uint8_t *data, size_t len)
{
	int32_t *position = &u->position[family];
	uint16_t to;
	bool mine;

	if (!steer_probe_read(data, len, u->nonce, &mine, &to))
		return false;
	u->wire.stats.probes++;
	if (mine && (*position < 0 || to < *position))
		store_relaxed(position, to);
	return true;
}

static bool accept_message(struct udp_wire *u, unsigned int family, struct mmsghdr *mm,
			   struct wire_pkt *pkt)
{
	uint8_t *data = mm->msg_hdr.msg_iov->iov_base;

	if (mm->msg_hdr.msg_flags & MSG_TRUNC) {
		u->wire.stats.recv_truncated++;
		return false;
	}
	if (take_probe(u, family, data, mm->msg_len))
		return false;
	*pkt = (struct wire_pkt){ .data = data, .len = mm->msg_len };
	read_path(&pkt->path, &mm->msg_hdr, u->wire.port);
	u->wire.stats.received++;
	return true;
}

/* Messages into mm, from one socket; errors that are pending on it are drained. */
static unsigned int receive(struct udp_wire *u, unsigned int family, struct mmsghdr *mm,
			    unsigned int n)
{
	int got = -1, tries;

	for (tries = 0; tries < WIRE_BURST && got < 0; tries++) {
		got = recvmmsg(u->fd[family], mm, n, MSG_DONTWAIT, NULL);
		if (got >= 0 || errno == EAGAIN)
			break;
		if (errno != EINTR)
			u->wire.stats.recv_errors++;
	}
	return got > 0 ? (unsigned int)got : 0;
}

unsigned int udp_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	struct udp_wire *u = to_udp(w);
	unsigned int used = 0, out = 0, turn, i;

	n = min(n, (unsigned int)WIRE_BURST);
	u->turn ^= 1;
	clean(u);
	for (turn = 0; turn < UDP_FAMILIES && used < n; turn++) {
		unsigned int family = (u->turn + turn) % UDP_FAMILIES;
		unsigned int got;

		if (u->fd[family] < 0)
			continue;
		got = receive(u, family, u->mm + used, n - used);
		for (i = 0; i < got; i++)
			out += accept_message(u, family, &u->mm[used + i], &pkts[out]);
		used += got;
	}
	u->dirty = used;
	return out;
}
