/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket filters: the filter passes every frame that the matcher gives to a rule, on random tables
 * and frames, both in an interpreter of classic BPF and in the kernel; and filters of plain rules
 * drop the other frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "flow/filter.h"
#include "flow/const.h"
#include "unit/flow_world.h"
#include "unit/random.h"
#include "left_out.h"

enum { ROOM = 4096 };

static struct sock_filter program[ROOM];

/* A frame as the kernel holds it: with the first VLAN tag in the frame or beside it. */
struct seen {
	uint8_t data[2048];
	uint32_t len;
	bool tagged;
	uint16_t tag;
};

static struct seen as_is(const uint8_t *data, size_t len)
{
	struct seen s = { .len = len };

	memcpy(s.data, data, len);
	return s;
}

/* The kernel removes a tag of 802.1Q or 802.1ad from the frame. */
static struct seen tag_taken_out(const uint8_t *data, size_t len)
{
	struct seen s = as_is(data, len);
	uint16_t type = len >= 18 ? get_be16(data + 12) : 0;

	if (type != ETHERTYPE_VLAN && type != ETHERTYPE_SVLAN)
		return s;
	s.tagged = true;
	s.tag = get_be16(data + 14);
	s.len -= 4;
	memcpy(s.data + 12, data + 16, len - 16);
	return s;
}

/* Returns the value; -1: outside the frame. */
static int64_t load(const struct seen *s, uint32_t at, unsigned int size)
{
	if (at >= (uint32_t)SKF_AD_OFF) {
		assert_true(at - (uint32_t)SKF_AD_OFF == SKF_AD_VLAN_TAG ||
			    at - (uint32_t)SKF_AD_OFF == SKF_AD_VLAN_TAG_PRESENT);
		return at - (uint32_t)SKF_AD_OFF == SKF_AD_VLAN_TAG ? (s->tagged ? s->tag : 0)
								    : s->tagged;
	}
	if (at > s->len || size > s->len - at)
		return -1;
	return size == 4   ? get_be32(s->data + at)
	       : size == 2 ? get_be16(s->data + at)
			   : s->data[at];
}

static bool compare(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGE:
		return a >= b;
	default:
		fail_msg("jump %x", code);
		return false;
	}
}

static uint32_t calculate(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_AND:
		return a & b;
	case BPF_LSH:
		return a << b;
	default:
		fail_msg("operation %x", code);
		return 0;
	}
}

static uint32_t run(unsigned int len, const struct seen *s)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = { 0 };

	for (unsigned int pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &program[pc];
		unsigned int size = BPF_SIZE(i->code) == BPF_W   ? 4
				    : BPF_SIZE(i->code) == BPF_H ? 2
								 : 1;
		int64_t loaded;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
			switch (BPF_MODE(i->code)) {
			case BPF_IMM:
				a = i->k;
				break;
			case BPF_LEN:
				a = s->len;
				break;
			case BPF_MEM:
				a = mem[i->k];
				break;
			default:
				loaded = load(s, i->k + (BPF_MODE(i->code) == BPF_IND ? x : 0),
					      size);
				if (loaded < 0)
					return 0;
				a = loaded;
			}
			break;
		case BPF_LDX:
			assert_int_equal(BPF_MODE(i->code), BPF_MEM);
			x = mem[i->k];
			break;
		case BPF_ST:
			mem[i->k] = a;
			break;
		case BPF_ALU:
			a = calculate(i->code, a, BPF_SRC(i->code) == BPF_X ? x : i->k);
			break;
		case BPF_JMP:
			if (BPF_OP(i->code) == BPF_JA) {
				pc += i->k;
				break;
			}
			pc += compare(i->code, a, BPF_SRC(i->code) == BPF_X ? x : i->k) ? i->jt
											: i->jf;
			break;
		case BPF_MISC:
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		case BPF_RET:
			return i->k;
		default:
			fail_msg("instruction %x", i->code);
		}
	}
	fail_msg("ran out of the program");
	return 0;
}

static bool takes_seen(unsigned int len, struct seen s)
{
	uint32_t bytes = run(len, &s);

	assert_true(bytes == 0 || bytes == UINT32_MAX);
	return bytes;
}

/* In either form. */
static bool takes(unsigned int len, const uint8_t *data, size_t size)
{
	return takes_seen(len, as_is(data, size)) && takes_seen(len, tag_taken_out(data, size));
}

static bool leaves(unsigned int len, const uint8_t *data, size_t size)
{
	return !takes_seen(len, as_is(data, size)) && !takes_seen(len, tag_taken_out(data, size));
}

static void count(void *arg, struct flow_rule *rule)
{
	if (!rule->drop || rule->counters)
		++*(unsigned int *)arg;
}

struct world_table {
	struct flow_table t;
	struct flow_rule rules[8];
	struct spec_list lists[8];
	unsigned int n;
};

static void random_table(struct world_table *w, const struct world_frame *like, unsigned int most)
{
	unsigned int n = 1 + random_below(most);

	flow_table_init(&w->t);
	w->n = 0;
	while (w->n < n) {
		struct spec_list *list = &w->lists[w->n];

		if (random_below(20)) {
			world_rule(list, like);
			if (!list->attr.num_of_specs)
				continue;
			list->attr.priority = random_below(3);
			if (!random_below(5))
				RULE_ADD(list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
			if (!random_below(5))
				RULE_ADD(list, counter_action, IBV_FLOW_SPEC_ACTION_COUNT,
					 .counters = (void *)8);
		} else {
			rule_begin(list, IBV_FLOW_ATTR_MC_DEFAULT);
		}
		if (!flow_rule_parse(&w->rules[w->n], &list->attr) &&
		    !flow_table_add(&w->t, &w->rules[w->n]))
			w->n++;
	}
}

static void passes_all_matching_frames(void **state)
{
	unsigned int hit_frames = 0, taken = 0, frames = 0;

	random_start();
	world_start(random_u64());
	for (unsigned int round = 0; round < 8000; round++) {
		struct world_table w;
		struct world_frame f;
		unsigned int len;

		world_frame(&f);
		random_table(&w, &f, 5);
		len = flow_filter(&w.t, program, ROOM);
		assert_true(len > 1);
		for (unsigned int i = 0; i < 8; i++) {
			unsigned int hits = 0;
			struct flow_key key;
			bool in;

			if (i)
				world_frame(&f);
			flow_dissect(&key, f.f.data, f.len);
			flow_table_received(&w.t, &key, count, &hits);
			in = takes(len, f.f.data, f.len);
			if (hits && !in)
				fail_msg("round %u frame %u: %u hits, but the filter drops it",
					 round, i, hits);
			frames++;
			hit_frames += !!hits;
			taken += in;
		}
	}
	printf("%u frames, %u hit a rule, %u taken\n", frames, hit_frames, taken);
	assert_true(hit_frames > frames / 20);
	assert_true(taken < frames / 2);
}

/*
 * Tables of one rule, which the filter can decide completely if at most one tag lies between the
 * Ethernet and the IP header.
 */
static void drops_frames_that_plain_rules_do_not_match(void **state)
{
	unsigned int decided = 0;

	random_start();
	world_start(random_u64());
	for (unsigned int round = 0; round < 20000; round++) {
		struct world_table w;
		struct world_frame f;
		unsigned int len, hits = 0;
		struct flow_key key;

		world_frame(&f);
		random_table(&w, &f, 1);
		if (random_below(2))
			world_frame(&f);
		if (f.len < f.f.len || f.outer.tags > 1 || f.outer.mpls_end || f.outer.exts ||
		    w.rules[0].val.inner.headers ||
		    w.rules[0].val.outer.headers & (FLOW_TUNNEL_MPLS | FLOW_GRE) ||
		    w.rules[0].drop || w.rules[0].mask.outer.vlan_tag & htobe16(0x1000))
			continue;
		len = flow_filter(&w.t, program, ROOM);
		flow_dissect(&key, f.f.data, f.len);
		flow_table_received(&w.t, &key, count, &hits);
		if (!(hits ? takes : leaves)(len, f.f.data, f.len))
			fail_msg("round %u: %u hits", round, hits);
		decided++;
	}
	assert_true(decided > 3000);
}

static unsigned int compile(struct flow_table *t, struct flow_rule *rules,
			    const struct spec_list *lists, unsigned int n)
{
	flow_table_init(t);
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(flow_rule_parse(&rules[i], &lists[i].attr), 0);
		assert_int_equal(flow_table_add(t, &rules[i]), 0);
	}
	return flow_filter(t, program, ROOM);
}

static void tables_that_match_nothing_or_all(void **state)
{
	struct spec_list list;
	struct flow_rule rule;
	struct flow_table t;

	assert_int_equal(compile(&t, &rule, &list, 0), 1);
	assert_int_equal(program[0].k, 0);

	rule_begin(&list, IBV_FLOW_ATTR_SNIFFER);
	assert_int_equal(compile(&t, &rule, &list, 1), 1);
	assert_int_equal(program[0].k, UINT32_MAX);

	rule_begin(&list, IBV_FLOW_ATTR_ALL_DEFAULT);
	assert_int_equal(compile(&t, &rule, &list, 1), 1);
	assert_int_equal(program[0].k, UINT32_MAX);

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	assert_int_equal(compile(&t, &rule, &list, 1), 1);
	assert_int_equal(program[0].k, UINT32_MAX);

	/* a rule with a drop action */
	RULE_ADD(&list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	assert_true(compile(&t, &rule, &list, 1) > 1);
	assert_false(takes(flow_filter(&t, program, ROOM), (const uint8_t[60]){ 0 }, 60));

	rule_begin(&list, IBV_FLOW_ATTR_MC_DEFAULT);
	compile(&t, &rule, &list, 1);
	assert_false(takes(flow_filter(&t, program, ROOM), (const uint8_t[60]){ 2 }, 60));
	assert_true(takes(flow_filter(&t, program, ROOM), (const uint8_t[60]){ 3 }, 60));
	assert_false(takes(flow_filter(&t, program, ROOM), (const uint8_t[13]){ 3 }, 13));
}

static void too_little_room_passes_all(void **state)
{
	struct spec_list list;
	struct flow_rule rule;
	struct flow_table t;
	unsigned int len;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = htobe16(53),
		 .mask.dst_port = 0xffff);
	len = compile(&t, &rule, &list, 1);
	for (unsigned int room = 1; room < len; room++) {
		assert_int_equal(flow_filter(&t, program, room), 1);
		assert_int_equal(program[0].code, BPF_RET | BPF_K);
		assert_int_equal(program[0].k, UINT32_MAX);
	}
	assert_int_equal(flow_filter(&t, program, len), len);
}

/* The kernel checks and runs the programs of ordinary users' sockets; frames are datagrams here. */
static void the_kernel_agrees(void **state)
{
	random_start();
	world_start(random_u64());
	for (unsigned int round = 0; round < 100; round++) {
		struct sock_fprog fprog = { .filter = program };
		struct world_table w;
		struct world_frame f;
		int pair[2];

		world_frame(&f);
		random_table(&w, &f, 4);
		fprog.len = flow_filter(&w.t, program, ROOM);
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair))
			LEAVE_OUT("no socket pair");
		assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_ATTACH_FILTER, &fprog,
					    sizeof(fprog)),
				 0);
		for (unsigned int i = 0; i < 20; i++) {
			uint8_t in[2048];
			bool expected = takes_seen(fprog.len, as_is(f.f.data, f.len));

			send(pair[0], f.f.data, f.len, 0); /* EPERM when the filter drops it */
			assert_int_equal(recv(pair[1], in, sizeof(in), 0),
					 expected ? (ssize_t)f.len : -1);
			world_frame(&f);
			if (!f.len)
				f.len = 1;
		}
		close(pair[0]);
		close(pair[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_all_matching_frames),
		cmocka_unit_test(drops_frames_that_plain_rules_do_not_match),
		cmocka_unit_test(tables_that_match_nothing_or_all),
		cmocka_unit_test(too_little_room_passes_all),
		cmocka_unit_test(the_kernel_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
