/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A list of interfaces while it is made, and the two ways to make it: by route netlink, or, where
 * that is refused (a systemd unit with RestrictAddressFamilies=AF_INET, for example), by ioctl(2)
 * and /proc/net/if_inet6.
 */
#ifndef VRB_RUN_NETDEV_SCAN_H
#define VRB_RUN_NETDEV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/netdev.h"
#include "util/net.h"

struct netdev_entry {
	struct netdev dev;
	uint8_t rank[NETDEV_ADDRS];
};

struct netdev_scan {
	struct netdev_entry *entry; /* malloc'ed; the caller's to free */
	unsigned int n, capacity;
};

/* Both fill an empty list. Return 0 or an errno value. */
int netdev_scan_netlink(struct netdev_scan *s);
/* Without netlink: only interfaces with an address, and no count of lost carriers. */
int netdev_scan_ioctl(struct netdev_scan *s);

struct netdev_entry *netdev_scan_find(struct netdev_scan *s, uint32_t ifindex);
/* The existing entry, or a new, zeroed one; NULL if memory is exhausted. */
struct netdev_entry *netdev_scan_add(struct netdev_scan *s, uint32_t ifindex);

void netdev_scan_name(struct netdev *dev, const char *name, size_t len);
void netdev_scan_flags(struct netdev *dev, unsigned int flags);	/* IFF_ */
/* raw: 4 or 16 bytes. flags: IFA_F_; addresses that cannot be a source are left out. */
void netdev_scan_addr(struct netdev_entry *e, bool ipv4, const void *raw, uint8_t prefix_len,
		      uint32_t flags);

#endif
