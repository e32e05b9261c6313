/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame's fields, as rules match them.
 *
 * All fields are in network byte order, so that a rule's values and masks are the same struct and
 * matching is one comparison under a mask.  If a header is missing or incomplete, its fields are
 * zero and its bit in `headers` is not set.
 */
#ifndef VRB_FLOW_DISSECT_H
#define VRB_FLOW_DISSECT_H

#include <stddef.h>
#include <stdint.h>

/* The headers of a layer: bits of flow_layer.headers. */
enum {
	FLOW_ETH = 1 << 0,
	FLOW_VLAN = 1 << 1,
	FLOW_MPLS = 1 << 2, /* between Ethernet and IP */
	FLOW_IPV4 = 1 << 3,
	FLOW_IPV6 = 1 << 4,
	FLOW_FRAGMENT = 1 << 5, /* not the first fragment: contains nothing above IP */
	FLOW_TCP = 1 << 6,
	FLOW_UDP = 1 << 7,
	FLOW_ESP = 1 << 8,
	FLOW_GRE = 1 << 9,
	FLOW_VXLAN = 1 << 10,
	FLOW_TUNNEL_MPLS = 1 << 11, /* behind UDP or GRE */
};

/* Bits of flow_layer.ip_flags, numbered from the left, as in a rule's IPv4 specification. */
enum {
	FLOW_IP_DF = 1 << 1,
	FLOW_IP_MF = 1 << 2,
	FLOW_IP_FLAGS = 7,
};

/* The headers of a frame up to its tunnel, or those inside. */
struct flow_layer {
	uint32_t headers; /* host order */
	uint8_t dst_mac[6], src_mac[6];
	uint16_t ether_type;            /* behind the last VLAN tag */
	uint16_t vlan_tag;              /* of the first VLAN tag */
	uint8_t src_ip[16], dst_ip[16]; /* IPv4: the first four bytes */
	uint32_t flow_label;
	uint8_t proto; /* IPv6: behind the extension headers */
	uint8_t tos;   /* or traffic class */
	uint8_t ttl;   /* or hop limit */
	uint8_t ip_flags;
	uint16_t src_port, dst_port;
	uint32_t spi, esp_seq;
	uint32_t mpls; /* first entry of the stack */
	uint32_t unused;
};

struct flow_key {
	struct flow_layer outer, inner;
	uint16_t gre_flags, gre_protocol;
	uint32_t gre_key;
	uint32_t vni; /* in the low 24 bits */
	uint32_t tunnel_mpls;
};

/* Keys are compared by words. */
#define FLOW_KEY_WORDS (sizeof(struct flow_key) / sizeof(uint64_t))

_Static_assert(sizeof(struct flow_key) % sizeof(uint64_t) == 0, "no padding, whole words");

/*
 * A frame begins with its destination MAC address and has its VLAN tags in their places. Reads
 * nothing behind len.
 */
void flow_dissect(struct flow_key *key, const uint8_t *frame, size_t len);

#endif
