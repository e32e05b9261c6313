/* SPDX-License-Identifier: BSD-2-Clause */
/* Dissecting frames byte by byte: the fields of each header, and headers with wrong lengths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/dissect.h"
#include "unit/flow_env.h"
#include "unit/flow_world.h"
#include "unit/random.h"
#include "util/compiler.h"

#define HOME   "\x02\0\0\0\0\x01"
#define REMOTE "\x02\0\0\0\0\x02"

static struct flow_key key;

static void look(const struct frame *f)
{
	flow_dissect(&key, f->data, f->len);
}

static struct frame udp4(uint16_t type, size_t options)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, HOME, REMOTE, type);
	frame_ipv4(&f, 0x0a000001, 0x0a000002, 17, options, 8 + 4);
	frame_udp(&f, 1000, 53, 4);
	frame_room(&f, 4);
	return f;
}

static void plain_udp(void **state)
{
	struct frame f = udp4(0x0800, 0);

	f.data[15] = 0xb8;
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	assert_memory_equal(key.outer.dst_mac, HOME, 6);
	assert_memory_equal(key.outer.src_mac, REMOTE, 6);
	assert_int_equal(key.outer.ether_type, htobe16(0x0800));
	assert_int_equal(get_be32(key.outer.src_ip), 0x0a000001);
	assert_int_equal(get_be32(key.outer.dst_ip), 0x0a000002);
	assert_int_equal(key.outer.tos, 0xb8);
	assert_int_equal(key.outer.ttl, 64);
	assert_int_equal(key.outer.proto, 17);
	assert_int_equal(key.outer.src_port, htobe16(1000));
	assert_int_equal(key.outer.dst_port, htobe16(53));
	assert_int_equal(key.inner.headers, 0);
}

static void ipv4_options(void **state)
{
	for (size_t words = 0; words <= 10; words++) {
		struct frame f = udp4(0x0800, words);

		look(&f);
		assert_int_equal(key.outer.dst_port, htobe16(53));
	}
}

static void vlan_tags(void **state)
{
	static const uint16_t types[] = { 0x8100, 0x88a8, 0x9100 };

	for (unsigned int n = 1; n <= 5; n++) {
		struct frame f = { .len = 0 };

		frame_eth(&f, HOME, REMOTE, types[0]);
		for (unsigned int i = 1; i <= n; i++)
			frame_vlan(&f, 0x6000 + i, i < n ? types[i % 3] : 0x86dd);
		frame_ipv6(&f, (uint8_t[16]){ 1 }, (uint8_t[16]){ 2 }, 6, 20);
		frame_tcp(&f, 7, 8);
		look(&f);
		assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_VLAN | FLOW_IPV6 | FLOW_TCP);
		assert_int_equal(key.outer.vlan_tag, htobe16(0x6001));
		assert_int_equal(key.outer.ether_type, htobe16(0x86dd));
		assert_int_equal(key.outer.dst_port, htobe16(8));
	}
}

static void wrong_lengths(void **state)
{
	struct frame f = udp4(0x0800, 0);

	f.data[14] = 0x55; /* version */
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH);
	f.data[14] = 0x44; /* header shorter than itself */
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH);
	f.data[14] = 0x4f; /* beyond the frame */
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH);

	f = udp4(0x0800, 0);
	put_be16(f.data + 16, 27); /* UDP's header is padding */
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4);
	put_be16(f.data + 16, 3);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4);
	put_be16(f.data + 16, 28);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	put_be16(f.data + 16, 0);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	put_be16(f.data + 16, 0xffff);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
}

static void fragments(void **state)
{
	struct frame f = udp4(0x0800, 0);

	put_be16(f.data + 20, 0x2000);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	assert_int_equal(key.outer.ip_flags, FLOW_IP_MF);
	put_be16(f.data + 20, 0x4000);
	look(&f);
	assert_int_equal(key.outer.ip_flags, FLOW_IP_DF);
	put_be16(f.data + 20, 0x2001);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV4 | FLOW_FRAGMENT);
	assert_int_equal(key.outer.proto, 17);
	assert_int_equal(key.outer.dst_port, 0);
}

static void ipv6_extensions(void **state)
{
	static const uint8_t types[] = { 0, 43, 60, 135, 139, 140 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct frame f = { .len = 0 };
		uint8_t *ext;

		frame_eth(&f, HOME, REMOTE, 0x86dd);
		frame_ipv6(&f, (uint8_t[16]){ 1 }, (uint8_t[16]){ 2 }, types[i], 16 + 8 + 12 + 8);
		ext = frame_room(&f, 16);
		ext[0] = 44;
		ext[1] = 1;
		ext = frame_room(&f, 8);
		ext[0] = 51;
		ext[3] = 1; /* more follow */
		ext = frame_room(&f, 12);
		ext[0] = 17;
		ext[1] = 1;
		frame_udp(&f, 1, 2, 0);
		look(&f);
		assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV6 | FLOW_UDP);
		assert_int_equal(key.outer.proto, 17);
		put_be16(f.data + 14 + 40 + 16 + 2, 8); /* not the first */
		look(&f);
		assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV6 | FLOW_FRAGMENT);
		assert_int_equal(key.outer.proto, 51);
		f.data[14 + 40 + 1] = 200; /* beyond the frame */
		look(&f);
		assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_IPV6);
		assert_int_equal(key.outer.proto, types[i]);
	}
}

static void label_stacks(void **state)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, HOME, REMOTE, 0x8847);
	put_be32(frame_room(&f, 4), 0x12345 << 12 | 64);
	put_be32(frame_room(&f, 4), 0x00001 << 12 | 1 << 8 | 64);
	frame_ipv4(&f, 1, 2, 17, 0, 8);
	frame_udp(&f, 3, 4, 0);
	look(&f);
	assert_int_equal(key.outer.headers, FLOW_ETH | FLOW_MPLS | FLOW_IPV4 | FLOW_UDP);
	assert_int_equal(key.outer.mpls, htobe32(0x12345 << 12 | 64));
	f.data[14 + 4 + 2] = 0; /* no bottom */
	look(&f);
	assert_int_equal(key.outer.headers & FLOW_UDP, 0);
	assert_int_equal(key.outer.headers & FLOW_IPV4, 0);
}

/* Not a tunnel: no VNI, other versions of GRE, other ports. */
static void not_a_tunnel(void **state)
{
	struct frame in = udp4(0x0800, 0), f = { .len = 0 };
	uint8_t *hdr;

	frame_eth(&f, HOME, REMOTE, 0x0800);
	frame_ipv4(&f, 1, 2, 17, 0, 16 + in.len);
	frame_udp(&f, 9, 4789, 8 + in.len);
	hdr = frame_room(&f, 8);
	hdr[0] = 0xf7;
	memcpy(frame_room(&f, in.len), in.data, in.len);
	look(&f);
	assert_int_equal(key.outer.headers & FLOW_VXLAN, 0);
	assert_int_equal(key.inner.headers, 0);
	hdr[0] = 8;
	look(&f);
	assert_int_equal(key.outer.headers & FLOW_VXLAN, FLOW_VXLAN);
	assert_int_equal(key.inner.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	put_be16(f.data + 14 + 20 + 2, 4788);
	look(&f);
	assert_int_equal(key.outer.headers & FLOW_VXLAN, 0);

	f.len = 0;
	frame_eth(&f, HOME, REMOTE, 0x0800);
	frame_ipv4(&f, 1, 2, 47, 0, 8 + in.len);
	hdr = frame_room(&f, 8);
	put_be16(put_be16(hdr, 0x2000), 0x6558);
	put_be32(hdr + 4, 77);
	memcpy(frame_room(&f, in.len), in.data, in.len);
	look(&f);
	assert_int_equal(key.gre_key, htobe32(77));
	assert_int_equal(key.inner.headers, FLOW_ETH | FLOW_IPV4 | FLOW_UDP);
	put_be16(hdr, 0x2001); /* PPTP */
	look(&f);
	assert_int_equal(key.outer.headers & FLOW_GRE, FLOW_GRE);
	assert_int_equal(key.gre_key, 0);
	assert_int_equal(key.inner.headers, 0);
	put_be16(hdr, 0x6000); /* source routes */
	look(&f);
	assert_int_equal(key.inner.headers, 0);
}

/*
 * Each header counts once its last byte is there. Frames lie at the end of their memory, so that a
 * sanitizer reports a read beyond.
 */
static void every_length(void **state)
{
	random_start();
	world_start(random_u64());
	for (unsigned int i = 0; i < 300; i++) {
		struct world_frame w;
		uint32_t outer = 0, inner = 0;

		world_frame(&w);
		for (size_t len = 0; len <= w.f.len; len++) {
			uint8_t *exact = malloc(len ? len : 1);

			memcpy(exact, w.f.data, len);
			flow_dissect(&key, exact, len);
			free(exact);
			assert_int_equal(outer & ~key.outer.headers, 0);
			assert_int_equal(inner & ~key.inner.headers, 0);
			outer = key.outer.headers;
			inner = key.inner.headers;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_udp),
		cmocka_unit_test(ipv4_options),
		cmocka_unit_test(vlan_tags),
		cmocka_unit_test(wrong_lengths),
		cmocka_unit_test(fragments),
		cmocka_unit_test(ipv6_extensions),
		cmocka_unit_test(label_stacks),
		cmocka_unit_test(not_a_tunnel),
		cmocka_unit_test(every_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
