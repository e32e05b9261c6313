/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers of datagrams. */
#include "rsocket/rs_header.h"

#include <string.h>

#include "util/be.h"

enum {
	UDP_TAG = 0x55555555,
	UDP_COMMON = 12,
	UD_COMMON_V4 = 4,
	UD_COMMON_V6 = 8,
};

/* Length of an address in bytes; 0: unknown version. */
static size_t ip_len(uint8_t version)
{
	if (version == 4)
		return 4;
	return version == 6 ? 16 : 0;
}

size_t rs_udp_encode(uint8_t out[RS_UDP_HEADER_MAX], const struct rs_udp_header *h)
{
	size_t ip = ip_len(h->from.version), len = UDP_COMMON + ip;
	uint8_t *p = out;

	p = put_be32(p, UDP_TAG);
	p = put_u8(p, h->from.version);
	p = put_u8(p, h->op);
	p = put_u8(p, (uint8_t)len);
	p = put_u8(p, 0);
	p = put_be32(p, h->qpn & 0xffffff);
	memcpy(p, h->from.ip, ip);
	return len;
}

size_t rs_udp_decode(const uint8_t *data, size_t len, struct rs_udp_header *h)
{
	size_t ip;

	if (len < UDP_COMMON || get_be32(data) != UDP_TAG)
		return 0;
	ip = ip_len(data[4]);
	if (!ip || data[6] != UDP_COMMON + ip || len < data[6])
		return 0;
	*h = (struct rs_udp_header){
		.op = data[5],
		.qpn = get_be32(data + 8) & 0xffffff,
		.from.version = data[4],
	};
	memcpy(h->from.ip, data + UDP_COMMON, ip);
	return data[6];
}

static size_t ud_common(uint8_t version)
{
	return version == 4 ? UD_COMMON_V4 : UD_COMMON_V6;
}

size_t rs_ud_encode(uint8_t out[RS_UD_HEADER_MAX], const struct rs_from *from)
{
	size_t common = ud_common(from->version), ip = ip_len(from->version);
	uint8_t *p = out;

	memset(out, 0, common);
	p = put_u8(p, from->version);
	p = put_u8(p, (uint8_t)(common + ip));
	put_be16(p, from->port);
	memcpy(out + common, from->ip, ip);
	return common + ip;
}

size_t rs_ud_decode(const uint8_t *data, size_t len, struct rs_from *from)
{
	size_t common, ip;

	if (len < UD_COMMON_V4)
		return 0;
	ip = ip_len(data[0]);
	common = ud_common(data[0]);
	if (!ip || data[1] != common + ip || len < data[1])
		return 0;
	*from = (struct rs_from){ .version = data[0], .port = get_be16(data + 2) };
	memcpy(from->ip, data + common, ip);
	return data[1];
}
