/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of Ethernet and IP that rules and filters look at. */
#ifndef VRB_FLOW_CONST_H
#define VRB_FLOW_CONST_H

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_TEB = 0x6558, /* Ethernet in GRE, RFC 7637 */
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_MPLS = 0x8847,
	ETHERTYPE_MPLS_MC = 0x8848,
	ETHERTYPE_SVLAN = 0x88a8,
	ETHERTYPE_QINQ = 0x9100, /* S-VLAN before the standard */
};

enum {
	PROTO_HOP_BY_HOP = 0,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	PROTO_ROUTING = 43,
	PROTO_FRAGMENT = 44,
	PROTO_GRE = 47,
	PROTO_ESP = 50,
	PROTO_AH = 51,
	PROTO_DEST_OPTIONS = 60,
	PROTO_MOBILITY = 135,
	PROTO_HIP = 139,
	PROTO_SHIM6 = 140,
};

/* UDP destination ports of tunnels. */
enum {
	PORT_VXLAN = 4789, /* RFC 7348 */
	PORT_MPLS = 6635,  /* RFC 7510 */
};

/* Bytes of headers without options. */
enum {
	ETH_LEN = 14,
	VLAN_LEN = 4,
	MPLS_LEN = 4,
	IPV4_LEN = 20,
	IPV6_LEN = 40,
	TCP_LEN = 20,
	UDP_LEN = 8,
	ESP_LEN = 8,
	GRE_LEN = 4,
	VXLAN_LEN = 8,
};

static inline int is_vlan(unsigned int ether_type)
{
	return ether_type == ETHERTYPE_VLAN || ether_type == ETHERTYPE_SVLAN ||
	       ether_type == ETHERTYPE_QINQ;
}

static inline int is_mpls(unsigned int ether_type)
{
	return ether_type == ETHERTYPE_MPLS || ether_type == ETHERTYPE_MPLS_MC;
}

/* IPv6 extension headers that contain their length. */
static inline int is_extension(unsigned int proto)
{
	switch (proto) {
	case PROTO_HOP_BY_HOP:
	case PROTO_ROUTING:
	case PROTO_FRAGMENT:
	case PROTO_AH:
	case PROTO_DEST_OPTIONS:
	case PROTO_MOBILITY:
	case PROTO_HIP:
	case PROTO_SHIM6:
		return 1;
	default:
		return 0;
	}
}

#endif
