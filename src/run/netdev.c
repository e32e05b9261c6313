/* SPDX-License-Identifier: BSD-2-Clause */
/* Owns nothing between calls; no lock. */
#include "run/netdev.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/log.h"
#include "run/netdev_scan.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/file_room.h"

struct netdev_entry *netdev_scan_find(struct netdev_scan *s, uint32_t ifindex)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (s->entry[i].dev.ifindex == ifindex)
			return &s->entry[i];
	return NULL;
}

struct netdev_entry *netdev_scan_add(struct netdev_scan *s, uint32_t ifindex)
{
	struct netdev_entry *e = netdev_scan_find(s, ifindex);

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
static void insert(struct netdev_entry *e, const struct net_addr *a, uint8_t prefix_len, bool late)
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

static bool unusable(uint32_t flags)
{
	if (flags & IFA_F_DADFAILED)
		return true;
	return (flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC);
}

void netdev_scan_addr(struct netdev_entry *e, bool ipv4, const void *raw, uint8_t prefix_len,
		      uint32_t flags)
{
	struct net_addr addr = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (unusable(flags))
		return;
	if (ipv4)
		memcpy(addr.raw + 12, raw, 4);
	else
		memcpy(addr.raw, raw, sizeof(addr.raw));
	/* For IPv4 the flag for "temporary" means "secondary", which does not affect the order. */
	insert(e, &addr, prefix_len, !ipv4 && (flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED)));
}

void netdev_scan_flags(struct netdev *dev, unsigned int flags)
{
	dev->up = flags & IFF_UP;
	dev->running = dev->up && (flags & IFF_RUNNING);
	dev->loopback = flags & IFF_LOOPBACK;
}

void netdev_scan_name(struct netdev *dev, const char *name, size_t len)
{
	len = strnlen(name, min(len, sizeof(dev->name) - 1));
	memcpy(dev->name, name, len);
	dev->name[len] = 0;
}

static int by_order(const void *a, const void *b)
{
	const struct netdev *x = a, *y = b;

	if (x->loopback != y->loopback)
		return x->loopback ? 1 : -1;
	return x->ifindex < y->ifindex ? -1 : x->ifindex > y->ifindex;
}

static int make_list(const struct netdev_scan *s, struct netdev **list, unsigned int *count)
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
	struct netdev_scan s = { .n = 0 };
	int err = netdev_scan_netlink(&s);

	if (err && err != ENOMEM && !file_is_shortage(err)) {
		errno = err;
		log_once(LOG_RUN, LOG_INFO, "route netlink refused (%m), using ioctl");
		err = netdev_scan_ioctl(&s);
	}
	if (!err)
		err = make_list(&s, list, count);
	free(s.entry);
	return err;
}

union any_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* ifindex: for link-local addresses. Returns the length. */
static socklen_t to_sockaddr(union any_sockaddr *to, const struct net_addr *a, uint32_t ifindex)
{
	if (net_is_ipv4(a)) {
		to->v4 = (struct sockaddr_in){ .sin_family = AF_INET };
		memcpy(&to->v4.sin_addr, a->raw + 12, sizeof(to->v4.sin_addr));
		return sizeof(to->v4);
	}
	to->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					.sin6_scope_id = net_is_link_local(a) ? ifindex : 0 };
	memcpy(&to->v6.sin6_addr, a->raw, sizeof(to->v6.sin6_addr));
	return sizeof(to->v6);
}

/*
 * With the sysctl ip_nonlocal_bind a socket can be bound to any address, but an IPv4 one cannot be
 * connected then. IPv6 sends to an address of this host from that address.
 */
static bool kernel_owns(int fd, const union any_sockaddr *addr, socklen_t len)
{
	union any_sockaddr from;

	if (addr->sa.sa_family == AF_INET)
		return bind(fd, &addr->sa, len) == 0 && connect(fd, &addr->sa, len) == 0;
	return connect(fd, &addr->sa, len) == 0 && getsockname(fd, &from.sa, &len) == 0 &&
	       !memcmp(&from.v6.sin6_addr, &addr->v6.sin6_addr, sizeof(from.v6.sin6_addr));
}

bool netdev_owns(const struct net_addr *addr, uint32_t ifindex, const struct net_addr *known)
{
	union any_sockaddr sa;
	bool own = false;
	socklen_t len;
	int fd, cancel;

	if (net_is_multicast(addr) || net_addr_is_zero(addr))
		return false;
	len = to_sockaddr(&sa, addr, ifindex);
	cancel = cancel_off();
	fd = socket(sa.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		own = kernel_owns(fd, &sa, len);
		close(fd);
	} else {
		own = net_is_loopback(addr) || (known && net_addr_equal(addr, known));
	}
	cancel_on(cancel);
	return own;
}

uint32_t netdev_path_mtu(const struct net_path *path)
{
	union any_sockaddr from, to;
	socklen_t from_len = to_sockaddr(&from, &path->src, path->ifindex);
	socklen_t to_len = to_sockaddr(&to, &path->dst, path->ifindex), len = sizeof(int);
	bool ipv4 = to.sa.sa_family == AF_INET;
	int fd, mtu = 0, cancel = cancel_off();

	fd = socket(to.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		if (bind(fd, &from.sa, from_len) < 0 || connect(fd, &to.sa, to_len) < 0 ||
		    getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU,
			       &mtu, &len) < 0)
			mtu = 0;
		close(fd);
	}
	cancel_on(cancel);
	return mtu > 0 ? (uint32_t)mtu : 0;
}
