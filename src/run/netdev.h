/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network interfaces of this network namespace, as an ordinary user sees them: by route
 * netlink, which needs neither /sys nor /proc, or by ioctl(2) and /proc/net/if_inet6 if netlink is
 * refused; then interfaces without an address are missing.
 */
#ifndef VRB_RUN_NETDEV_H
#define VRB_RUN_NETDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"

enum {
	NETDEV_ADDRS = 128,	/* further addresses of an interface are ignored */
};

struct netdev_addr {
	struct net_addr addr;
	uint8_t prefix_len;	/* of the family: 0..32 for IPv4 */
};

struct netdev {
	char name[16];
	uint32_t ifindex;
	uint32_t mtu;
	uint8_t mac[6];		/* zero if it has none (loopback, tunnels) */
	bool up;		/* administratively */
	bool running;		/* has a carrier */
	bool loopback;
	uint32_t carrier_downs;	/* the kernel's count of lost carriers */
	uint32_t n_addrs;
	/*
	 * Link-local IPv6, then IPv4, then other IPv6; within each as the kernel lists them,
	 * temporary and deprecated ones last.  Excludes tentative addresses and those that failed
	 * duplicate detection, which cannot be a source.
	 */
	struct netdev_addr addr[NETDEV_ADDRS];
};

/*
 * Returns all interfaces: non-loopback ones by ifindex, loopback last. Includes interfaces without
 * an address, which cannot carry RoCE, so that the device of an interface that lost its addresses
 * can report that. The array is one malloc'ed block, NULL if there is no interface. Returns 0 or an
 * errno value.
 */
int netdev_list(struct netdev **list, unsigned int *count);

/*
 * Returns true if it is a unicast address of this network namespace. ifindex: for link-local
 * addresses. Asks the kernel, which takes a descriptor; if none is left, known, an address of this
 * namespace (or NULL), counts, and those of the loopback interface.
 */
bool netdev_owns(const struct net_addr *addr, uint32_t ifindex, const struct net_addr *known);

/*
 * The longest IP packet that the kernel's route takes from path->src to path->dst; the interface
 * that it leaves by need not be path->src's. 0: unknown.
 */
uint32_t netdev_path_mtu(const struct net_path *path);

/*
 * A non-blocking, close-on-exec descriptor that becomes readable when an interface or an address
 * changes. Returns -errno if netlink is refused; then changes go unnoticed.
 */
int netdev_monitor_open(void);

/*
 * Empties the descriptor. Returns true if anything changed (or messages were lost): then call
 * netdev_list() again.
 */
bool netdev_monitor_drain(int fd);

#endif
