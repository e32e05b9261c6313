/* SPDX-License-Identifier: BSD-2-Clause */
/* The vocabulary of fault rules matches the headers that define the names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include "cm/msg.h"
#include "fault/words.h"
#include "roce/opcode.h"
#include "util/compiler.h"

static struct fault_word word(const char *s)
{
	return (struct fault_word){ s, strlen(s) };
}

/* A name that <infiniband/verbs.h> lacks would not compile. */
static void every_verb_exists(void **state)
{
#define VERB(name, number, answer) assert_true(sizeof(&ibv_##name));
#include "wq/verb.def"
#undef VERB
}

static void cm_messages_are_attribute_ids(void **state)
{
#define ROW(name) assert_string_equal(fault_name_for(fault_cm_messages, CM_##name), #name)
	ROW(REQ);
	ROW(MRA);
	ROW(REJ);
	ROW(REP);
	ROW(RTU);
	ROW(DREQ);
	ROW(DREP);
	ROW(SIDR_REQ);
	ROW(SIDR_REP);
	ROW(LAP);
	ROW(APR);
#undef ROW
	assert_int_equal((int)FAULT_REASON_CONSUMER, (int)CM_REJ_CONSUMER);
}

static void every_status_of_an_error_has_a_name(void **state)
{
	for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++)
		assert_non_null(fault_name_for(fault_statuses, (uint64_t)status));
	assert_null(fault_name_for(fault_statuses, IBV_WC_SUCCESS));
}

static void only_whole_names_match(void **state)
{
	const struct fault_word whole = word("tx"), part = { "tx", 1 }, longer = word("txx"),
				empty = { "tx", 0 }, zero = { "tx\0x", 4 };

	assert_int_equal(fault_name_of(fault_directions, &whole)->value, FAULT_TX);
	assert_null(fault_name_of(fault_directions, &part));
	assert_null(fault_name_of(fault_directions, &longer));
	assert_null(fault_name_of(fault_directions, &empty));
	assert_null(fault_name_of(fault_directions, &zero));
}

static bool contains(const struct fault_opcodes *set, unsigned int opcode)
{
	return set->operations >> (opcode & 0x1f) & 1 && set->services >> (opcode >> 5) & 1;
}

/* The name of each existing opcode stands for that opcode alone. */
static void one_opcode(void **state)
{
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		const struct roce_opcode_info *info = roce_opcode_info((uint8_t)opcode);
		struct fault_opcodes set;
		struct fault_word name;

		if (!info->name)
			continue;
		name = word(info->name);
		assert_true(fault_opcodes_of(&set, &name));
		for (unsigned int other = 0; other < 256; other++)
			assert_int_equal(contains(&set, other), other == opcode);
	}
}

/* The name of a kind stands for all opcodes of that kind and no other existing one. */
static void kinds_of_opcode(void **state)
{
	static const struct {
		const char *name;
		enum roce_kind kind;
	} rows[] = {
		{ "SEND", ROCE_KIND_SEND },
		{ "WRITE", ROCE_KIND_WRITE },
		{ "READ", ROCE_KIND_READ },
		{ "READ_RESPONSE", ROCE_KIND_READ_RESPONSE },
		{ "ATOMIC", ROCE_KIND_ATOMIC },
		{ "ATOMIC_ACK", ROCE_KIND_ATOMIC_ACK },
		{ "ACK", ROCE_KIND_ACK },
		{ "FLUSH", ROCE_KIND_FLUSH },
		{ "ATOMIC_WRITE", ROCE_KIND_ATOMIC_WRITE },
		{ "CNP", ROCE_KIND_CNP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fault_word name = word(rows[i].name);
		struct fault_opcodes set;

		assert_true(fault_opcodes_of(&set, &name));
		for (unsigned int opcode = 0; opcode < 256; opcode++) {
			const struct roce_opcode_info *info = roce_opcode_info((uint8_t)opcode);

			if (info->name)
				assert_int_equal(contains(&set, opcode),
						 info->kind == rows[i].kind);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verb_exists),
		cmocka_unit_test(cm_messages_are_attribute_ids),
		cmocka_unit_test(every_status_of_an_error_has_a_name),
		cmocka_unit_test(only_whole_names_match),
		cmocka_unit_test(one_opcode),
		cmocka_unit_test(kinds_of_opcode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
