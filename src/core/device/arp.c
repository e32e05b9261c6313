/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbour lookup by route netlink: RTM_GETROUTE finds the next hop, RTM_GETNEIGH its link
 * address. An empty datagram to the discard port makes the kernel resolve an unknown neighbour.
 */
#include "core/device/arp.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/device/port.h"
#include "util/sleep.h"

enum {
	TRIES = 20, /* one second in total */
	TRY_MSEC = 50,
	ANSWER_MSEC = 200,
};

/* Address family and length of an address in netlink. */
static int family_of(const struct net_addr *a)
{
	return net_is_ipv4(a) ? AF_INET : AF_INET6;
}

static const void *bytes_of(const struct net_addr *a)
{
	return net_is_ipv4(a) ? a->raw + 12 : a->raw;
}

static size_t length_of(const struct net_addr *a)
{
	return net_is_ipv4(a) ? 4 : 16;
}

struct request {
	struct nlmsghdr nlh;
	union {
		struct rtmsg route;
		struct ndmsg neigh;
	};
	uint8_t attrs[64];
};

static void add_attr(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *rta = (struct rtattr *)((char *)r + NLMSG_ALIGN(r->nlh.nlmsg_len));

	rta->rta_type = type;
	rta->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(rta), data, len);
	r->nlh.nlmsg_len = NLMSG_ALIGN(r->nlh.nlmsg_len) + RTA_ALIGN(rta->rta_len);
}

/*
 * Sends one request and receives one reply of at most cap bytes. Returns its length, or -1 with
 * errno.
 */
static ssize_t ask(const struct request *r, void *buf, size_t cap)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	if (send(fd, r, r->nlh.nlmsg_len, 0) == (ssize_t)r->nlh.nlmsg_len &&
	    poll(&pfd, 1, ANSWER_MSEC) == 1)
		n = recv(fd, buf, cap, MSG_DONTWAIT);
	close(fd);
	return n;
}

/* Finds an attribute of the given length in a reply of the given type; NULL if there is none. */
static const void *find_attr(const struct nlmsghdr *nlh, ssize_t n, uint16_t msg, size_t header,
			     uint16_t type, size_t len)
{
	const struct rtattr *rta;
	int left;

	if (n < 0 || !NLMSG_OK(nlh, (size_t)n) || nlh->nlmsg_type != msg ||
	    nlh->nlmsg_len < NLMSG_LENGTH(header))
		return NULL;
	rta = (const struct rtattr *)((const char *)NLMSG_DATA(nlh) + NLMSG_ALIGN(header));
	left = nlh->nlmsg_len - NLMSG_SPACE(header);
	for (; RTA_OK(rta, left); rta = RTA_NEXT(rta, left))
		if ((rta->rta_type & NLA_TYPE_MASK) == type && RTA_PAYLOAD(rta) == len)
			return RTA_DATA(rta);
	return NULL;
}

/* The gateway toward dst, or dst itself. */
static int next_hop(uint32_t ifindex, const struct net_addr *dst, struct net_addr *hop)
{
	struct request r = {
		.nlh = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = family_of(dst), .rtm_dst_len = length_of(dst) * 8 },
	};
	union {
		struct nlmsghdr nlh;
		char buf[4096];
	} a;
	const void *gw;
	ssize_t n;

	add_attr(&r, RTA_DST, bytes_of(dst), length_of(dst));
	add_attr(&r, RTA_OIF, &ifindex, sizeof(ifindex));
	n = ask(&r, &a, sizeof(a));
	if (n < 0 || a.nlh.nlmsg_type == NLMSG_ERROR)
		return ENETUNREACH;
	*hop = *dst;
	gw = find_attr(&a.nlh, n, RTM_NEWROUTE, sizeof(struct rtmsg), RTA_GATEWAY, length_of(dst));
	if (gw)
		memcpy(hop->raw + (net_is_ipv4(dst) ? 12 : 0), gw, length_of(dst));
	return 0;
}

static bool lookup(uint32_t ifindex, const struct net_addr *hop, uint8_t mac[6])
{
	struct request r = {
		.nlh = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
			 .nlmsg_type = RTM_GETNEIGH,
			 .nlmsg_flags = NLM_F_REQUEST },
		.neigh = { .ndm_family = family_of(hop), .ndm_ifindex = ifindex },
	};
	union {
		struct nlmsghdr nlh;
		char buf[4096];
	} a;
	const struct ndmsg *nd = NLMSG_DATA(&a.nlh);
	const void *ll;
	ssize_t n;

	add_attr(&r, NDA_DST, bytes_of(hop), length_of(hop));
	n = ask(&r, &a, sizeof(a));
	ll = find_attr(&a.nlh, n, RTM_NEWNEIGH, sizeof(struct ndmsg), NDA_LLADDR, 6);
	if (!ll || (nd->ndm_state & (NUD_INCOMPLETE | NUD_FAILED)))
		return false;
	memcpy(mac, ll, 6);
	return true;
}

/* Makes the kernel resolve the neighbour. A failure shows as a timeout. */
static void provoke(uint32_t ifindex, const struct net_addr *hop)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD_UDP_PORT),
				    .sin6_scope_id = ifindex };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(DISCARD_UDP_PORT) };
	bool v4 = net_is_ipv4(hop);
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	memcpy(&to4.sin_addr, hop->raw + 12, 4);
	memcpy(&to6.sin6_addr, hop->raw, 16);
	if (sendto(fd, "", 0, 0, v4 ? (void *)&to4 : (void *)&to6, v4 ? sizeof(to4) : sizeof(to6)) <
	    0)
		errno = 0;
	close(fd);
}

void vrb_multicast_mac(const struct net_addr *dst, uint8_t mac[6])
{
	if (net_is_ipv4(dst)) {
		const uint8_t m[6] = { 0x01,         0x00,        0x5e, dst->raw[13] & 0x7f,
				       dst->raw[14], dst->raw[15] };

		memcpy(mac, m, sizeof(m));
		return;
	}
	mac[0] = mac[1] = 0x33;
	memcpy(mac + 2, dst->raw + 12, 4);
}

int vrb_arp_resolve(struct vrb_port *port, const struct net_addr *dst, uint8_t mac[6])
{
	struct net_addr hop;
	int err;

	memset(mac, 0, 6);
	if (net_is_multicast(dst)) {
		vrb_multicast_mac(dst, mac);
		return 0;
	}
	if (port->loopback)
		return 0;
	if (vrb_port_find_gid(port, dst) >= 0) {
		memcpy(mac, port->mac, sizeof(port->mac));
		return 0;
	}
	err = next_hop(load_relaxed(&port->ifindex), dst, &hop);
	if (err)
		return err;
	for (unsigned int i = 0; i < TRIES; i++) {
		if (lookup(load_relaxed(&port->ifindex), &hop, mac))
			return 0;
		if (i == 0)
			provoke(load_relaxed(&port->ifindex), &hop);
		sleep_whole(TRY_MSEC * VRB_MSEC);
	}
	return EHOSTUNREACH;
}
