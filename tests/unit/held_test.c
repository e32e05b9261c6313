/* SPDX-License-Identifier: BSD-2-Clause */
/* What is kept, found, and forgotten; PSNs wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/held.h"
#include "roce/psn.h"

static struct held *h;

static void keep(uint32_t psn)
{
	uint8_t payload[4] = { psn, psn >> 8, psn >> 16 };
	struct roce_pkt pkt = { .bth.psn = psn_add(psn, 0), .payload = payload, .payload_len = 4 };

	held_keep(&h, &pkt);
	memset(payload, 0xee, sizeof(payload));
}

static void expect(uint32_t psn)
{
	const struct roce_pkt *p = held_take(h, psn);

	assert_non_null(p);
	assert_int_equal(p->bth.psn, psn);
	assert_int_equal(p->payload[0], psn & 0xff);
	assert_int_equal(p->payload_len, 4);
}

static int forget(void **state)
{
	held_free(&h);
	assert_null(h);
	return 0;
}

static void nothing_is_held_at_first(void **state)
{
	assert_null(held_take(h, 5));
	assert_null(held_behind(h, 5));
}

static void taken_in_any_order_once(void **state)
{
	keep(12);
	keep(11);
	keep(11);
	keep(14);
	assert_int_equal(held_behind(h, 10)->bth.psn, 11);
	expect(11);
	expect(12);
	assert_null(held_take(h, 12));
	assert_null(held_take(h, 13));
	assert_int_equal(held_behind(h, 13)->bth.psn, 14);
	expect(14);
	assert_null(held_behind(h, 13));
}

static void what_lies_before_is_forgotten(void **state)
{
	keep(20);
	keep(21);
	keep(30);
	assert_null(held_take(h, 25));
	assert_null(held_take(h, 20));
	expect(30);
}

static void psns_wrap(void **state)
{
	keep(0xffffff);
	keep(1);
	keep(0);
	assert_int_equal(held_behind(h, 0xfffffe)->bth.psn, 0xffffff);
	expect(0xffffff);
	expect(0);
	expect(1);
}

/* A slot goes to the newest PSN that wants it. */
static void a_slot_is_taken_over(void **state)
{
	keep(7);
	keep(7 + HELD_PACKETS);
	assert_null(held_take(h, 7));
	expect(7 + HELD_PACKETS);
}

/* Beyond the limit of the process nothing more is kept; what is freed counts no more. */
static void memory_has_a_limit(void **state)
{
	static struct held *many[HELD_BYTES / (HELD_PACKETS * 4096) + 8];
	static uint8_t payload[4096];
	size_t n = sizeof(many) / sizeof(many[0]), kept = 0;

	for (size_t i = 0; i < n; i++)
		for (uint32_t psn = 0; psn < HELD_PACKETS; psn++)
			held_keep(&many[i], &(struct roce_pkt){ .bth.psn = psn, .payload = payload,
								.payload_len = 4096 });
	for (size_t i = 0; i < n; i++) {
		kept += held_take(many[i], HELD_PACKETS - 1) != NULL;
		held_free(&many[i]);
	}
	assert_in_range(kept, HELD_BYTES / (HELD_PACKETS * 4400), HELD_BYTES / (HELD_PACKETS * 4096));
	keep(1);
	expect(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_is_held_at_first, forget),
		cmocka_unit_test_teardown(taken_in_any_order_once, forget),
		cmocka_unit_test_teardown(what_lies_before_is_forgotten, forget),
		cmocka_unit_test_teardown(psns_wrap, forget),
		cmocka_unit_test_teardown(a_slot_is_taken_over, forget),
		cmocka_unit_test_teardown(memory_has_a_limit, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
