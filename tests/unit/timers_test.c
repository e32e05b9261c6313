/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "place.h"
#include "run/timers.h"

enum { N = 200, STEPS = 20000 };

static void nothing_is_due_when_empty(void **state)
{
	struct timers *ts = timers_new();

	assert_true(timers_next(ts) == VRB_NEVER);
	assert_null(timers_pop(ts, VRB_NEVER - 1));
	timers_free(ts);
}

static void only_an_earlier_deadline_counts(void **state)
{
	struct timers *ts = timers_new();
	struct timer t = { 0 };

	assert_int_equal(timers_add(ts, &t), 0);
	assert_true(timers_arm(ts, &t, 100));
	assert_false(timers_arm(ts, &t, 200));
	assert_true(timers_next(ts) == 100);
	assert_true(timers_arm(ts, &t, 50));
	assert_false(timers_arm(ts, &t, VRB_NEVER));
	assert_null(timers_pop(ts, 49));
	assert_ptr_equal(timers_pop(ts, 50), &t);
	assert_null(timers_pop(ts, 1000));
	assert_true(timers_next(ts) == VRB_NEVER);
	timers_remove(ts, &t);
	timers_free(ts);
}

/* A round pops all timers that are due, even if one of them is due again at once each time. */
static void no_timer_starves_others(void **state)
{
	struct timers *ts = timers_new();
	struct timer greedy = { 0 }, other = { 0 };
	unsigned int popped = 0;
	struct timer *t;

	assert_int_equal(timers_add(ts, &greedy), 0);
	assert_int_equal(timers_add(ts, &other), 0);
	timers_arm(ts, &greedy, 10);
	timers_arm(ts, &other, 20);
	while ((t = timers_pop(ts, 100)) && ++popped < 10)
		if (t == &greedy)
			timers_arm(ts, &greedy, 10);
	assert_int_equal(popped, 2);
	assert_ptr_equal(timers_pop(ts, 101), &greedy);
	timers_remove(ts, &greedy);
	timers_remove(ts, &other);
	timers_free(ts);
}

static void a_timer_that_was_never_added_is_inert(void **state)
{
	struct timers *ts = timers_new();
	struct timer t = { 0 };

	assert_false(timers_arm(ts, &t, 5));
	timers_remove(ts, &t);
	timers_remove(ts, &t);
	assert_true(timers_next(ts) == VRB_NEVER);
	timers_free(ts);
}

static void only_the_earliest_deadline_is_reported(void **state)
{
	struct timers *ts = timers_new();
	struct timer a = { 0 }, b = { 0 };

	timers_add(ts, &a);
	timers_add(ts, &b);
	assert_true(timers_arm(ts, &a, 10));
	assert_false(timers_arm(ts, &b, 10));
	assert_true(timers_arm(ts, &b, 9));
	timers_remove(ts, &a);
	timers_remove(ts, &b);
	timers_free(ts);
}

/* The oracle: an array that is searched. */
struct oracle {
	uint64_t at[N];		/* VRB_NEVER: not armed */
	bool added[N];
	uint64_t popped_until;
};

static uint64_t oracle_next(const struct oracle *o)
{
	uint64_t next = VRB_NEVER;
	int i;

	for (i = 0; i < N; i++)
		next = time_earlier(next, o->at[i]);
	return next;
}

static void step(struct timers *ts, struct timer *t, struct oracle *o, uint64_t *now,
		 uint64_t *seed)
{
	int i = (int)(place_next(seed) % N);
	uint64_t at = *now + place_next(seed) % 1000 - 1;
	struct timer *p;

	switch (place_next(seed) % 7) {
	case 0:
		if (!o->added[i])
			assert_int_equal(timers_add(ts, &t[i]), 0);
		o->added[i] = true;
		break;
	case 1:
		timers_remove(ts, &t[i]);
		o->added[i] = false;
		o->at[i] = VRB_NEVER;
		break;
	case 2:
		*now += place_next(seed) % 50;
		while ((p = timers_pop(ts, *now))) {
			assert_true(o->at[p - t] <= *now);
			assert_true(o->at[p - t] == oracle_next(o));
			o->at[p - t] = VRB_NEVER;
			o->popped_until = *now;
		}
		assert_true(oracle_next(o) > *now);
		break;
	default:
		if (!o->added[i])
			break;
		at = at > o->popped_until ? at : o->popped_until + 1;
		assert_int_equal(timers_arm(ts, &t[i], at), at < oracle_next(o));
		o->at[i] = time_earlier(o->at[i], at);
	}
	assert_true(timers_next(ts) == oracle_next(o));
}

static void agrees_with_the_oracle(void **state)
{
	uint64_t seed = place_seed(), now = 1;
	struct timers *ts = timers_new();
	static struct timer t[N];
	static struct oracle o;
	int i;

	memset(o.at, 0xff, sizeof(o.at));
	for (i = 0; i < STEPS; i++)
		step(ts, t, &o, &now, &seed);
	for (i = 0; i < N; i++)
		timers_remove(ts, &t[i]);
	timers_free(ts);
}

/* The protocol of timers.h: a deadline set by one thread is never lost by a popping one. */
struct race {
	struct timers *ts;
	struct timer t;
	pthread_mutex_t lock;
	uint64_t deadline;	/* lock */
	uint64_t fired;		/* lock */
};

static void *popper(void *arg)
{
	struct race *r = arg;
	uint64_t now = 1000000;
	bool done = false;

	/* Time advances: a popped timer can be armed only for a later time. */
	while (!done) {
		if (!timers_pop(r->ts, now))
			continue;
		now++;
		pthread_mutex_lock(&r->lock);
		r->fired = r->deadline;
		done = r->deadline == 1;
		pthread_mutex_unlock(&r->lock);
	}
	return NULL;
}

static void no_deadline_is_lost_between_threads(void **state)
{
	struct race r = { .ts = timers_new(), .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread;
	uint64_t i;

	timers_add(r.ts, &r.t);
	pthread_create(&thread, NULL, popper, &r);
	for (i = 20000; i >= 1; i--) {
		pthread_mutex_lock(&r.lock);
		r.deadline = i;
		timers_arm(r.ts, &r.t, i);
		pthread_mutex_unlock(&r.lock);
	}
	pthread_join(thread, NULL);
	assert_true(r.fired == 1);
	timers_remove(r.ts, &r.t);
	timers_free(r.ts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_due_when_empty),
		cmocka_unit_test(only_an_earlier_deadline_counts),
		cmocka_unit_test(no_timer_starves_others),
		cmocka_unit_test(a_timer_that_was_never_added_is_inert),
		cmocka_unit_test(only_the_earliest_deadline_is_reported),
		cmocka_unit_test(agrees_with_the_oracle),
		cmocka_unit_test(no_deadline_is_lost_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
