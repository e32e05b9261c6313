/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: one sendmmsg(2) per stretch of packets of one family. A message is a packet or a run of
 * packets (UDP_SEGMENT), with source address, hop limit, flow label, and a traffic class other than
 * the socket's as control messages. The socket has no hop limit of its own, because packets without
 * an explicit one must use the route's.
 */
#include <errno.h>
#include <string.h>

#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/own_memory.h"
#include "wire/udp_state.h"

enum {
	SEND_CONTROL = CMSG_SPACE(sizeof(struct in6_pktinfo)) + 4 * CMSG_SPACE(sizeof(int)),
	RETRIES = 8,	/* for one packet, after an error caused by another */
};

struct batch {
	unsigned int n, iovs;
	struct mmsghdr mm[WIRE_BURST];
	unsigned int pkts[WIRE_BURST];	/* packets in message i */
	struct iovec iov[WIRE_BURST];
	union udp_sockaddr to[WIRE_BURST];
	uint8_t control[WIRE_BURST][SEND_CONTROL] __attribute__((aligned(sizeof(struct cmsghdr))));
};

static __thread struct batch *own static_tls;

static void forget_own(void)
{
	own = NULL;
}

/* NULL: no memory. */
static struct batch *own_batch(void)
{
	if (likely(own))
		return own;
	own = own_memory(sizeof(*own), forget_own);
	if (own)
		memset(own, 0, sizeof(*own));
	return own;
}

static void add_control(struct msghdr *mh, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)mh->msg_control + mh->msg_controllen);

	/* Whole, as musl has a padding that the kernel takes for a half of the length. */
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };
	memcpy(CMSG_DATA(c), data, len);
	mh->msg_controllen += CMSG_SPACE(len);
}

static void add_int(struct msghdr *mh, int level, int type, int value)
{
	add_control(mh, level, type, &value, sizeof(value));
}

/*
 * Returns the interface if routing needs it. Naming it in other cases would keep packets to other
 * local addresses from arriving.
 */
static uint32_t bound_interface(const struct net_path *path)
{
	bool bound = net_is_multicast(&path->dst) || net_is_link_local(&path->dst) ||
		     net_is_link_local(&path->src);

	return bound ? path->ifindex : 0;
}

static void address_ipv4(struct msghdr *mh, union udp_sockaddr *to, const struct net_path *path,
			 uint16_t port, int usual_class)
{
	struct in_pktinfo info = { .ipi_ifindex = (int)bound_interface(path) };

	to->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	memcpy(&to->v4.sin_addr, path->dst.raw + 12, 4);
	mh->msg_namelen = sizeof(to->v4);

	memcpy(&info.ipi_spec_dst, path->src.raw + 12, 4);
	add_control(mh, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (path->traffic_class != usual_class)
		add_int(mh, IPPROTO_IP, IP_TOS, path->traffic_class);
	if (path->hop_limit)
		add_int(mh, IPPROTO_IP, IP_TTL, path->hop_limit);
}

static void address_ipv6(struct msghdr *mh, union udp_sockaddr *to, const struct net_path *path,
			 uint16_t port, int usual_class, bool flow_label)
{
	struct in6_pktinfo info = { .ipi6_ifindex = bound_interface(path) };

	to->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port) };
	memcpy(&to->v6.sin6_addr, path->dst.raw, 16);
	to->v6.sin6_scope_id = info.ipi6_ifindex;
	mh->msg_namelen = sizeof(to->v6);

	memcpy(&info.ipi6_addr, path->src.raw, 16);
	add_control(mh, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (path->traffic_class != usual_class)
		add_int(mh, IPPROTO_IPV6, IPV6_TCLASS, path->traffic_class);
	if (path->hop_limit)
		add_int(mh, IPPROTO_IPV6, IPV6_HOPLIMIT, path->hop_limit);
	if (flow_label && path->flow_label)
		add_int(mh, IPPROTO_IPV6, IPV6_FLOWINFO, (int)htonl(path->flow_label & 0xfffff));
}

static void address(struct udp_wire *u, struct msghdr *mh, union udp_sockaddr *to,
		    const struct net_path *path)
{
	if (net_is_ipv4(&path->dst))
		address_ipv4(mh, to, path, u->wire.port, u->usual_class[UDP_IPV4]);
	else
		address_ipv6(mh, to, path, u->wire.port, u->usual_class[UDP_IPV6],
			     !load_relaxed(&u->no_flow_label));
}

/* Adjacent packets share an entry. */
static void add_data(struct batch *b, struct msghdr *mh, const struct wire_pkt *pkt)
{
	struct iovec *last = mh->msg_iovlen ? &b->iov[b->iovs - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == pkt->data) {
		last->iov_len += pkt->len;
		return;
	}
	b->iov[b->iovs++] = (struct iovec){ .iov_base = pkt->data, .iov_len = pkt->len };
	mh->msg_iovlen++;
}

/* Adds one message with the packet at pkts and those of its run; returns their number. */
static unsigned int add_message(struct udp_wire *u, struct batch *b, const struct wire_pkt *pkts,
				unsigned int n)
{
	unsigned int i = b->n++, k = 0;
	struct msghdr *mh = &b->mm[i].msg_hdr;
	uint16_t segment = (uint16_t)pkts[0].len;

	*mh = (struct msghdr){
		.msg_name = &b->to[i],
		.msg_iov = &b->iov[b->iovs],
		.msg_control = b->control[i],
	};
	address(u, mh, &b->to[i], &pkts[0].path);
	do
		add_data(b, mh, &pkts[k++]);
	while (k < n && pkts[k].ip_id);
	if (k > 1) {
		add_control(mh, IPPROTO_UDP, OPT_UDP_SEGMENT, &segment, sizeof(segment));
		fetch_add_relaxed(&u->wire.stats.send_runs, 1);
	}
	b->pkts[i] = k;
	return k;
}

enum verdict {
	RETRY,
	FULL,
	LOST,
	ALONE,
};

/*
 * Some devices and routes do not support runs; that is remembered. An interface whose MTU is too
 * small for the packets reports the same error, but only for itself.
 */
static bool refuses_run(struct udp_wire *u, int err)
{
	if (err == EIO)
		store_relaxed(&u->wire.runs, false);
	return err == EIO || err == EINVAL || err == EMSGSIZE;
}

/*
 * Decides what to do with the first message of a batch, which could not be sent. A first error may
 * be an ICMP message about an earlier packet, which the kernel reports once.
 */
static enum verdict judge(struct udp_wire *u, const struct wire_pkt *pkt, bool run, bool first,
			  int err)
{
	struct wire_stats *s = &u->wire.stats;

	switch (err) {
	case EAGAIN:
	case ENOMEM:
		fetch_add_relaxed(&s->send_full, 1);
		return FULL;
	case ENOBUFS:	/* the interface's queue is full and dropped it, as a router would */
		fetch_add_relaxed(&s->send_full, 1);
		return LOST;
	case EINTR:
	case ECONNREFUSED:
		return RETRY;
	}
	if (first)
		return RETRY;
	if (run && refuses_run(u, err))
		return ALONE;
	path_errors_note(u->wire.path_errors, &pkt->path.dst, err, clock_now());
	switch (err) {
	case EMSGSIZE:
		fetch_add_relaxed(&s->send_too_long, 1);
		log_limited(LOG_WIRE, LOG_WARN, "a packet of %u bytes exceeds its interface's MTU",
			    pkt->len);
		return LOST;
	case EINVAL:
		/*
		 * Older kernels require a lease on a flow label. It is only entropy: do without it
		 * from now on.
		 */
		if (pkt->path.flow_label && !net_is_ipv4(&pkt->path.dst) &&
		    !load_relaxed(&u->no_flow_label)) {
			store_relaxed(&u->no_flow_label, true);
			return RETRY;
		}
		break;
	}
	fetch_add_relaxed(&s->send_refused, 1);
	log_limited(LOG_WIRE, LOG_DEBUG, "the kernel refused a packet: %s", strerror(err));
	return LOST;
}

static unsigned int same_family(const struct wire_pkt *pkts, unsigned int n)
{
	bool ipv4 = net_is_ipv4(&pkts[0].path.dst);
	unsigned int i = 1;

	while (i < n && net_is_ipv4(&pkts[i].path.dst) == ipv4)
		i++;
	return i;
}

/* Returns how many packets are in the first n messages. */
static unsigned int packets_in(const struct batch *b, unsigned int n)
{
	unsigned int i, sum = 0;

	for (i = 0; i < n; i++)
		sum += b->pkts[i];
	return sum;
}

/*
 * Sends one stretch from its start. Returns how many packets have been handled, 0 if the socket is
 * full or a run must be split, and sets *retry if the same message must be tried again.
 */
static unsigned int send_stretch(struct udp_wire *u, struct batch *b, struct wire_pkt *pkts,
				 unsigned int n, bool first, bool *retry)
{
	int fd = u->fd[net_is_ipv4(&pkts[0].path.dst) ? UDP_IPV4 : UDP_IPV6];
	unsigned int i = 0, done;
	enum verdict v;
	int sent;

	*retry = false;
	if (fd < 0) {
		fetch_add_relaxed(&u->wire.stats.send_refused, n);
		return n;
	}
	b->n = b->iovs = 0;
	while (i < n)
		i += add_message(u, b, pkts + i, n - i);
	sent = sys_sendmmsg(fd, b->mm, b->n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0) {
		done = packets_in(b, (unsigned int)sent);
		fetch_add_relaxed(&u->wire.stats.sent, done);
		return done;
	}
	v = judge(u, &pkts[0], b->pkts[0] > 1, first, sent < 0 ? -sent : EAGAIN);
	*retry = v == RETRY;
	pkts[0].alone = v == ALONE;
	return v == LOST ? b->pkts[0] : 0;
}

unsigned int udp_send(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	struct udp_wire *u = to_udp(w);
	struct batch *b = own_batch();
	unsigned int done = 0, retries = 0;

	n = min(n, (unsigned int)WIRE_BURST);
	if (unlikely(!b)) {	/* lost, as when the kernel has no memory */
		fetch_add_relaxed(&w->stats.send_full, n);
		return n;
	}
	while (done < n) {
		bool retry;
		unsigned int k = send_stretch(u, b, pkts + done,
					      same_family(pkts + done, n - done), !retries,
					      &retry);

		if (!k && !(retry && retries++ < RETRIES))
			break;
		done += k;
		retries = k ? 0 : retries;
	}
	return done;
}
