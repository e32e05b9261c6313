/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings of hosts with wrong clocks are read in the true order of events. */
#include <stdlib.h>

#include "unit/trace_env.h"

#define HOUR (3600 * 1000000000ll)

enum { FLIGHT = 30000, GAP = 100000, FIRST = 2000000 };

static struct env_host host[ENV_HOSTS];
static struct trace t;

/* Requests and responses, one at a time; the PSNs of both directions differ. */
static void exchange_each(struct env_host *a, struct env_host *b, unsigned int n, uint64_t gap)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t time = FIRST + gap * i;

		env_out(a, b, time, i);
		env_in(a, b, time + FLIGHT + i % 7, i);
		env_out(b, a, time + FLIGHT + 10000, 100000 + i);
		env_in(b, a, time + 2 * FLIGHT + 10000 + i % 5, 100000 + i);
	}
}

static void exchange(struct env_host *a, struct env_host *b, unsigned int n)
{
	exchange_each(a, b, n, GAP);
}

static void exchange_slowly(struct env_host *a, struct env_host *b, unsigned int n)
{
	exchange_each(a, b, n, 100 * GAP);
}

/*
 * Times increase, and each packet's arrival directly follows its departure: one packet is in flight
 * at a time.
 */
static void check_order(unsigned int packets)
{
	struct record r, out = { 0 };
	uint64_t last = 0;
	unsigned int n = 0;
	bool under_way = false;

	while (env_next(&t, RECORD_PACKET, &r)) {
		const struct record_packet *p = r.body;

		assert_true(r.time >= last);
		last = r.time;
		n++;
		if (p->way == RECORD_IN) {
			assert_true(under_way);
			assert_true(r.time > out.time);
		}
		assert_int_equal(under_way, p->way == RECORD_IN);
		under_way = p->way == RECORD_OUT;
		out = r;
	}
	assert_int_equal(n, packets);
}

static void one_clock_needs_no_alignment(void **state)
{
	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 1, 0, 0);
	exchange(&host[0], &host[1], 20);
	env_read(host, 2, &t);
	assert_false(t.clocks);
	assert_int_equal(t.ahead[1], 0);
	check_order(80);
	env_close(host, 2, &t);
}

static void two_clocks(void **state)
{
	static const int64_t offs[] = { 5 * HOUR, -1500000, 1, 700 * HOUR };

	for (unsigned int i = 0; i < 4; i++) {
		env_open(&host[0], 1, 1, HOUR, 0);
		env_open(&host[1], 2, 2, HOUR + offs[i], HOUR);
		exchange(&host[0], &host[1], 50);
		env_read(host, 2, &t);
		assert_true(t.clocks);
		assert_int_equal(t.ahead[0], 0);
		assert_true(llabs(t.ahead[1] - offs[i]) < FLIGHT);
		check_order(200);
		env_close(host, 2, &t);
	}
}

/* The third host never sends to the first; two processes are on the second host. */
static void clocks_aligned_through_a_third(void **state)
{
	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 2, 3 * HOUR, 0);
	env_open(&host[2], 3, 3, 90 * HOUR, 0);
	env_open(&host[3], 4, 2, 3 * HOUR, 0);
	exchange(&host[0], &host[1], 50);
	exchange(&host[3], &host[2], 50);
	env_read(host, 4, &t);
	assert_int_equal(t.ahead[1], t.ahead[3]);
	assert_true(llabs(t.ahead[2] - 90 * HOUR) < 2 * FLIGHT);
	env_close(host, 4, &t);
}

/* A packet that was lost, resent or duplicated is not used: its arrival is ambiguous. */
static void ambiguous_packets_do_not_count(void **state)
{
	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 2, HOUR, 0);
	exchange(&host[0], &host[1], 20);
	for (uint32_t i = 0; i < 3; i++)
		env_out(&host[0], &host[1], 5000000 + 1000000 * i, 500);
	env_in(&host[0], &host[1], 5000000 + FLIGHT, 500);
	env_out(&host[0], &host[1], 9000000, 501);
	env_in(&host[0], &host[1], 9000000 + FLIGHT, 501);
	env_in(&host[0], &host[1], 9900000, 501);
	env_read(host, 2, &t);
	assert_true(llabs(t.ahead[1] - HOUR) < FLIGHT);
	env_close(host, 2, &t);
}

static void clocks_without_common_packets(void **state)
{
	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 2, 7 * HOUR, 250);
	env_out(&host[0], &host[1], FIRST, 1);
	env_in(&host[0], &host[1], FIRST + FLIGHT, 2);
	env_read(host, 2, &t);
	assert_int_equal(t.ahead[1], 7 * HOUR - 250);
	env_close(host, 2, &t);
}

/*
 * The clocks drift by a hundred microseconds per second, three times the travel time of a packet.
 */
static void drifting_clocks(void **state)
{
	for (int way = -1; way <= 1; way += 2) {
		env_open(&host[0], 1, 1, 0, 0);
		env_open(&host[1], 2, 2, HOUR, 0);
		host[1].drift = 100 * way;
		exchange_slowly(&host[0], &host[1], 400);
		env_read(host, 2, &t);
		assert_true(llabs(t.ahead[1] - HOUR) < FLIGHT);
		check_order(1600);
		env_close(host, 2, &t);
	}
}

/* Far too much drift: nothing is in order, but nothing is refused or lost. */
static void contradictory_clocks(void **state)
{
	struct record r;
	unsigned int n = 0;

	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 2, HOUR, 0);
	host[1].drift = 100000;
	exchange(&host[0], &host[1], 400);
	env_read(host, 2, &t);
	while (env_next(&t, RECORD_PACKET, &r))
		n++;
	assert_int_equal(n, 1600);
	env_close(host, 2, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_clock_needs_no_alignment),
		cmocka_unit_test(two_clocks),
		cmocka_unit_test(clocks_aligned_through_a_third),
		cmocka_unit_test(ambiguous_packets_do_not_count),
		cmocka_unit_test(clocks_without_common_packets),
		cmocka_unit_test(drifting_clocks),
		cmocka_unit_test(contradictory_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
