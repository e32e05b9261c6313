/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching list: rows for masks, order, sync counts and handles; then random operations against
 * an oracle that keeps every tag in one array and searches all of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "util/compiler.h"
#include "wq/tag_list.h"

enum {
	ORACLE_TAGS = 40,
	ORACLE_STEPS = 200000,
};

static const uint64_t full = UINT64_MAX;

static uint32_t add(struct tags *t, uint64_t value, uint64_t mask, uint64_t wr_id)
{
	struct tag *tag = tags_add(t, value, mask);

	assert_non_null(tag);
	tag->wr_id = wr_id;
	return tags_handle(t, tag);
}

/* Returns the wr_id of the tag that matches a message, and releases it at once; 0: none. */
static uint64_t match(struct tags *t, uint64_t message)
{
	struct tag *tag = tags_match(t, message);
	uint64_t wr_id = tag ? tag->wr_id : 0;

	if (tag)
		tags_release(t, tag);
	return wr_id;
}

/* ibv_post_srq_ops(3): a message matches if TMH.tag & mask == tag. */
static void masks(void **state)
{
	static const struct {
		uint64_t value, mask, message;
		bool matches;
	} rows[] = {
		{ 5, UINT64_MAX, 5, true },
		{ 5, UINT64_MAX, 6, false },
		{ 5, UINT64_MAX, 5 | 1ull << 63, false },
		{ UINT64_MAX, UINT64_MAX, UINT64_MAX, true },
		{ 0, UINT64_MAX, 0, true },
		{ 0, 0, 0x1234, true },
		{ 0, 0, 0, true },
		{ 0x34, 0xff, 0x1234, true },
		{ 0x34, 0xff, 0x1235, false },
		{ 0x1234, 0xff, 0x1234, false },	/* a bit outside the mask */
		{ 0x1200, 0xff00, 0x12ff, true },
		{ 1ull << 63, 1ull << 63, ~0ull, true },
		{ 1ull << 63, 1ull << 63, ~0ull >> 1, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tags t;

		assert_int_equal(tags_init(&t, 1), 0);
		add(&t, rows[i].value, rows[i].mask, 7);
		assert_int_equal(match(&t, rows[i].message), rows[i].matches ? 7 : 0);
		tags_free(&t);
	}
}

/* The tag added first matches, whether it is found by hash or by list. */
static void oldest_first(void **state)
{
	static const uint64_t masks[][3] = {
		{ UINT64_MAX, UINT64_MAX, UINT64_MAX },
		{ UINT64_MAX, 0xffff, UINT64_MAX },
		{ 0xffff, UINT64_MAX, 0xff },
		{ 0xff, 0xffff, 0xfffff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		struct tags t;

		assert_int_equal(tags_init(&t, 3), 0);
		for (unsigned int k = 0; k < 3; k++)
			add(&t, 0x42, masks[i][k], k + 1);
		for (unsigned int k = 0; k < 3; k++)
			assert_int_equal(match(&t, 0x42), k + 1);
		assert_int_equal(match(&t, 0x42), 0);
		tags_free(&t);
	}
}

/* A tag that returned its message matches again before younger ones, exact or masked. */
static void returned_to_its_place(void **state)
{
	for (int masked = 0; masked < 2; masked++) {
		uint64_t mask = masked ? 0xff : full;
		struct tag *first, *second;
		struct tags t;

		assert_int_equal(tags_init(&t, 4), 0);
		for (unsigned int k = 1; k <= 3; k++)
			add(&t, 9, mask, k);
		first = tags_match(&t, 9);
		second = tags_match(&t, 9);
		add(&t, 9, mask, 4);
		tags_return(&t, second);
		tags_return(&t, first);
		for (unsigned int k = 1; k <= 4; k++)
			assert_int_equal(match(&t, 9), k);
		tags_free(&t);
	}
}

static void full_list(void **state)
{
	struct tags t;
	struct tag *taken;

	assert_int_equal(tags_init(&t, 2), 0);
	add(&t, 1, full, 1);
	add(&t, 2, full, 2);
	assert_null(tags_add(&t, 3, full));
	/* a tag with a message keeps its slot */
	taken = tags_match(&t, 1);
	assert_null(tags_add(&t, 3, full));
	tags_release(&t, taken);
	add(&t, 3, full, 3);
	assert_null(tags_add(&t, 4, full));
	tags_free(&t);
}

static void handles(void **state)
{
	struct tags t;
	uint32_t one, again;
	struct tag *taken;

	assert_int_equal(tags_init(&t, 2), 0);
	assert_true(tags_has(&t, 0) && tags_has(&t, 1) && tags_has(&t, 1 | 5 << 16));
	assert_false(tags_has(&t, 2) || tags_has(&t, UINT32_MAX));
	assert_false(tags_delete(&t, 0));	/* nothing was added */
	assert_false(tags_delete(&t, UINT32_MAX));
	one = add(&t, 1, full, 1);
	assert_true(tags_delete(&t, one));
	assert_false(tags_delete(&t, one));
	/* the slot is reused; the old handle does not refer to the new tag */
	add(&t, 2, full, 2);
	again = add(&t, 1, full, 3);
	assert_false(tags_delete(&t, one));
	assert_int_equal(match(&t, 1), 3);
	assert_false(tags_delete(&t, again));
	/* nor does the handle of a tag that has a message */
	again = add(&t, 1, full, 4);
	taken = tags_match(&t, 1);
	assert_false(tags_delete(&t, again));
	tags_return(&t, taken);
	assert_true(tags_delete(&t, again));
	tags_free(&t);
}

/* The sync phase: new tags wait for the program, old ones still match. */
static void sync_counts(void **state)
{
	uint32_t waits;
	struct tags t;

	assert_int_equal(tags_init(&t, 8), 0);
	add(&t, 1, full, 1);
	assert_int_equal(match(&t, 5), 0);
	tags_count(&t);
	assert_false(tags_in_step(&t));
	assert_int_equal(tags_behind(&t), 1);
	add(&t, 5, full, 2);
	add(&t, 0, 0, 3);
	waits = add(&t, 6, full, 4);
	assert_int_equal(match(&t, 5), 0);
	tags_count(&t);
	assert_int_equal(match(&t, 1), 1);
	/* a waiting tag can be deleted */
	assert_true(tags_delete(&t, waits));
	/* still one behind */
	tags_handled(&t, 1);
	assert_int_equal(match(&t, 5), 0);
	tags_count(&t);
	tags_handled(&t, 3);
	assert_true(tags_in_step(&t));
	assert_int_equal(match(&t, 5), 2);
	assert_int_equal(match(&t, 6), 3);
	/* a count that was taken back */
	tags_count(&t);
	add(&t, 7, full, 5);
	assert_int_equal(match(&t, 7), 0);
	tags_uncount(&t);
	assert_int_equal(match(&t, 7), 5);
	tags_free(&t);
}

/* Counts have 16 bits on both sides. */
static void sync_counts_wrap(void **state)
{
	struct tags t;

	assert_int_equal(tags_init(&t, 2), 0);
	for (uint32_t i = 1; i <= 70000; i++) {
		tags_count(&t);
		assert_false(tags_in_step(&t));
		tags_handled(&t, i);
		assert_true(tags_in_step(&t));
	}
	add(&t, 1, full, 1);
	assert_int_equal(match(&t, 1), 1);
	tags_free(&t);
}

/* ---------------------------------------------------------------- oracle */

enum where { NOWHERE, WAITING, LISTED, TAKEN };

struct entry {
	enum where where;
	uint64_t value, mask;
	uint32_t handle;
	struct tag *taken;
};

/* Every tag ever added, in order. */
struct oracle {
	struct entry *e;
	size_t n;
	uint16_t unexpected, handled;
	unsigned int alive;
};

static void oracle_step(struct oracle *o)
{
	for (size_t i = 0; o->unexpected == o->handled && i < o->n; i++)
		if (o->e[i].where == WAITING)
			o->e[i].where = LISTED;
}

static struct entry *oracle_match(struct oracle *o, uint64_t message)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->e[i].where == LISTED && (message & o->e[i].mask) == o->e[i].value)
			return &o->e[i];
	return NULL;
}

static struct entry *any(struct oracle *o, enum where where)
{
	size_t n = 0, k;

	for (size_t i = 0; i < o->n; i++)
		n += o->e[i].where == where;
	k = n ? random_below(n) : 0;
	for (size_t i = 0; n && i < o->n; i++)
		if (o->e[i].where == where && !k--)
			return &o->e[i];
	return NULL;
}

/* Drops finished entries at the front, so that searches stay short. */
static void oracle_trim(struct oracle *o)
{
	size_t kept = 0;

	for (size_t i = 0; i < o->n; i++)
		if (o->e[i].where != NOWHERE)
			o->e[kept++] = o->e[i];
	o->n = kept;
}

static uint64_t some_mask(void)
{
	static const uint64_t masks[] = { 0, 1, 2, 3, 5, 7, 6 };

	return random_below(2) ? UINT64_MAX : masks[random_below(ARRAY_SIZE(masks))];
}

static void step_add(struct tags *t, struct oracle *o)
{
	struct entry *e = &o->e[o->n];
	struct tag *tag;

	e->mask = some_mask();
	e->value = random_below(8) & (random_below(8) ? e->mask : UINT64_MAX);
	tag = tags_add(t, e->value, e->mask);
	assert_int_equal(tag != NULL, o->alive < ORACLE_TAGS);
	if (!tag)
		return;
	e->handle = tags_handle(t, tag);
	e->where = o->unexpected == o->handled ? LISTED : WAITING;
	o->n++;
	o->alive++;
}

static void step_message(struct tags *t, struct oracle *o)
{
	uint64_t message = random_below(8);
	struct tag *tag = tags_match(t, message);
	struct entry *e = oracle_match(o, message);

	assert_int_equal(tag != NULL, e != NULL);
	if (e) {
		assert_int_equal(tags_handle(t, tag), e->handle);
		e->where = TAKEN;
		e->taken = tag;
	} else {
		tags_count(t);
		o->unexpected++;
	}
}

static void step_delete(struct tags *t, struct oracle *o)
{
	struct entry *e = any(o, (enum where)random_below(4));

	if (!e)
		return;
	assert_int_equal(tags_delete(t, e->handle), e->where == WAITING || e->where == LISTED);
	if (e->where == TAKEN)
		return;
	o->alive -= e->where != NOWHERE;
	e->where = NOWHERE;
}

static void step_end(struct tags *t, struct oracle *o)
{
	struct entry *e = any(o, TAKEN);

	if (!e)
		return;
	if (random_below(3)) {
		tags_release(t, e->taken);
		e->where = NOWHERE;
		o->alive--;
	} else {
		tags_return(t, e->taken);
		e->where = LISTED;
	}
}

static void step_sync(struct tags *t, struct oracle *o)
{
	uint16_t behind = o->unexpected - o->handled;

	if (behind && !random_below(4)) {
		tags_uncount(t);
		o->unexpected--;
	} else {
		o->handled += random_below(behind + 1u);
		tags_handled(t, o->handled);
	}
	oracle_step(o);
}

static void against_oracle(void **state)
{
	static void (*const step[])(struct tags *t, struct oracle *o) = {
		step_add, step_add, step_add, step_message, step_message, step_delete, step_end,
		step_end, step_sync,
	};
	struct oracle o = { .e = calloc(ORACLE_TAGS * 4, sizeof(*o.e)) };
	struct tags t;

	random_start();
	assert_int_equal(tags_init(&t, ORACLE_TAGS), 0);
	for (unsigned int i = 0; i < ORACLE_STEPS; i++) {
		step[random_below(ARRAY_SIZE(step))](&t, &o);
		if (o.n > ORACLE_TAGS * 3)
			oracle_trim(&o);
		assert_int_equal(tags_in_step(&t), o.unexpected == o.handled);
	}
	tags_free(&t);
	free(o.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks),	   cmocka_unit_test(oldest_first),
		cmocka_unit_test(returned_to_its_place), cmocka_unit_test(full_list),
		cmocka_unit_test(handles),	   cmocka_unit_test(sync_counts),
		cmocka_unit_test(sync_counts_wrap),	   cmocka_unit_test(against_oracle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
