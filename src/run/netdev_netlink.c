/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two dumps of route netlink, links then addresses, merged into one list; and the monitor of their
 * changes. Checks the lengths of messages before use: in a container another program may emulate
 * the kernel.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/netdev_scan.h"
#include "util/cancel.h"

enum {
	DUMP_TRIES = 5,		/* the kernel reports that a change interrupted the dump */
	DUMP_BUFFER = 32768,
	DRAINED_AT_ONCE = 256,	/* messages of the monitor */
};

static void link_attr(struct netdev *dev, const struct nlattr *attr)
{
	const void *data = mnl_attr_get_payload(attr);
	size_t len = mnl_attr_get_payload_len(attr);

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		netdev_scan_name(dev, data, len);
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
	struct netdev_entry *e;

	if (nlh->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(nlh) < sizeof(*info))
		return MNL_CB_OK;
	e = netdev_scan_add(arg, (uint32_t)info->ifi_index);
	if (!e) {
		errno = ENOMEM;
		return MNL_CB_ERROR;
	}
	netdev_scan_flags(&e->dev, info->ifi_flags);
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

static int addr_message(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(nlh);
	struct addr_attrs found = { .flags = 0 };
	const struct nlattr *attr;
	struct netdev_entry *e;
	const void *raw;
	bool ipv4;

	if (nlh->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*info))
		return MNL_CB_OK;
	ipv4 = info->ifa_family == AF_INET;
	e = netdev_scan_find(arg, info->ifa_index);
	if (!e || (!ipv4 && info->ifa_family != AF_INET6))
		return MNL_CB_OK;

	found.flags = info->ifa_flags;
	mnl_attr_for_each(attr, nlh, sizeof(*info))
		addr_attr(&found, attr, ipv4 ? 4 : 16);
	/* On a point-to-point link IFA_ADDRESS is the peer's. */
	raw = found.local ? found.local : found.address;
	if (raw)
		netdev_scan_addr(e, ipv4, raw, info->ifa_prefixlen, found.flags);
	return MNL_CB_OK;
}

static int receive_dump(struct mnl_socket *nl, uint32_t seq, mnl_cb_t cb,
			struct netdev_scan *s)
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

static int dump(struct mnl_socket *nl, uint16_t type, uint32_t seq, mnl_cb_t cb,
		struct netdev_scan *s)
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

static int scan_netlink_once(struct netdev_scan *s)
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

int netdev_scan_netlink(struct netdev_scan *s)
{
	int tries, err = EINTR;

	for (tries = 0; tries < DUMP_TRIES && err == EINTR; tries++)
		err = scan_netlink_once(s);
	return err;
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
		struct iovec iov = { &byte, sizeof(byte) };
		struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = sys_recvmsg(fd, &mh, MSG_DONTWAIT);

		if (n == -EINTR)
			continue;
		if (n < 0 && n != -ENOBUFS)
			return changed;
		changed = true;
	}
	return changed;
}
