/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the input of flow steering: rules as programs write them, and frames. */
#ifndef VRB_TESTS_FLOW_ENV_H
#define VRB_TESTS_FLOW_ENV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "util/be.h"

/* A rule under construction; specifications follow each other without gaps. */
struct spec_list {
	struct ibv_flow_attr attr;
	uint8_t specs[1024];
};

static inline void rule_begin(struct spec_list *r, enum ibv_flow_attr_type type)
{
	memset(r, 0, sizeof(*r));
	r->attr.type = type;
	r->attr.size = sizeof(r->attr);
	r->attr.port = 1;
}

static inline void rule_add(struct spec_list *r, const void *spec, uint16_t size)
{
	memcpy((uint8_t *)&r->attr + r->attr.size, spec, size);
	r->attr.size += size;
	r->attr.num_of_specs++;
}

/* RULE_ADD(&r, eth, IBV_FLOW_SPEC_ETH, .val.ether_type = ...) */
#define RULE_ADD(r, name, spec_type, ...)                                                          \
	do {                                                                                       \
		struct ibv_flow_spec_##name spec_ = { .type = (enum ibv_flow_spec_type)(           \
							      spec_type),                          \
						      .size = sizeof(spec_),                       \
						      ##__VA_ARGS__ };                             \
		rule_add(r, &spec_, sizeof(spec_));                                                \
	} while (0)

/* A frame under construction. */
struct frame {
	uint8_t data[2048];
	size_t len;
};

static inline uint8_t *frame_room(struct frame *f, size_t len)
{
	uint8_t *p = f->data + f->len;

	memset(p, 0, len);
	f->len += len;
	return p;
}

static inline void frame_eth(struct frame *f, const char *dst, const char *src, uint16_t type)
{
	uint8_t *p = frame_room(f, 14);

	memcpy(p, dst, 6);
	memcpy(p + 6, src, 6);
	put_be16(p + 12, type);
}

/* Follows a header whose type announces a VLAN tag. */
static inline void frame_vlan(struct frame *f, uint16_t tag, uint16_t type)
{
	put_be16(put_be16(frame_room(f, 4), tag), type);
}

/* Returns the header; `payload` bytes will follow; options are counted in words. */
static inline uint8_t *frame_ipv4(struct frame *f, uint32_t src, uint32_t dst, uint8_t proto,
				  size_t options, size_t payload)
{
	uint8_t *p = frame_room(f, 20 + 4 * options);

	p[0] = 0x45 + options;
	put_be16(p + 2, 20 + 4 * options + payload);
	p[8] = 64;
	p[9] = proto;
	put_be32(p + 12, src);
	put_be32(p + 16, dst);
	return p;
}

static inline uint8_t *frame_ipv6(struct frame *f, const uint8_t src[16], const uint8_t dst[16],
				  uint8_t next, size_t payload)
{
	uint8_t *p = frame_room(f, 40);

	p[0] = 0x60;
	put_be16(p + 4, payload);
	p[6] = next;
	p[7] = 64;
	memcpy(p + 8, src, 16);
	memcpy(p + 24, dst, 16);
	return p;
}

static inline uint8_t *frame_udp(struct frame *f, uint16_t src, uint16_t dst, size_t payload)
{
	uint8_t *p = frame_room(f, 8);

	put_be16(p, src);
	put_be16(p + 2, dst);
	put_be16(p + 4, 8 + payload);
	return p;
}

static inline uint8_t *frame_tcp(struct frame *f, uint16_t src, uint16_t dst)
{
	uint8_t *p = frame_room(f, 20);

	put_be16(p, src);
	put_be16(p + 2, dst);
	p[12] = 0x50;
	return p;
}

#endif
