/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two dumps of route netlink, links then addresses, merged into one list.  Owns nothing between
 * calls; no lock. Checks the lengths of messages before use: in a container another program may
 * emulate the kernel.
 */
#include "run/netdev.h"

#include <errno.h>
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/log.h"
#include "util/compiler.h"

enum {
	DUMP_TRIES = 5,		/* the kernel reports that a change interrupted the dump */
	DUMP_BUFFER = 32768,
	DRAINED_AT_ONCE = 256,	/* messages of the monitor */
};

struct entry {
	struct netdev dev;
	uint8_t rank[NETDEV_ADDRS];
};

struct scan {
	struct entry *entry;
	unsigned int n, capacity;
};

static struct entry *find_entry(struct scan *s, uint32_t ifindex)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (s->entry[i].dev.ifindex == ifindex)
			return &s->entry[i];
	return NULL;
}

/* The existing entry, or a new, zeroed one; NULL if memory is exhausted. */
static struct entry *add_entry(struct scan *s, uint32_t ifindex)
{
	struct entry *e = find_entry(s, ifindex);

	if (e)
		return e;
	if (s->n == s->capacity) {
		unsigned int capacity = s->capacity ? 2 * s->capacity : 8;

		e = realloc(s->entry, capacity * sizeof(*e));
		if (!e)
			return NULL;
		s->entry = e;
		s->capacity = capacity;
	}
	e = &s->entry[s->n++];
	memset(e, 0, sizeof(*e));
	e->dev.ifindex = ifindex;
	return e;
}

static uint8_t rank_of(const struct net_addr *a, bool late)
{
	uint8_t class = net_is_link_local(a) ? 0 : net_is_ipv4(a) ? 1 : 2;

	return (uint8_t)(2 * class + late);
}

/* Keeps the order of netdev.h; stable. */
static void add_addr(struct entry *e, const struct net_addr *a, uint8_t prefix_len, bool late)
{
	uint8_t rank = rank_of(a, late);
	uint32_t i = e->dev.n_addrs;

	if (i == NETDEV_ADDRS || net_addr_is_zero(a))
		return;
	for (; i > 0 && e->rank[i - 1] > rank; i--) {
		e->rank[i] = e->rank[i - 1];
		e->dev.addr[i] = e->dev.addr[i - 1];
	}
	e->rank[i] = rank;
	e->dev.addr[i] = (struct netdev_addr){ *a, prefix_len };
	e->dev.n_addrs++;
}

static void map_ipv4(struct net_addr *a, const void *ipv4)
{
	memset(a, 0, sizeof(*a));
	a->raw[10] = a->raw[11] = 0xff;
	memcpy(a->raw + 12, ipv4, 4);
}

static void set_flags(struct netdev *dev, unsigned int flags)
{
	dev->up = flags & IFF_UP;
	dev->running = dev->up && (flags & IFF_RUNNING);
	dev->loopback = flags & IFF_LOOPBACK;
}

static void set_name(struct netdev *dev, const char *name, size_t len)
{
	len = strnlen(name, min(len, sizeof(dev->name) - 1));
	memcpy(dev->name, name, len);
	dev->name[len] = 0;
}

static void link_attr(struct netdev *dev, const struct nlattr *attr)
{
	const void *data = mnl_attr_get_payload(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		set_name(dev, data, len);
		break;
	case IFLA_CARRIER_DOWN_COUNT:
		if (len >= sizeof(dev->carrier_downs))
			memcpy(&dev->carrier_downs, data, sizeof(dev->carrier_downs));
		break;
	case IFLA_MTU:
		if (len >= sizeof(dev->mtu))
			memcpy(&dev->mtu, data, sizeof(dev->mtu));
		break;
	case IFLA_ADDRESS:
		if (len == sizeof(dev->mac))
			memcpy(dev->mac, data, sizeof(dev->mac));
		break;
	}
}

static int link_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *attr;
	struct entry *e;

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*info))
		return MNL_CB_OK;
	e = add_entry(arg, (uint32_t)info->ifi_index);
	if (!e) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	set_flags(&e->dev, info->ifi_flags);
	mnl_attr_for_each(attr, nlh, sizeof(*info))
		link_attr(&e->dev, attr);
	return MNL_CB_OK;
}

struct addr_attrs {
	const void *local, *address;
	uint32_t flags;
};

static void addr_attr(struct addr_attrs *found, const struct nlattr *attr, size_t addr_len)
{
	const void *data = mnl_attr_get_payload(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	switch (mnl_attr_get_type(attr)) {
	case IFA_LOCAL:
		if (len == addr_len)
			found->local = data;
		break;
	case IFA_ADDRESS:
		if (len == addr_len)
			found->address = data;
		break;
	case IFA_FLAGS:
		if (len >= sizeof(found->flags))
			memcpy(&found->flags, data, sizeof(found->flags));
		break;
	}
}

static bool unusable(uint32_t flags)
{
	if (flags & IFA_F_DADFAILED)
		return true;
	return (flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC);
}

static int addr_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(nlh);
	struct addr_attrs found = { .flags = 0 };
	const struct nlattr *attr;
	struct net_addr addr;
	struct entry *e;
	const void *raw;
	bool ipv4;

	if (nlh->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*info))
		return MNL_CB_OK;
	ipv4 = info->ifa_family == AF_INET;
	e = find_entry(arg, info->ifa_index);
	if (!e || (!ipv4 && info->ifa_family != AF_INET6))
		return MNL_CB_OK;

	found.flags = info->ifa_flags;
	mnl_attr_for_each(attr, nlh, sizeof(*info))
		addr_attr(&found, attr, ipv4 ? 4 : 16);
	/* On a point-to-point link IFA_ADDRESS is the peer's. */
	raw = found.local ? found.local : found.address;
	if (!raw || unusable(found.flags))
		return MNL_CB_OK;
	if (ipv4)
		map_ipv4(&addr, raw);
	else
		memcpy(addr.raw, raw, sizeof(addr.raw));
	/* For IPv4 the flag for "temporary" means "secondary", which does not affect the order. */
	add_addr(e, &addr, info->ifa_prefixlen,
		 !ipv4 && (found.flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED)));
	return MNL_CB_OK;
}

static int receive_dump(struct mnl_socket *nl, uint32_t seq, mnl_cb_t cb, struct scan *s)
{
	char *buf = malloc(DUMP_BUFFER);
	int more = MNL_CB_OK, err = buf ? 0 : ENOMEM;

	while (!err && more > MNL_CB_STOP) {
		ssize_t len = mnl_socket_recvfrom(nl, buf, DUMP_BUFFER);

		if (len > 0)
			more = mnl_cb_run(buf, (size_t)len, seq, mnl_socket_get_portid(nl), cb, s);
		if (len <= 0 || more == MNL_CB_ERROR)
			err = len ? errno : EIO;
	}
	free(buf);
	return err;
}

static int dump(struct mnl_socket *nl, uint16_t type, uint32_t seq, mnl_cb_t cb, struct scan *s)
{
	char buf[64] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct rtgenmsg *gen = mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	gen->rtgen_family = AF_UNSPEC;
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return errno;
	return receive_dump(nl, seq, cb, s);
}

static int scan_netlink_once(struct scan *s)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int err;

	if (!nl)
		return errno;
	s->n = 0;
	err = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? errno : 0;
	if (!err)
		err = dump(nl, RTM_GETLINK, 1, link_message, s);
	if (!err)
		err = dump(nl, RTM_GETADDR, 2, addr_message, s);
	mnl_socket_close(nl);
	return err;
}

static int scan_netlink(struct scan *s)
{
	int tries, err = EINTR;

	for (tries = 0; tries < DUMP_TRIES && err == EINTR; tries++)
		err = scan_netlink_once(s);
	return err;
}

static uint32_t ioctl_mtu(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = { .ifr_mtu = 0 };

	if (fd < 0)
		return 0;
	memcpy(req.ifr_name, name, min(strlen(name), sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFMTU, &req) < 0)
		req.ifr_mtu = 0;
	close(fd);
	return req.ifr_mtu > 0 ? (uint32_t)req.ifr_mtu : 0;
}

static uint8_t count_bits(const uint8_t *mask, size_t len)
{
	uint8_t bits = 0;
	size_t i;

	for (i = 0; i < len; i++)
		bits = (uint8_t)(bits + __builtin_popcount(mask[i]));
	return bits;
}

static void ifaddrs_addr(struct entry *e, const struct ifaddrs *ifa)
{
	const struct sockaddr_in6 *sin6 = (const void *)ifa->ifa_addr;
	const struct sockaddr_in6 *mask6 = (const void *)ifa->ifa_netmask;
	const struct sockaddr_in *sin = (const void *)ifa->ifa_addr;
	const struct sockaddr_in *mask = (const void *)ifa->ifa_netmask;
	const struct sockaddr_ll *ll = (const void *)ifa->ifa_addr;
	struct net_addr addr;

	switch (ifa->ifa_addr->sa_family) {
	case AF_INET:
		map_ipv4(&addr, &sin->sin_addr);
		add_addr(e, &addr, mask ? count_bits((const void *)&mask->sin_addr, 4) : 32, false);
		break;
	case AF_INET6:
		memcpy(addr.raw, &sin6->sin6_addr, sizeof(addr.raw));
		add_addr(e, &addr, mask6 ? count_bits(mask6->sin6_addr.s6_addr, 16) : 128, false);
		break;
	case AF_PACKET:
		if (ll->sll_halen == sizeof(e->dev.mac))
			memcpy(e->dev.mac, ll->sll_addr, sizeof(e->dev.mac));
		break;
	}
}

/* If netlink is refused, the C library may still work. */
static int scan_ifaddrs(struct scan *s)
{
	struct ifaddrs *all, *ifa;
	int err = 0;

	s->n = 0;
	if (getifaddrs(&all) < 0)
		return errno;
	for (ifa = all; ifa && !err; ifa = ifa->ifa_next) {
		uint32_t ifindex = if_nametoindex(ifa->ifa_name);
		struct entry *e = ifindex ? add_entry(s, ifindex) : NULL;

		if (!e) {
			err = ifindex ? ENOMEM : 0;
			continue;
		}
		set_name(&e->dev, ifa->ifa_name, strlen(ifa->ifa_name));
		set_flags(&e->dev, ifa->ifa_flags);
		if (!e->dev.mtu)
			e->dev.mtu = ioctl_mtu(e->dev.name);
		if (ifa->ifa_addr)
			ifaddrs_addr(e, ifa);
	}
	freeifaddrs(all);
	return err;
}

static int by_order(const void *a, const void *b)
{
	const struct netdev *x = a, *y = b;

	if (x->loopback != y->loopback)
		return x->loopback ? 1 : -1;
	return x->ifindex < y->ifindex ? -1 : x->ifindex > y->ifindex;
}

static int make_list(const struct scan *s, struct netdev **list, unsigned int *count)
{
	struct netdev *dev = NULL;
	unsigned int i;

	if (s->n) {
		dev = calloc(s->n, sizeof(*dev));
		if (!dev)
			return ENOMEM;
	}
	for (i = 0; i < s->n; i++)
		dev[i] = s->entry[i].dev;
	if (s->n)
		qsort(dev, s->n, sizeof(*dev), by_order);
	*list = dev;
	*count = s->n;
	return 0;
}

int netdev_list(struct netdev **list, unsigned int *count)
{
	struct scan s = { .n = 0 };
	int err = scan_netlink(&s);

	if (err && err != ENOMEM) {
		errno = err;
		log_once(LOG_RUN, LOG_INFO, "route netlink refused (%m), using getifaddrs");
		err = scan_ifaddrs(&s);
	}
	if (!err)
		err = make_list(&s, list, count);
	free(s.entry);
	return err;
}

/* An address is local if a socket can be bound to it. */
bool netdev_owns(const struct net_addr *addr, uint32_t ifindex)
{
	bool ipv4 = net_is_ipv4(addr);
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6,
				     .sin6_scope_id = net_is_link_local(addr) ? ifindex : 0 };
	const struct sockaddr *sa =
		ipv4 ? (const struct sockaddr *)&sin : (const struct sockaddr *)&sin6;
	bool own;
	int fd;

	if (net_is_multicast(addr) || net_addr_is_zero(addr))
		return false;
	fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	memcpy(&sin.sin_addr, addr->raw + 12, sizeof(sin.sin_addr));
	memcpy(&sin6.sin6_addr, addr->raw, sizeof(sin6.sin6_addr));
	own = bind(fd, sa, ipv4 ? sizeof(sin) : sizeof(sin6)) == 0;
	close(fd);
	return own;
}

int netdev_monitor_open(void)
{
	struct sockaddr_nl addr = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

bool netdev_monitor_drain(int fd)
{
	bool changed = false;
	char byte;

	/*
	 * The contents do not matter, so messages may be truncated. ENOBUFS: some were lost. The
	 * bound keeps an endless stream from holding the caller; further messages make the socket
	 * readable again.
	 */
	for (int i = 0; i < DRAINED_AT_ONCE; i++) {
		ssize_t n = recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ENOBUFS)
			return changed;
		changed = true;
	}
	return changed;
}
