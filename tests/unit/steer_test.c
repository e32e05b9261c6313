/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program runs in a small interpreter of the instructions it uses, against a search through the
 * table.
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

enum { MAX_BLOCKS = 4000 };

static uint32_t chance;	/* the next random number */

static uint32_t load(const uint8_t *pkt, uint16_t code, uint32_t at)
{
	if (at == (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM)
		return chance;
	return (code & 0x18) == BPF_B ? pkt[at] : get_be16(pkt + at);
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
		else if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		else if (i->code == (BPF_JMP | BPF_JA))
			pc += i->k;
		else
			pc += jump_taken(i->code, a, i->k) ? i->jt : i->jf;
	}
}

static void make_packet(uint8_t pkt[32], uint32_t qpn)
{
	memset(pkt, 0, 32);
	pkt[0] = 100;
	pkt[1] = 0x40;
	pkt[4] = 0xc0;
	put_be24(pkt + 5, qpn);
}

static uint32_t search(const struct net_steer *map, size_t n, unsigned int family, uint32_t block)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (map[i].block == block && map[i].index[family] >= 0)
			return (uint32_t)map[i].index[family];
	return STEER_NOWHERE;
}

static void compare(const struct net_steer *map, size_t n)
{
	static struct sock_filter insn[STEER_INSNS];
	unsigned int family;
	uint32_t block;
	uint8_t pkt[32];

	for (family = 0; family < 2; family++) {
		size_t len = steer_build(map, n, family, insn);

		assert_in_range(len, 1, STEER_INSNS);
		for (block = 1; block < 65536; block++) {
			make_packet(pkt, block << 8 | (block * 31 & 0xff));
			assert_int_equal(run(insn, len, pkt), search(map, n, family, block));
		}
	}
}

/*
 * Packets to QP 1 go to every position up to the last, and to no other; without one to where the
 * kernel likes.
 */
static void management_goes_anywhere(void **state)
{
	const struct net_steer map[] = { { 0, { 4, 1 } }, { 7, { 2, 0 } }, { 900, { 0, -1 } } },
			       none = { 0, { -1, -1 } };
	static struct sock_filter insn[STEER_INSNS];
	const uint32_t sockets[2] = { 5, 2 };
	uint8_t pkt[32];

	make_packet(pkt, 1);
	for (unsigned int family = 0; family < 2; family++) {
		for (size_t n = 1; n <= 3; n++) {
			size_t len = steer_build(map, n, family, insn);
			uint32_t seen = 0;

			for (chance = 0xfffffff0; chance != 100; chance++) {
				uint32_t position = run(insn, len, pkt);

				assert_true(position < sockets[family]);
				seen |= 1u << position;
			}
			assert_int_equal(seen, (1u << sockets[family]) - 1);
		}
	}
	assert_int_equal(run(insn, steer_build(&none, 1, 0, insn), pkt), STEER_NOWHERE);
	assert_int_equal(run(insn, steer_build(NULL, 0, 0, insn), pkt), STEER_NOWHERE);
}

static void no_blocks_means_nowhere(void **state)
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

/* What does not fit is left to the kernel's hash; what fits is right. */
static void a_table_that_is_too_long(void **state)
{
	static struct net_steer map[MAX_BLOCKS];
	static struct sock_filter insn[STEER_INSNS];
	uint8_t pkt[32];
	size_t i, len;

	for (i = 0; i < MAX_BLOCKS; i++)
		map[i] = (struct net_steer){ (uint16_t)(2 * i + 2), { (int32_t)i, 0 } };
	len = steer_build(map, MAX_BLOCKS, 0, insn);
	assert_in_range(len, 1, STEER_INSNS);
	for (i = 0; i < MAX_BLOCKS; i++) {
		make_packet(pkt, (uint32_t)(2 * i + 2) << 8);
		assert_int_equal(run(insn, len, pkt), i < STEER_BLOCKS ? i : STEER_NOWHERE);
	}
}

static void probes_go_where_they_say(void **state)
{
	const struct net_steer map = { 0xffff, { 3, 3 } };
	struct sock_filter insn[STEER_INSNS];
	uint8_t buf[STEER_PROBE_LEN];
	size_t len = steer_build(&map, 1, 0, insn);
	uint16_t position;
	bool mine;

	steer_probe_make(buf, 300, 0x1122334455667788);
	assert_int_equal(run(insn, len, buf), 300);
	assert_true(steer_probe_read(buf, sizeof(buf), 0x1122334455667788, &mine, &position));
	assert_true(mine && position == 300);
	assert_true(steer_probe_read(buf, sizeof(buf), 1, &mine, &position));
	assert_false(mine);
	assert_false(steer_probe_read(buf, sizeof(buf) - 1, 1, &mine, &position));
	make_packet(buf, 0x123456);
	assert_false(steer_probe_read(buf, sizeof(buf), 1, &mine, &position));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_blocks_means_nowhere),
		cmocka_unit_test(management_goes_anywhere),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(random_tables),
		cmocka_unit_test(a_table_that_is_too_long),
		cmocka_unit_test(probes_go_where_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
