/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow/hash.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "util/be.h"

enum {
	IPV4_FIELDS = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
	IPV6_FIELDS = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6,
	TCP_FIELDS = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
	UDP_FIELDS = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
	SRC_PORTS = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP,
	DST_PORTS = IBV_RX_HASH_DST_PORT_TCP | IBV_RX_HASH_DST_PORT_UDP,
	MAX_INPUT = 36, /* two IPv6 addresses and two ports; the key has four bytes more */
};

int flow_hash_init(struct flow_hash *h, const struct ibv_rx_hash_conf *conf)
{
	uint64_t fields = conf->rx_hash_fields_mask;

	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || fields & ~FLOW_HASH_FIELDS)
		return EOPNOTSUPP;
	if (conf->rx_hash_key_len != FLOW_HASH_KEY || !conf->rx_hash_key)
		return EINVAL;
	if (!!(fields & IPV4_FIELDS) + !!(fields & IPV6_FIELDS) > 1 ||
	    !!(fields & TCP_FIELDS) + !!(fields & UDP_FIELDS) + !!(fields & IBV_RX_HASH_IPSEC_SPI) >
		    1)
		return EINVAL;
	h->fields = fields;
	memcpy(h->key, conf->rx_hash_key, sizeof(h->key));
	return 0;
}

/* For each bit of the input, from the left, the 32 bits of the key that begin where it stands. */
static uint32_t toeplitz(const uint8_t key[FLOW_HASH_KEY], const uint8_t *input, size_t len)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t window = (uint64_t)get_be32(key + i) << 8 | key[i + 4]; /* 40 bits */

		for (unsigned int bits = input[i]; bits; bits &= bits - 1)
			hash ^= (uint32_t)(window >> (1 + __builtin_ctz(bits)));
	}
	return hash;
}

static uint8_t *append(uint8_t *p, bool present, const void *field, size_t len)
{
	if (present)
		memcpy(p, field, len);
	else
		memset(p, 0, len);
	return p + len;
}

/* A source and a destination; the lower one first if both are hashed. */
static uint8_t *append_pair(uint8_t *p, uint64_t with_src, uint64_t with_dst, bool present,
			    const void *src, const void *dst, size_t len)
{
	bool swap = with_src && with_dst && memcmp(src, dst, len) > 0;

	if (with_src)
		p = append(p, present, swap ? dst : src, len);
	if (with_dst)
		p = append(p, present, swap ? src : dst, len);
	return p;
}

uint32_t flow_hash(const struct flow_hash *h, const struct flow_key *key)
{
	const struct flow_layer *l =
		h->fields & (uint64_t)IBV_RX_HASH_INNER ? &key->inner : &key->outer;
	uint8_t input[MAX_INPUT], *p = input;
	bool ipv4 = l->headers & FLOW_IPV4, ipv6 = l->headers & FLOW_IPV6;
	bool ports = l->headers & (h->fields & TCP_FIELDS ? FLOW_TCP : FLOW_UDP);

	p = append_pair(p, h->fields & IBV_RX_HASH_SRC_IPV4, h->fields & IBV_RX_HASH_DST_IPV4, ipv4,
			l->src_ip, l->dst_ip, 4);
	p = append_pair(p, h->fields & IBV_RX_HASH_SRC_IPV6, h->fields & IBV_RX_HASH_DST_IPV6, ipv6,
			l->src_ip, l->dst_ip, 16);
	p = append_pair(p, h->fields & SRC_PORTS, h->fields & DST_PORTS, ports, &l->src_port,
			&l->dst_port, 2);
	if (h->fields & IBV_RX_HASH_IPSEC_SPI)
		p = append(p, true, &l->spi, 4);
	return toeplitz(h->key, input, (size_t)(p - input));
}
