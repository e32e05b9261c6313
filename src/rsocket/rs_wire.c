/* SPDX-License-Identifier: BSD-2-Clause */
/* Codec of connection data and announcements. */
#include "rsocket/rs_wire.h"

#include <errno.h>
#include <string.h>

#include "util/be.h"

enum {
	FLAG_BIG_ENDIAN = 1,
	FLAG_IOMAP = 2,

	SCALED = 0x80,
	SCALE_SHIFT = 8,
};

uint8_t rs_scale8(uint32_t count)
{
	uint32_t most = (uint32_t)(SCALED - 1) << SCALE_SHIFT;

	if (count <= SCALED)
		return (uint8_t)count;
	/* Counts below 256 would be rounded down to 0. */
	if (count < 1U << SCALE_SHIFT)
		return SCALED;
	return (uint8_t)(SCALED | (count > most ? most : count) >> SCALE_SHIFT);
}

uint32_t rs_unscale8(uint8_t v)
{
	return v > SCALED ? (uint32_t)(v & (SCALED - 1)) << SCALE_SHIFT : v;
}

static uint8_t *put_region(uint8_t *p, const struct rs_region *r)
{
	p = put_be64(p, r->addr);
	p = put_be32(p, r->key);
	return put_be32(p, r->length);
}

static struct rs_region get_region(const uint8_t *p)
{
	return (struct rs_region){
		.addr = get_be64(p),
		.key = get_be32(p + 8),
		.length = get_be32(p + 12),
	};
}

void rs_conn_encode(uint8_t out[RS_CONN_LEN], const struct rs_conn *c)
{
	uint8_t *p = out;

	p = put_u8(p, RS_VERSION);
	p = put_u8(p,
		   (uint8_t)((c->big_endian ? FLAG_BIG_ENDIAN : 0) | (c->iomap ? FLAG_IOMAP : 0)));
	p = put_be16(p, c->credits);
	p = put_be24(p, 0);
	p = put_u8(p, rs_scale8(c->iomap_size));
	p = put_region(p, &c->sgl);
	put_region(p, &c->ring);
}

int rs_conn_decode(const uint8_t *data, size_t len, struct rs_conn *c)
{
	if (!len)
		return EPROTO;
	if (data[0] != RS_VERSION)
		return ENOTSUP;
	if (len < RS_CONN_LEN)
		return EPROTO;
	*c = (struct rs_conn){
		.big_endian = data[1] & FLAG_BIG_ENDIAN,
		.iomap = data[1] & FLAG_IOMAP,
		.credits = get_be16(data + 2),
		.iomap_size = data[1] & FLAG_IOMAP ? rs_unscale8(data[7]) : 0,
		.sgl = get_region(data + 8),
		.ring = get_region(data + 24),
	};
	/* A list without entries could take no announcement. */
	return c->sgl.length ? 0 : EPROTO;
}

/* ---- Announcements ---- */

static uint64_t order64(uint64_t v, bool big_endian)
{
	return big_endian ? htobe64(v) : htole64(v);
}

static uint32_t order32(uint32_t v, bool big_endian)
{
	return big_endian ? htobe32(v) : htole32(v);
}

void rs_sge_encode(uint8_t out[RS_SGE_LEN], const struct rs_region *r, bool big_endian)
{
	uint64_t addr = order64(r->addr, big_endian);
	uint32_t key = order32(r->key, big_endian), length = order32(r->length, big_endian);

	memcpy(out, &addr, 8);
	memcpy(out + 8, &key, 4);
	memcpy(out + 12, &length, 4);
}

void rs_sge_decode(const uint8_t in[RS_SGE_LEN], struct rs_region *r)
{
	memcpy(&r->addr, in, 8);
	memcpy(&r->key, in + 8, 4);
	memcpy(&r->length, in + 12, 4);
}

void rs_mapping_encode(uint8_t out[RS_IOMAP_LEN], const struct rs_mapping *m, bool big_endian)
{
	uint64_t offset = order64(m->offset, big_endian);

	memcpy(out, &offset, 8);
	rs_sge_encode(out + 8, &m->to, big_endian);
}

void rs_mapping_decode(const uint8_t in[RS_IOMAP_LEN], struct rs_mapping *m)
{
	memcpy(&m->offset, in, 8);
	rs_sge_decode(in + 8, &m->to);
}

static const uint8_t reset_magic[16] = "rsockets: reset";

void rs_reset_encode(uint8_t out[RS_RESET_LEN], uint64_t sent)
{
	memcpy(out, reset_magic, sizeof(reset_magic));
	put_be64(out + sizeof(reset_magic), sent);
}

bool rs_reset_decode(const uint8_t in[RS_RESET_LEN], uint64_t *sent)
{
	*sent = get_be64(in + sizeof(reset_magic));
	return !memcmp(in, reset_magic, sizeof(reset_magic));
}
