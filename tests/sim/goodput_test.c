/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One flow over a link with random losses. A link with a short round trip must be nearly full. With
 * a long round trip at least as much must arrive as TCP with CUBIC would carry with packets of the
 * same length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fan.h"
#include "util/compiler.h"

enum {
	SEEDS = 3,
	SECONDS = 4,
	MESSAGE = 65536,
	QUEUE = 150000,
	OVERHEAD = 82,	/* of a packet on the wire: Ethernet, IPv4, UDP, BTH, ICRC */
};

struct row {
	uint32_t mbps, rtt_us, loss_ppm, mtu;
	uint32_t percent; /* minimum, of the link */
};

/* Mbit/s of payload. */
static uint32_t goodput(const struct row *r, uint64_t seed)
{
	struct fan_config c = {
		.net = { .delay = r->rtt_us * VRB_USEC / 2,
			 .mbit_per_s = r->mbps,
			 .fast_egress = true,
			 .buffer = QUEUE,
			 .loss_ppm = r->loss_ppm },
		.qp = sim_qp_defaults(),
		.leaves = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.len = MESSAGE,
		.depth = 16,
		.answer_delay = 20000,
	};
	uint32_t done;
	struct fan *f;

	c.qp.mtu = r->mtu;
	c.qp.timeout = 16;
	f = fan_new("goodput", seed, &c);
	world_run_until(f->w, f->w->now + SECONDS * VRB_SECOND);
	done = fan_done(f, 0);
	fan_free(f);
	return (uint64_t)done * MESSAGE * 8 / SECONDS / 1000000;
}

static void short_links_are_nearly_full(void **state)
{
	static const struct row rows[] = {
		{ 50, 50, 1000, 1024, 98 },   { 50, 50, 10000, 1024, 96 },
		{ 50, 50, 30000, 1024, 88 },  { 200, 50, 1000, 1024, 98 },
		{ 200, 50, 10000, 1024, 96 }, { 200, 50, 30000, 1024, 88 },
		{ 200, 50, 1000, 4096, 98 },  { 200, 50, 10000, 4096, 96 },
		{ 200, 50, 30000, 4096, 88 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		uint32_t full = r->mbps * r->mtu / (r->mtu + OVERHEAD);

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			uint32_t got = goodput(r, seed);

			if (got * 100 < full * r->percent)
				fail_msg("row %zu, seed %llu: %u of %u Mbit/s", i,
					 (unsigned long long)seed, got, full);
		}
	}
}

/*
 * In these conditions CUBIC's window equals Reno's (RFC 9438, 4.3), which is sqrt(3 / 2p) packets
 * on average: 12.2 at 1 % loss, 38.7 at 0.1 %. TCP leaves most of the link unused in each row.
 */
static void long_links_carry_as_much_as_tcp(void **state)
{
	static const struct {
		struct row link;
		uint32_t window10;	/* of TCP, in tenths of a packet */
	} rows[] = {
		{ { 200, 2000, 10000, 1024, 0 }, 122 },  { { 200, 5000, 10000, 1024, 0 }, 122 },
		{ { 200, 10000, 10000, 1024, 0 }, 122 }, { { 200, 20000, 10000, 1024, 0 }, 122 },
		{ { 200, 5000, 10000, 4096, 0 }, 122 },  { { 200, 10000, 10000, 4096, 0 }, 122 },
		{ { 200, 20000, 10000, 4096, 0 }, 122 }, { { 1000, 1000, 10000, 4096, 0 }, 122 },
		{ { 200, 10000, 1000, 1024, 0 }, 387 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i].link;
		uint32_t tcp = (uint64_t)rows[i].window10 * r->mtu * 8 / 10 / r->rtt_us, got = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			got += goodput(r, seed);
		if (got < SEEDS * tcp)
			fail_msg("row %zu: %u Mbit/s on average, TCP %u", i, got / SEEDS, tcp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_links_are_nearly_full),
		cmocka_unit_test(long_links_carry_as_much_as_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
