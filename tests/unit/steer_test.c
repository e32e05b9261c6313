/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering program runs in a small interpreter of its instructions and is compared with a
 * search through the table.
 */
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "place.h"
#include "util/be.h"
#include "wire/steer.h"

enum {
	MAX_BLOCKS = 4000,
	PACKET = 64,
	ATTRIBUTE_AT = 12 + 8 + 16,
	REMOTE_ID_AT = 12 + 8 + 24 + 4,
};

static uint32_t chance;	/* the next random number */

static size_t build(const struct net_steer *map, size_t n, unsigned int family,
		    struct sock_filter *insn)
{
	return steer_build((struct net_steer_list){ map, n }, (struct net_steer_list){ NULL, 0 },
			   family, insn);
}

static uint32_t load(const uint8_t *pkt, uint16_t code, uint32_t at)
{
	if (at == (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM)
		return chance;
	switch (BPF_SIZE(code)) {
	case BPF_B:
		return pkt[at];
	case BPF_H:
		return get_be16(pkt + at);
	}
	return get_be32(pkt + at);
}

static bool jump_taken(uint16_t code, uint32_t a, uint32_t k)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == k;
	case BPF_JGE:
		return a >= k;
	case BPF_JGT:
		return a > k;
	case BPF_JSET:
		return a & k;
	}
	fail_msg("instruction %#x", code);
	return false;
}

static uint32_t run(const struct sock_filter *insn, size_t n, const uint8_t *pkt)
{
	uint32_t a = 0;
	size_t pc = 0;

	for (;;) {
		const struct sock_filter *i = &insn[pc++];

		assert_true(pc <= n);
		if (BPF_CLASS(i->code) == BPF_LD)
			a = load(pkt, i->code, i->k);
		else if (i->code == (BPF_ALU | BPF_MOD | BPF_K))
			a %= i->k;
		else if (i->code == (BPF_ALU | BPF_RSH | BPF_K))
			a >>= i->k;
		else if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		else if (i->code == (BPF_JMP | BPF_JA))
			pc += i->k;
		else
			pc += jump_taken(i->code, a, i->k) ? i->jt : i->jf;
	}
}

static void make_packet(uint8_t pkt[PACKET], uint32_t qpn)
{
	memset(pkt, 0, PACKET);
	pkt[0] = 100;
	pkt[1] = 0x40;
	pkt[4] = 0xc0;
	put_be24(pkt + 5, qpn);
}

static uint32_t search(const struct net_steer *map, size_t n, unsigned int family, uint32_t block)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (map[i].number == block && map[i].index[family] >= 0)
			return (uint32_t)map[i].index[family];
	return STEER_NOWHERE;
}

static void compare(const struct net_steer *map, size_t n)
{
	static struct sock_filter insn[STEER_INSNS];
	unsigned int family;
	uint32_t block;
	uint8_t pkt[PACKET];

	for (family = 0; family < 2; family++) {
		size_t len = build(map, n, family, insn);

		assert_in_range(len, 1, STEER_INSNS);
		for (block = 1; block < 65536; block++) {
			make_packet(pkt, block << 8 | (block * 31 & 0xff));
			assert_int_equal(run(insn, len, pkt), search(map, n, family, block));
		}
	}
}

/* Packets to QP 1 go to any position up to the last; without a position, to the kernel's choice. */
static void management_goes_anywhere(void **state)
{
	const struct net_steer map[] = { { 0, { 4, 1 } }, { 7, { 2, 0 } }, { 900, { 0, -1 } } },
			       none = { 0, { -1, -1 } };
	static struct sock_filter insn[STEER_INSNS];
	const uint32_t sockets[2] = { 5, 2 };
	uint8_t pkt[PACKET];

	make_packet(pkt, 1);
	for (unsigned int family = 0; family < 2; family++) {
		for (size_t n = 1; n <= 3; n++) {
			size_t len = build(map, n, family, insn);
			uint32_t seen = 0;

			for (chance = 0xfffffff0; chance != 100; chance++) {
				uint32_t position = run(insn, len, pkt);

				assert_true(position < sockets[family]);
				seen |= 1u << position;
			}
			assert_int_equal(seen, (1u << sockets[family]) - 1);
		}
	}
	assert_int_equal(run(insn, build(&none, 1, 0, insn), pkt), STEER_NOWHERE);
	assert_int_equal(run(insn, build(NULL, 0, 0, insn), pkt), STEER_NOWHERE);
}

static void make_mad(uint8_t pkt[PACKET], uint16_t attribute, uint32_t remote_id)
{
	make_packet(pkt, 1);
	put_be16(pkt + ATTRIBUTE_AT, attribute);
	put_be32(pkt + REMOTE_ID_AT, remote_id);
}

/* The answers of connections go to the slot of the communication id that they name. */
static void management_finds_the_owner(void **state)
{
	static const uint16_t replies[] = { 0x11, 0x12, 0x13, 0x14, 0x15, 0x16 },
			      others[] = { 0x10, 0x17, 0x18, 0x19, 0x1a };
	const struct net_steer all = { 0, { 4, 4 } },
			       slots[] = { { 0, { 3, -1 } }, { 1, { 3, 1 } }, { 1023, { 0, 2 } } };
	static struct sock_filter insn[STEER_INSNS];
	size_t len = steer_build((struct net_steer_list){ &all, 1 },
				 (struct net_steer_list){ slots, 3 }, 0, insn);
	uint8_t pkt[PACKET];

	chance = 2;
	for (size_t i = 0; i < 6; i++) {
		make_mad(pkt, replies[i], 77);
		assert_int_equal(run(insn, len, pkt), 3);
		make_mad(pkt, replies[i], 1u << 22 | 77);
		assert_int_equal(run(insn, len, pkt), 3);
		make_mad(pkt, replies[i], 0xffffffff);
		assert_int_equal(run(insn, len, pkt), 0);
		make_mad(pkt, replies[i], 500u << 22);
		assert_int_equal(run(insn, len, pkt), chance);
	}
	for (size_t i = 0; i < 5; i++) {
		make_mad(pkt, others[i], 1u << 22);
		assert_int_equal(run(insn, len, pkt), chance);
	}
	len = steer_build((struct net_steer_list){ &all, 1 }, (struct net_steer_list){ slots, 3 },
			  1, insn);
	make_mad(pkt, replies[0], 77);
	assert_int_equal(run(insn, len, pkt), chance);
	make_mad(pkt, replies[0], 1u << 22);
	assert_int_equal(run(insn, len, pkt), 1);
}

/* Where one process listens it gets the requests; where several do, any. */
static void requests_find_the_only_listener(void **state)
{
	static const uint16_t requests[] = { 0x10, 0x17 };
	const struct net_steer all = { .index = { 4, 4 } };
	struct net_steer slots[STEER_SLOTS] = {
		{ .number = 0, .index = { 3, 1 } },
		{ .number = 5, .index = { 1, -1 }, .listens = true },
	};
	static struct sock_filter insn[STEER_INSNS];
	const struct {
		size_t slots;
		unsigned int family;
		bool two;
		uint32_t position;
	} cases[] = { { 1, 0, false, 2 }, { 2, 0, false, 1 }, { 2, 1, false, 2 },
		      { 2, 0, true, 2 }, { STEER_SLOTS, 0, false, 2 } };
	uint8_t pkt[PACKET];

	chance = 2;
	for (uint16_t i = 2; i < STEER_SLOTS; i++)
		slots[i] = (struct net_steer){ .number = 10 + i, .index = { 3, 3 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len;

		slots[0].listens = cases[i].two;
		len = steer_build((struct net_steer_list){ &all, 1 },
				  (struct net_steer_list){ slots, cases[i].slots },
				  cases[i].family, insn);
		for (size_t k = 0; k < 2; k++) {
			make_mad(pkt, requests[k], 0);
			assert_int_equal(run(insn, len, pkt), cases[i].position);
		}
		make_mad(pkt, 0x18, 0);
		assert_int_equal(run(insn, len, pkt), chance);
		make_mad(pkt, 0x13, 0);
		assert_int_equal(run(insn, len, pkt), cases[i].family ? 1 : 3);
	}
}

/* Slots that do not fit go anywhere; with all blocks that fit, the program is not too long. */
static void more_slots_than_fit(void **state)
{
	static struct net_steer map[MAX_BLOCKS], slots[1024];
	static struct sock_filter insn[STEER_INSNS];
	uint8_t pkt[PACKET];
	size_t len;

	for (uint16_t i = 0; i < MAX_BLOCKS; i++)
		map[i] = (struct net_steer){ (uint16_t)(2 * i), { 1022, i } };
	for (uint16_t i = 0; i < 1024; i++)
		slots[i] = (struct net_steer){ i, { 1023 - i, 0 } };
	len = steer_build((struct net_steer_list){ map, MAX_BLOCKS },
			  (struct net_steer_list){ slots, 1024 }, 0, insn);
	assert_in_range(len, 1, STEER_INSNS);
	chance = 1022;
	for (uint32_t i = 0; i < 1024; i++) {
		make_mad(pkt, 0x13, i << 22);
		assert_int_equal(run(insn, len, pkt), i < STEER_SLOTS ? 1023 - i : chance);
	}
	make_packet(pkt, 2 * 400 << 8);
	assert_int_equal(run(insn, len, pkt), 1022);
}

static void without_blocks_nothing_is_steered(void **state)
{
	compare(NULL, 0);
}

static void boundaries(void **state)
{
	const struct net_steer map[] = {
		{ 3, { 1, -1 } },     { 4, { 1, 0 } },	   { 5, { 2, 0 } },
		{ 7, { 2, 0 } },      { 65534, { 9, 9 } }, { 65535, { 9, 8 } },
	};
	size_t n;

	for (n = 1; n <= 6; n++)
		compare(map, n);
}

static void random_tables(void **state)
{
	uint64_t seed = place_seed();
	static struct net_steer map[MAX_BLOCKS];
	int round;

	for (round = 0; round < 12; round++) {
		uint32_t block = 0, gap = 2 + 65000 / 300;
		size_t n = 0;

		while (n < STEER_BLOCKS) {
			block += 1 + (uint32_t)(place_next(&seed) % (round % 2 ? gap : 2));
			if (block > 65535)
				break;
			map[n++] = (struct net_steer){
				(uint16_t)block,
				{ (int32_t)(place_next(&seed) % 4) - 1,
				  (int32_t)(place_next(&seed) % 100) },
			};
		}
		compare(map, n);
	}
}

/* Blocks that do not fit are left to the kernel's hash; those that fit are steered correctly. */
static void a_table_that_is_too_long(void **state)
{
	static struct net_steer map[MAX_BLOCKS];
	static struct sock_filter insn[STEER_INSNS];
	uint8_t pkt[PACKET];
	size_t i, len;

	for (i = 0; i < MAX_BLOCKS; i++)
		map[i] = (struct net_steer){ (uint16_t)(2 * i + 2), { (int32_t)i, 0 } };
	len = build(map, MAX_BLOCKS, 0, insn);
	assert_in_range(len, 1, STEER_INSNS);
	for (i = 0; i < MAX_BLOCKS; i++) {
		make_packet(pkt, (uint32_t)(2 * i + 2) << 8);
		assert_int_equal(run(insn, len, pkt), i < STEER_BLOCKS ? i : STEER_NOWHERE);
	}
}

static void probes_go_to_their_position(void **state)
{
	const struct net_steer map = { 0xffff, { 3, 3 } };
	struct sock_filter insn[STEER_INSNS];
	uint8_t buf[PACKET];
	size_t len = build(&map, 1, 0, insn);
	uint16_t position;
	bool mine;

	steer_probe_make(buf, 300, 0x1122334455667788);
	assert_int_equal(run(insn, len, buf), 300);
	assert_true(steer_probe_read(buf, STEER_PROBE_LEN, 0x1122334455667788, &mine, &position));
	assert_true(mine && position == 300);
	assert_true(steer_probe_read(buf, STEER_PROBE_LEN, 1, &mine, &position));
	assert_false(mine);
	assert_false(steer_probe_read(buf, STEER_PROBE_LEN - 1, 1, &mine, &position));
	make_packet(buf, 0x123456);
	assert_false(steer_probe_read(buf, STEER_PROBE_LEN, 1, &mine, &position));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_blocks_nothing_is_steered),
		cmocka_unit_test(management_goes_anywhere),
		cmocka_unit_test(management_finds_the_owner),
		cmocka_unit_test(requests_find_the_only_listener),
		cmocka_unit_test(more_slots_than_fit),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(random_tables),
		cmocka_unit_test(a_table_that_is_too_long),
		cmocka_unit_test(probes_go_to_their_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
