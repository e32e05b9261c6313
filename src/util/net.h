/* SPDX-License-Identifier: BSD-2-Clause */
/* The path of a packet.  Addresses are GIDs: IPv6 as it is, IPv4 as ::ffff:a.b.c.d. */
#ifndef VRB_UTIL_NET_H
#define VRB_UTIL_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ROCE_UDP_PORT 4791	/* IBTA Annex A17: RoCEv2 destination port */
/* RFC 863. For empty datagrams that only make the kernel resolve a neighbour. */
#define DISCARD_UDP_PORT 9

struct net_addr {
	uint8_t raw[16];
};

/* One direction of travel.  On a received packet src is the peer and dst is ours. */
struct net_path {
	struct net_addr src;
	struct net_addr dst;
	/* outgoing / incoming interface; 0 = any. Needed for link-local and multicast */
	uint32_t ifindex;
	uint32_t flow_label;	/* 20 bits; IPv6 only */
	uint16_t src_port;	/* UDP, host order */
	uint16_t dst_port;	/* UDP, host order */
	uint8_t traffic_class;	/* ToS / traffic class, ECN bits included */
	uint8_t hop_limit;
	uint8_t sgid_index;	/* of our address in the port's GID table */
	uint8_t sl;
};

/*
 * Where the sockets of an owner are in the reuseport groups of the port: made by host/host.h, used
 * by wire/steer.h.  It owns either a block of 256 QP numbers (their high 16 bits), or the
 * communication ids of its slot.  Block 0, of QP 1, is shared: index is the last position in use.
 */
struct net_steer {
	uint16_t number;	/* of the block or slot */
	int32_t index[2];	/* IPv4, IPv6; -1 unknown */
	bool listens;		/* of a slot: the process listens for requests */
};

/* In ascending order. */
struct net_steer_list {
	const struct net_steer *of;
	size_t n;
};

/*
 * The bits of a communication id above these are its owner's slot, or its relay number: that of a
 * process to which others relay packets (docs/WIRE.md), so also the first bits of its QP numbers.
 */
enum {
	NET_COMM_ID_SERIAL_BITS = 22,
	NET_RELAY_QPN_BITS = 14,
	NET_RELAY_FIRST = 512,	/* relay numbers: the upper half of all QP numbers */
	NET_RELAY_LAST = 1023,
};

static inline bool net_is_ipv4(const struct net_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->raw, mapped, sizeof(mapped)) == 0;
}

static inline bool net_addr_equal(const struct net_addr *a, const struct net_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool net_addr_is_zero(const struct net_addr *a)
{
	static const struct net_addr zero;

	return net_addr_equal(a, &zero);
}

static inline bool net_is_link_local(const struct net_addr *a)
{
	return a->raw[0] == 0xfe && (a->raw[1] & 0xc0) == 0x80;
}

/* IPv4 224.0.0.0/4 in mapped form, or IPv6 ff00::/8. */
static inline bool net_is_multicast(const struct net_addr *a)
{
	return a->raw[0] == 0xff || (net_is_ipv4(a) && (a->raw[12] & 0xf0) == 0xe0);
}

/* IPv4 127.0.0.0/8 in mapped form, or IPv6 ::1. */
static inline bool net_is_loopback(const struct net_addr *a)
{
	static const struct net_addr one = { { [15] = 1 } };

	return net_is_ipv4(a) ? a->raw[12] == 127 : net_addr_equal(a, &one);
}

#endif
