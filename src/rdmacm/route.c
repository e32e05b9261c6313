/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to rtnetlink. Lengths in replies are checked: in a container another program may emulate
 * the kernel.
 */
#include "rdmacm/route.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "util/cancel.h"

enum {
	BUFFER = 8192,
	DEFAULT_HOP_LIMIT = 64,
};

/* ---- Request and reply ---- */

/*
 * One socket serves all requests, one at a time: opening and closing one costs twice as much as the
 * request.
 */
static struct {
	pthread_mutex_t lock;
	struct mnl_socket *socket; /* NULL: not open */
	uint32_t seq;              /* of the last request */
} asked = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The next three: under asked.lock. */
static void close_socket(void)
{
	if (asked.socket)
		mnl_socket_close(asked.socket);
	asked.socket = NULL;
}

static int open_socket(void)
{
	int err = 0;

	if (asked.socket)
		return 0;
	asked.socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!asked.socket || mnl_socket_bind(asked.socket, 0, MNL_SOCKET_AUTOPID) < 0)
		err = errno;
	if (err)
		close_socket();
	return err;
}

/* *whole: the reply has been read to its end, though it may be an error. */
static int exchange(struct nlmsghdr *nlh, mnl_cb_t cb, void *arg, bool *whole)
{
	char buf[BUFFER] __attribute__((aligned(NLMSG_ALIGNTO)));
	unsigned int port = mnl_socket_get_portid(asked.socket);
	ssize_t len;
	int ret;

	*whole = false;
	nlh->nlmsg_flags |= NLM_F_REQUEST;
	nlh->nlmsg_seq = ++asked.seq;
	if (mnl_socket_sendto(asked.socket, nlh, nlh->nlmsg_len) < 0)
		return errno;
	do
		len = mnl_socket_recvfrom(asked.socket, buf, sizeof(buf));
	while (len < 0 && errno == EINTR);
	if (len <= 0)
		return len ? errno : EIO;
	ret = mnl_cb_run(buf, (size_t)len, asked.seq, port, cb, arg);
	/* libmnl's errors for a reply to something else. */
	*whole = ret != MNL_CB_ERROR || (errno != EPROTO && errno != ESRCH);
	return ret == MNL_CB_ERROR ? errno : 0;
}

static int ask(struct nlmsghdr *nlh, mnl_cb_t cb, void *arg)
{
	bool whole = true;
	int cancel = cancel_off(), err;

	pthread_mutex_lock(&asked.lock);
	err = open_socket();
	if (!err)
		err = exchange(nlh, cb, arg, &whole);
	if (!whole)
		close_socket();
	pthread_mutex_unlock(&asked.lock);
	cancel_on(cancel);
	return err;
}

void route_forget(void)
{
	pthread_mutex_init(&asked.lock, NULL);
	close_socket();
}

/* ---- Routes ---- */

static void get_addr(struct net_addr *out, const struct nlattr *attr)
{
	static const struct net_addr mapped = { { [10] = 0xff, [11] = 0xff } };
	const void *data = mnl_attr_get_payload(attr);

	switch (mnl_attr_get_payload_len(attr)) {
	case 4:
		*out = mapped;
		memcpy(out->raw + 12, data, 4);
		break;
	case 16:
		memcpy(out->raw, data, 16);
		break;
	}
}

static void get_metrics(struct route *r, const struct nlattr *metrics)
{
	const struct nlattr *attr;

	mnl_attr_for_each_nested(attr, metrics) if (mnl_attr_get_type(attr) == RTAX_HOPLIMIT &&
						    mnl_attr_get_payload_len(attr) >= 4 &&
						    mnl_attr_get_u32(attr)) r->hop_limit =
		(uint8_t)mnl_attr_get_u32(attr);
}

static int route_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr;
	struct route *r = arg;

	if (nlh->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(nlh) < sizeof(*rtm))
		return MNL_CB_OK;
	r->direct = rtm->rtm_type != RTN_UNICAST;
	mnl_attr_for_each(attr, nlh, sizeof(*rtm))
	{
		switch (mnl_attr_get_type(attr)) {
		case RTA_OIF:
			if (mnl_attr_get_payload_len(attr) >= 4)
				r->ifindex = mnl_attr_get_u32(attr);
			break;
		case RTA_PREFSRC:
			get_addr(&r->src, attr);
			break;
		case RTA_GATEWAY:
			get_addr(&r->hop, attr);
			break;
		case RTA_METRICS:
			get_metrics(r, attr);
			break;
		}
	}
	return MNL_CB_STOP;
}

static void put_addr(struct nlmsghdr *nlh, uint16_t type, const struct sockaddr *a)
{
	struct net_addr gid = addr_gid(a);

	if (a->sa_family == AF_INET)
		mnl_attr_put(nlh, type, 4, gid.raw + 12);
	else
		mnl_attr_put(nlh, type, 16, gid.raw);
}

static int by_netlink(const struct sockaddr *src, const struct sockaddr *dst,
		      struct route *r)
{
	char buf[256] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
	uint8_t bits = dst->sa_family == AF_INET ? 32 : 128;
	uint32_t scope = addr_scope(dst) ? addr_scope(dst) : src ? addr_scope(src) : 0;

	nlh->nlmsg_type = RTM_GETROUTE;
	rtm->rtm_family = (unsigned char)dst->sa_family;
	rtm->rtm_dst_len = bits;
	put_addr(nlh, RTA_DST, dst);
	if (src) {
		rtm->rtm_src_len = bits;
		put_addr(nlh, RTA_SRC, src);
	}
	if (scope)
		mnl_attr_put_u32(nlh, RTA_OIF, scope);
	return ask(nlh, route_message, r);
}

/* Used if netlink is refused.  The neighbour is unknown then, and is taken to be resolved. */
static int by_socket(const struct sockaddr *src, const struct sockaddr *dst, struct route *r)
{
	int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	struct sockaddr_storage to, from;
	socklen_t len = sizeof(from);

	if (fd < 0)
		return errno;
	memcpy(&to, dst, addr_len(dst));
	addr_set_port((struct sockaddr *)&to, ROCE_UDP_PORT);
	if (src) {
		memcpy(&from, src, addr_len(src));
		addr_set_port((struct sockaddr *)&from, 0);
		if (bind(fd, (struct sockaddr *)&from, (socklen_t)addr_len(src)) < 0)
			err = errno;
	}
	if (!err && (connect(fd, (struct sockaddr *)&to, (socklen_t)addr_len(dst)) < 0 ||
		     getsockname(fd, (struct sockaddr *)&from, &len) < 0))
		err = errno;
	close(fd);
	if (err)
		return err;
	r->src = addr_gid((struct sockaddr *)&from);
	r->ifindex = addr_scope(dst);
	r->direct = true;
	return 0;
}

static bool netlink_refused(int err)
{
	/* EOPNOTSUPP: firejail */
	return err == EPERM || err == EACCES || err == EAFNOSUPPORT || err == EPROTONOSUPPORT ||
	       err == EOPNOTSUPP || err == ENOSYS;
}

int route_lookup(const struct sockaddr *src, const struct sockaddr *dst, struct route *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->hop = addr_gid(dst);
	out->hop_limit = DEFAULT_HOP_LIMIT;
	err = by_netlink(src, dst, out);
	if (netlink_refused(err))
		err = by_socket(src, dst, out);
	if (!err && src)
		out->src = addr_gid(src);
	return err;
}

/* ---- Neighbours ---- */

struct neighbour {
	bool found;
	uint16_t state;
};

static int neigh_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(nlh);
	struct neighbour *n = arg;

	if (nlh->nlmsg_type != RTM_NEWNEIGH || mnl_nlmsg_get_payload_len(nlh) < sizeof(*ndm))
		return MNL_CB_OK;
	n->found = true;
	n->state = ndm->ndm_state;
	return MNL_CB_STOP;
}

static int link_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*info))
		return MNL_CB_OK;
	*(unsigned int *)arg = info->ifi_flags;
	return MNL_CB_STOP;
}

/* Tunnels and the like have no neighbours. */
static bool has_neighbours(uint32_t ifindex)
{
	char buf[128] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	unsigned int flags = IFF_NOARP;

	nlh->nlmsg_type = RTM_GETLINK;
	info->ifi_family = AF_UNSPEC;
	info->ifi_index = (int)ifindex;
	return !ask(nlh, link_message, &flags) &&
	       !(flags & (IFF_NOARP | IFF_POINTOPOINT | IFF_LOOPBACK));
}

bool route_neighbour_known(const struct route *r)
{
	char buf[128] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ndmsg *ndm = mnl_nlmsg_put_extra_header(nlh, sizeof(*ndm));
	bool ipv4 = net_is_ipv4(&r->hop);
	struct neighbour n = { .found = false };
	int err;

	if (r->direct || !r->ifindex)
		return true;
	nlh->nlmsg_type = RTM_GETNEIGH;
	ndm->ndm_family = ipv4 ? AF_INET : AF_INET6;
	ndm->ndm_ifindex = (int)r->ifindex;
	mnl_attr_put(nlh, NDA_DST, ipv4 ? 4 : 16, r->hop.raw + (ipv4 ? 12 : 0));
	err = ask(nlh, neigh_message, &n);
	if (err == ENOENT)
		return !has_neighbours(r->ifindex);
	if (err)
		return true; /* kernel without lookup of a single neighbour */
	return n.found && (n.state & (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE |
				      NUD_STALE | NUD_DELAY));
}

void route_probe_neighbour(const struct sockaddr *dst, uint32_t ifindex)
{
	int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage to;

	if (fd < 0)
		return;
	memcpy(&to, dst, addr_len(dst));
	if (addr_needs_scope(dst) && !addr_scope(dst))
		((struct sockaddr_in6 *)(void *)&to)->sin6_scope_id = ifindex;
	/*
	 * It need not arrive. Not to RoCE's port: Linux's soft RoCE (rxe_rcv() in rxe_recv.c) drops
	 * a reference that it has not set if a datagram is shorter than a BTH, and panics.
	 */
	addr_set_port((struct sockaddr *)&to, DISCARD_UDP_PORT);
	if (sendto(fd, "", 0, 0, (struct sockaddr *)&to, (socklen_t)addr_len(dst)) < 0)
		errno = 0;
	close(fd);
}

int route_monitor_open(void)
{
	struct sockaddr_nl self = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_NEIGH };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&self, sizeof(self)) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

void route_monitor_drain(int fd)
{
	char buf[BUFFER];

	/* The contents do not matter; ENOBUFS means that notifications were lost. */
	while (recv(fd, buf, sizeof(buf), 0) > 0 || errno == ENOBUFS)
		;
}
