/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC. A pseudo header replaces the lower layers, so that the fields a router may
 * change count as ones:
 *
 *	8 bytes of ones		in place of the local route header
 *	IPv4 (20) | IPv6 (40)	ones: ToS, TTL, header checksum | traffic class, flow label, hop
 *				limit
 *	UDP (8)			ones: checksum
 *	BTH (12)		ones: the byte of FECN, BECN and reserved bits
 *	extended headers, payload, pad as they are
 *
 * ISA-L's crc32_gzip_refl() inverts its seed on entry and its result on return, as zlib does: the
 * first call takes 0, and the result of each call is the seed of the next. The register is
 * reflected: bit 31 is the coefficient of x^0.
 */
#include "roce/icrc.h"

#include <isa-l/crc.h>

#include "roce/opcode.h"
#include "roce/pkt.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	LRH_LEN = 8,
	IPV4_LEN = 20,
	IPV4_ID_OFFSET = 4,
	IPV6_LEN = 40,
	UDP_LEN = 8,
	PSEUDO_MAX = LRH_LEN + IPV6_LEN + UDP_LEN,
	IP_PROTO_UDP = 17,
	BTH_VARIANT_BYTE = 4,
	UDP_MAX_DATA = 65535 - UDP_LEN - IPV4_LEN,
	SOFT_FLUSH_LEN = ROCE_BTH_LEN + ROCE_FETH_LEN + ROCE_RETH_LEN + ROCE_ICRC_LEN,
};

#define IPV4_DONT_FRAGMENT 0x4000
#define VARIANT_ZERO 0x0f6a70d9u	/* 0xff, moved back by BTH_VARIANT_BYTE bytes */

static uint8_t *put_ones(uint8_t *p, size_t n)
{
	memset(p, 0xff, n);
	return p + n;
}

static uint8_t *put_bytes(uint8_t *p, const uint8_t *src, size_t n)
{
	memcpy(p, src, n);
	return p + n;
}

static uint8_t *put_ipv4(uint8_t *p, const struct net_path *path, uint16_t udp_len)
{
	p = put_u8(p, 4 << 4 | IPV4_LEN / 4);
	p = put_ones(p, 1);				/* ToS */
	p = put_be16(p, IPV4_LEN + udp_len);
	p = put_be16(p, 0);				/* identification */
	p = put_be16(p, IPV4_DONT_FRAGMENT);
	p = put_ones(p, 1);				/* TTL */
	p = put_u8(p, IP_PROTO_UDP);
	p = put_ones(p, 2);				/* header checksum */
	p = put_bytes(p, path->src.raw + 12, 4);
	return put_bytes(p, path->dst.raw + 12, 4);
}

static uint8_t *put_ipv6(uint8_t *p, const struct net_path *path, uint16_t udp_len)
{
	p = put_be32(p, 6u << 28 | 0x0fffffff);		/* traffic class, flow label */
	p = put_be16(p, udp_len);
	p = put_u8(p, IP_PROTO_UDP);
	p = put_ones(p, 1);				/* hop limit */
	p = put_bytes(p, path->src.raw, 16);
	return put_bytes(p, path->dst.raw, 16);
}

static uint8_t *put_udp(uint8_t *p, const struct net_path *path, uint16_t udp_len)
{
	p = put_be16(p, path->src_port);
	p = put_be16(p, path->dst_port);
	p = put_be16(p, udp_len);
	return put_ones(p, 2);				/* checksum */
}

/*
 * ISA-L may leave values in the upper halves of the vector registers. Every switch to code compiled
 * for SSE only, such as ours, then costs more than the CRC of 4 KiB (docs/EXPERIMENTS.md).
 */
#ifdef __x86_64__
static __attribute__((target("avx"))) void clear_upper_halves(void)
{
	__builtin_ia32_vzeroupper();
}

static void leave_vectors(void)
{
	if (likely(__builtin_cpu_supports("avx")))
		clear_upper_halves();
}
#else
static void leave_vectors(void)
{
}
#endif

#define CRC32_POLY_REFLECTED 0xedb88320u

/* Four polynomials side by side. */
typedef uint32_t lanes __attribute__((vector_size(16)));
typedef int32_t signed_lanes __attribute__((vector_size(16)));

/*
 * Computes a * c modulo the CRC's polynomial, where c is given as c, c * x^8, c * x^16, c * x^24:
 * one for each byte of `a`, so that four chains of eight dependent steps run in parallel instead of
 * one of 32.
 */
static uint32_t gf_mul(uint32_t a, lanes c)
{
	lanes bits = { a, a << 8, a << 16, a << 24 };
	lanes product = { 0 };

	for (int i = 0; i < 8; i++) {
		product ^= c & (lanes)((signed_lanes)bits >> 31);
		c = c >> 1 ^ (CRC32_POLY_REFLECTED & -(c & 1));
		bits <<= 1;
	}
	return product[0] ^ product[1] ^ product[2] ^ product[3];
}

/*
 * Computes crc * x^(-8 * bytes): undoes the effect of `bytes` zero bytes on a CRC register. bytes <
 * 2^16.
 */
static uint32_t gf_unshift(uint32_t crc, uint32_t bytes)
{
	/* Row k: x^(-8 * 2^k), the square of the previous row, in lanes. */
	static const lanes inverse[] = {
		{ 0x6567cb95, 0x80000000, 0x00800000, 0x00008000 },
		{ 0xd7125358, 0x6567cb95, 0x80000000, 0x00800000 },
		{ 0x5b358fd3, 0x1f81b6e1, 0xd7125358, 0x6567cb95 },
		{ 0x2e9bb40b, 0x97fc423c, 0x2ff880c5, 0xeb21cebf },
		{ 0x12a59a49, 0x0f125cae, 0x31619cb3, 0x525983aa },
		{ 0x8df9403d, 0x58e5b551, 0x1c3484d7, 0x18ab73f3 },
		{ 0x5139de12, 0xf3e84896, 0x199fde39, 0x5f1c17d6 },
		{ 0xba340226, 0xd2b7b1ff, 0x2dd0583c, 0x2f42acdf },
		{ 0x29c45641, 0x01f2b550, 0x6b6aa341, 0x01b01ba5 },
		{ 0x12fbc105, 0x70780f4e, 0x91141498, 0xfe450f62 },
		{ 0xecd30c55, 0x1bed7677, 0xce7a09e9, 0xd91820d5 },
		{ 0x3755ebd8, 0x883f0f0d, 0x7e3943b2, 0x2511ebe3 },
		{ 0x24ee460c, 0x0992a26d, 0x330a8f47, 0xe88bdebc },
		{ 0x23783fcf, 0x0bf8a71e, 0xfa04c5c4, 0x9cf3026c },
		{ 0x479933fc, 0xb44c2704, 0x07d9883e, 0xc166c423 },
		{ 0xa39442a5, 0xa61fc325, 0x4ba2cb84, 0xea9ee5f2 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(inverse) && bytes >> k != 0; k++)
		if (bytes >> k & 1)
			crc = gf_mul(crc, inverse[k]);
	return crc;
}

/*
 * What the set bits of the identification add to a register at the end of the UDP header, 22 bytes
 * later. The CRC is linear, so a front is computed with identification 0.
 */
static uint32_t of_id(uint16_t ip_id)
{
	static const uint32_t bits[16] = {
		0x9b73ead4, 0xed96d3e9, 0x005ca193, 0x00b94326,
		0x0172864c, 0x02e50c98, 0x05ca1930, 0x0b943260,
		0x81256527, 0xd93bcc0f, 0x69069e5f, 0xd20d3cbe,
		0x7f6b7f3d, 0xfed6fe7a, 0x26dcfab5, 0x4db9f56a,
	};
	uint32_t crc = 0;

	for (; ip_id; ip_id &= ip_id - 1)
		crc ^= bits[__builtin_ctz(ip_id)];
	return crc;
}

static bool is_front_of(const struct roce_icrc_front *front, const struct net_path *path,
			size_t len)
{
	return front->len == len && net_addr_equal(&front->src, &path->src) &&
	       net_addr_equal(&front->dst, &path->dst) && front->src_port == path->src_port &&
	       front->dst_port == path->dst_port;
}

static void make_front(struct roce_icrc_front *front, const struct net_path *path, size_t len)
{
	uint16_t udp_len = (uint16_t)(UDP_LEN + len + ROCE_ICRC_LEN);
	uint8_t pseudo[PSEUDO_MAX];
	uint8_t *p = put_ones(pseudo, LRH_LEN);

	front->src = path->src;
	front->dst = path->dst;
	front->src_port = path->src_port;
	front->dst_port = path->dst_port;
	front->len = len;
	front->ipv4 = net_is_ipv4(&path->dst);
	if (front->ipv4)
		p = put_ipv4(p, path, udp_len);
	else
		p = put_ipv6(p, path, udp_len);
	p = put_udp(p, path, udp_len);
	front->crc = crc32_gzip_refl(0, pseudo, (uint64_t)(p - pseudo));
}

/*
 * What must be added to a register in front of the BTH so that its variant byte, with this value,
 * counts as ones: their difference, moved back to the front. Nearly always the byte is 0.
 */
static uint32_t of_variant(uint8_t value)
{
	return likely(!value) ? VARIANT_ZERO : gf_unshift(value ^ 0xffu, BTH_VARIANT_BYTE);
}

uint32_t roce_icrc_next(struct roce_icrc_front *front, const struct net_path *path, uint16_t ip_id,
			const uint8_t *data, size_t len)
{
	uint32_t crc;

	if (!is_front_of(front, path, len))
		make_front(front, path, len);
	crc = front->crc ^ of_variant(data[BTH_VARIANT_BYTE]);
	if (front->ipv4)
		crc ^= of_id(ip_id);
	crc = crc32_gzip_refl(crc, data, len);
	leave_vectors();
	return crc;
}

uint32_t roce_icrc(const struct net_path *path, uint16_t ip_id, const uint8_t *data, size_t len)
{
	struct roce_icrc_front front = { 0 };

	return roce_icrc_next(&front, path, ip_id, data, len);
}

/*
 * Does the received CRC differ from the CRC with identification 0 by what some identification would
 * have added? The CRC is linear: the difference is identification * x^(8 * (bytes after it + 4)).
 * Unshifted it must be a polynomial that fits into the identification's 16 bits, which are the
 * upper half of this register.
 */
static bool fits_some_id(uint32_t difference, size_t len)
{
	uint32_t behind = IPV4_LEN - IPV4_ID_OFFSET - 2 + UDP_LEN + (uint32_t)len;

	return difference == 0 || (gf_unshift(difference, behind + 4) & 0xffff) == 0;
}

static uint32_t get_icrc(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

/* Continues a CRC with the headers of the FLUSH, as they are. */
static uint32_t append_again(uint32_t crc, const uint8_t *data, size_t len)
{
	crc = crc32_gzip_refl(crc, data, len);
	leave_vectors();
	return crc;
}

uint32_t roce_icrc_soft_flush(const struct net_path *path, uint16_t ip_id, const uint8_t *data,
			      size_t len)
{
	return append_again(roce_icrc(path, ip_id, data, len), data, len);
}

bool roce_icrc_is_soft_flush(const struct net_path *path, bool id_known, uint16_t ip_id,
			     const uint8_t *data, size_t len)
{
	uint32_t difference;

	if (len != SOFT_FLUSH_LEN ||
	    roce_opcode_info(roce_opcode_of(data))->kind != ROCE_KIND_FLUSH)
		return false;
	len -= ROCE_ICRC_LEN;
	difference = get_icrc(data + len) ^ roce_icrc_soft_flush(path, ip_id, data, len);
	if (id_known || !net_is_ipv4(&path->dst))
		return difference == 0;
	return fits_some_id(difference, 2 * len);
}

enum roce_icrc_verdict roce_icrc_check_next(struct roce_icrc_front *front,
					    const struct net_path *path, bool id_known,
					    uint16_t ip_id, const uint8_t *data, size_t len)
{
	uint32_t difference;

	if (len < ROCE_BTH_LEN + ROCE_ICRC_LEN || len > UDP_MAX_DATA)
		return ROCE_ICRC_BAD;
	len -= ROCE_ICRC_LEN;
	if (!net_is_ipv4(&path->dst))
		id_known = true;
	difference = get_icrc(data + len) ^ roce_icrc_next(front, path, ip_id, data, len);
	if (id_known)
		return difference == 0 ? ROCE_ICRC_GOOD : ROCE_ICRC_BAD;
	return fits_some_id(difference, len) ? ROCE_ICRC_GOOD_FOR_SOME_ID : ROCE_ICRC_BAD;
}

enum roce_icrc_verdict roce_icrc_check(const struct net_path *path, bool id_known, uint16_t ip_id,
				       const uint8_t *data, size_t len)
{
	struct roce_icrc_front front = { 0 };

	return roce_icrc_check_next(&front, path, id_known, ip_id, data, len);
}
