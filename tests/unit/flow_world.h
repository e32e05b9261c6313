/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random frames with a description of their headers, random rules as programs write them, and an
 * oracle that decides from description and rule alone, without dissector and matcher, whether they
 * match.
 */
#ifndef VRB_TESTS_FLOW_WORLD_H
#define VRB_TESTS_FLOW_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "unit/flow_env.h"

/* Ends are offsets in the frame; 0: absent. */
struct world_layer {
	size_t eth_end;
	uint8_t dst_mac[6], src_mac[6];
	unsigned int tags;
	uint16_t tag[4], type[5]; /* type[i] precedes tag i; type[tags] follows the last one */
	size_t tag_end[4];
	uint32_t mpls;
	size_t mpls_end;
	int ip; /* 4, 6; 0: not IP */
	size_t ip_end;
	uint8_t src_ip[16], dst_ip[16], tos, ttl, ip_flags;
	uint32_t flow_label;
	unsigned int exts;
	uint8_t ext[3];
	size_t ext_end[3];
	uint8_t proto;
	size_t transport_end; /* of a complete header; 0 in later fragments */
	uint16_t src_port, dst_port;
	uint32_t spi, seq;
};

struct world_frame {
	struct frame f;
	size_t len; /* may be less than f.len */
	struct world_layer outer, inner;
	size_t gre_end, vxlan_end, tunnel_mpls_end;
	uint16_t gre_flags, gre_protocol;
	uint32_t gre_key, vni, tunnel_mpls;
};

/* Must be called first. */
void world_start(uint64_t seed);

void world_frame(struct world_frame *w);

/* A random rule; half of its fields are the frame's. Type NORMAL, without actions. */
void world_rule(struct spec_list *r, const struct world_frame *like);

bool world_matches(const struct spec_list *r, const struct world_frame *w);

#endif
