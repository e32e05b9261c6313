/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive intervals between reads of the socket: how many system calls a second of polling costs.
 */
#include "core/progress/wire_interval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { POLL_NS = 1000 };

/*
 * Returns the reads per second; lanes have packets at each local_every'th poll, the socket at each
 * found'th read.
 */
static unsigned int reads(struct wire_interval *l, bool wire, unsigned int local_every,
			  unsigned int found)
{
	uint64_t at = 0;
	unsigned int n = 0;

	for (uint64_t now = POLL_NS, i = 1; now <= VRB_SECOND; now += POLL_NS, i++) {
		bool local = local_every && i % local_every == 0;

		if (!wire_interval_over(l, wire, local, at, now))
			continue;
		at = now;
		n++;
		wire_interval_begin(l, wire, found && n % found == 0, now);
	}
	return n;
}

static void reads_are_as_rare_as_packets_allow(void **state)
{
	static const struct {
		bool wire;
		unsigned int local_every, found, least, most;
	} rows[] = {
		{ true, 0, 0, 1000000, 1000000 },	/* expected: read at each poll */
		{ true, 2, 0, 500000, 550000 },		/* not when a lane had packets, */
		{ true, 1, 0, 49000, 50000 },		/* but now and then all the same */
		{ false, 0, 0, 49000, 50000 },		/* nothing arrives anywhere */
		{ false, 2, 0, 1500, 3200 },		/* only local peers, */
		{ false, 1000, 0, 1500, 3200 },	/* which are slow, */
		{ false, 1000000, 0, 49000, 50000 },	/* or gone */
		{ false, 0, 1, 49000, 50000 },		/* received, never expected */
		{ false, 2, 1, 45000, 50000 },		/* the same, with local peers */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_interval l = { 0 };

		assert_in_range(reads(&l, rows[i].wire, rows[i].local_every, rows[i].found),
				rows[i].least, rows[i].most);
	}
}

/* The interval learnt while idle does not delay expected packets. */
static void an_expected_packet_is_not_late(void **state)
{
	struct wire_interval l = { 0 };

	reads(&l, false, 1, 0);
	reads(&l, false, 2, 0);
	assert_true(l.wait > TUNE_POLL_WIRE_US * VRB_USEC);
	assert_true(wire_interval_over(&l, true, false, 1000, 1001));
	assert_false(wire_interval_over(&l, true, true, 1000, 1001));
	assert_true(wire_interval_over(&l, true, true, 1000, 1000 + TUNE_POLL_WIRE_US * VRB_USEC));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_are_as_rare_as_packets_allow),
		cmocka_unit_test(an_expected_packet_is_not_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
