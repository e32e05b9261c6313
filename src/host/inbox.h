/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between processes of a host (inbox.c); requests for a service (relay.c) are some. */
#ifndef VRB_HOST_INBOX_H
#define VRB_HOST_INBOX_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "host/host.h"

enum {
	MSG_MAGIC = 0x56524231,	/* "VRB1": version 1 of the messages */
	KIND_PACKET = 1,
	KIND_DOORBELL = 2,
	KIND_XRC = 3,
	KIND_MAD = 4,
	KIND_KEEPALIVE = 5,
	KIND_MOVE = 6,
};

struct msg_head {
	uint32_t magic;
	uint16_t kind;
	uint16_t len;		/* length after the head */
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t ifindex;
	uint32_t flow_label;
	uint16_t src_port;
	uint16_t dst_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
	uint8_t reserved[9];
};
static_assert(sizeof(struct msg_head) == 64, "inbox message head");
static_assert(offsetof(struct msg_head, ifindex) == 40, "inbox message head: ifindex");
static_assert(HOST_PACKET_MAX <= UINT16_MAX, "length fits");

static inline void inbox_pack_path(struct msg_head *m, const struct net_path *path)
{
	memcpy(m->src, path->src.raw, sizeof(m->src));
	memcpy(m->dst, path->dst.raw, sizeof(m->dst));
	m->ifindex = path->ifindex;
	m->flow_label = path->flow_label;
	m->src_port = path->src_port;
	m->dst_port = path->dst_port;
	m->traffic_class = path->traffic_class;
	m->hop_limit = path->hop_limit;
	m->sl = path->sl;
}

static inline void inbox_unpack_path(struct net_path *path, const struct msg_head *m)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->src.raw, m->src, sizeof(m->src));
	memcpy(path->dst.raw, m->dst, sizeof(m->dst));
	path->ifindex = m->ifindex;
	path->flow_label = m->flow_label & 0xfffff;
	path->src_port = m->src_port;
	path->dst_port = m->dst_port;
	path->traffic_class = m->traffic_class;
	path->hop_limit = m->hop_limit;
	path->sl = m->sl & 15;
}

/* Checks a message of which `got` bytes have come; *path and *len are those of its payload. */
enum host_msg inbox_read(const struct msg_head *m, size_t got, struct net_path *path, size_t *len);

#endif
