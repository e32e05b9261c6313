/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP packets with TCP or UDP: offsets of headers, checksums, and segmentation, as network devices
 * do it for programs. Pure. Accesses nothing beyond the given length.
 */
#ifndef VRB_UTIL_INET_H
#define VRB_UTIL_INET_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"

enum {
	INET_ETHERNET = 14,	/* destination, source, EtherType */
	INET_IPV4 = 20,		/* its header without options */
	INET_IPV6 = 40,
	INET_TAG = 4,		/* IEEE 802.1Q */
	INET_TYPE_IPV4 = 0x0800,
	INET_TYPE_IPV6 = 0x86dd,
	INET_TYPE_CVLAN = 0x8100,
	INET_TYPE_SVLAN = 0x88a8,
	INET_PROTO_TCP = 6,
	INET_PROTO_UDP = 17,
};

/* Offsets from the start of what was parsed. */
struct inet {
	bool ipv6;
	uint8_t proto;
	uint16_t ip;
	uint16_t l4;		/* after the IP header; 0: a fragment, or truncated */
	uint16_t sum;		/* the checksum of TCP or UDP; 0: none or unknown */
	uint16_t data;		/* behind the header of TCP or UDP */
	uint32_t end;		/* of the IP packet: padding may follow */
};

/* Where the packet ends. */
enum inet_end {
	INET_BY_HEADER,	/* its header says */
	INET_AT_END,	/* of the given packet: the length in its header is not set yet */
};

/*
 * An IP packet of this EtherType at offset `ip`; false if there is none, or not all of its header.
 */
bool inet_parse(const uint8_t *p, uint32_t len, uint16_t type, uint32_t ip, enum inet_end end,
		struct inet *f);

/* The same in an Ethernet frame, behind up to two VLAN tags. */
bool inet_parse_frame(const uint8_t *p, uint32_t len, enum inet_end end, struct inet *f);

/*
 * The IP header of a UDP packet of `len` bytes, complete: IPv4 (20 bytes, not to be fragmented) or
 * IPv6 (40), as the path's destination is. Returns what is behind it.
 */
uint8_t *inet_put_header(uint8_t *p, const struct net_path *path, uint32_t len);

/* Fills in the checksum of the IPv4 header, and that of TCP or UDP. */
void inet_fill_header_sum(uint8_t *p, const struct inet *f);
void inet_fill_payload_sum(uint8_t *p, const struct inet *f);

/* The one's complement sum of the pseudo header alone, not inverted: what a device goes on from. */
uint16_t inet_pseudo_sum(const uint8_t *p, const struct inet *f);

/* Completes a checksum field that holds the sum of the pseudo header, over [start, end). */
void inet_complete_sum(uint8_t *p, uint32_t start, uint32_t offset, uint32_t end);

/* True if the checksum of the IP header is correct; IPv6 has none. */
bool inet_header_sum_ok(const uint8_t *p, const struct inet *f);

/* True if both checksums are present and correct. */
bool inet_sums_ok(const uint8_t *p, const struct inet *f);

/*
 * One of the packets that a long one is split into: a copy of its headers, then its part of the
 * data.
 */
struct inet_segment {
	uint32_t index;
	uint32_t offset;	/* data bytes before it */
	bool last;
};

/*
 * Adapts lengths, IPv4 identification, TCP sequence number and flags of a copy of the headers.  The
 * packet ends at f->end.
 */
void inet_make_segment(uint8_t *p, const struct inet *f, const struct inet_segment *s);

#endif
