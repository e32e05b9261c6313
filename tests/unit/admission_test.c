/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admission of connection requests: the decisions, in a model of a process that receives requests,
 * and the socket filter that the kernel runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/mad/request_share.h"
#include "util/compiler.h"

enum {
	PERIOD_MS = 4,
	ROUNDS = 5000,		/* 20 s */
	SETTLED = 1000,
	BACKLOG = 512,
	SALT = 0x9e3779b1,
};

/* Source 0 is the quiet one. */
struct model {
	struct request_share share;
	unsigned int sources, queued;
	uint64_t seed;
	uint64_t received[2], admitted[2];	/* of the quiet source, and of the others */
	unsigned int worst;
};

static struct net_addr source_of(unsigned int i)
{
	return (struct net_addr){ { [10] = 0xff, [11] = 0xff, [12] = 10, [14] = (uint8_t)(i >> 8),
				    [15] = (uint8_t)i } };
}

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

/* Decides like the filter. */
static void receive_request(struct model *m, unsigned int source)
{
	const struct admit_rule *r = &m->share.rule;
	struct net_addr src = source_of(source);
	unsigned int level = admit_level(r, admit_bucket(r->salt, &src));

	m->received[source != 0]++;
	if (share_is_limited(&m->share) && level && next(&m->seed) % ADMIT_ALL >= r->keep[level])
		return;
	m->admitted[source != 0]++;
	m->queued++;
	share_came(&m->share, &src);
}

static void run(struct model *m, unsigned int loud_per_ms, unsigned int serve_per_ms)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (i == SETTLED)
			m->worst = m->received[0] = m->received[1] = m->admitted[0] =
				m->admitted[1] = 0;
		for (unsigned int n = loud_per_ms * PERIOD_MS; n; n--)
			receive_request(m, 1 + next(&m->seed) % m->sources);
		if (i % 25 == 0)
			receive_request(m, 0);
		m->worst = max(m->worst, m->queued);
		m->queued -= min(m->queued, serve_per_ms * PERIOD_MS);
		share_decide(&m->share, m->queued > BACKLOG ? SHARE_OVERLOAD : SHARE_ROOM,
			     next(&m->seed));
	}
}

static void init(struct model *m, unsigned int sources)
{
	*m = (struct model){ .sources = sources, .seed = sources };
	share_init(&m->share, SALT);
}

/* 64 sources send 100,000 requests/s, of which the process can serve 50,000, 20,000 or 5,000. */
static void a_quiet_source_is_admitted_beside_busy_ones(void **state)
{
	static const unsigned int serve[] = { 50, 20, 5 };
	struct model m;

	for (size_t i = 0; i < ARRAY_SIZE(serve); i++) {
		init(&m, 64);
		run(&m, 100, serve[i]);
		assert_true(m.admitted[0] * 10 > m.received[0] * 8);
		assert_true(m.worst < 8 * BACKLOG);
		/* and the process is busy most of the time */
		assert_true(m.admitted[1] * 2 >
			    (uint64_t)(ROUNDS - SETTLED) * PERIOD_MS * serve[i]);
	}
}

/* When every request has another source, none of them is quiet: some of each are admitted. */
static void a_flood_of_all_addresses_is_bounded(void **state)
{
	struct model m;

	init(&m, 60000);
	run(&m, 100, 20);
	assert_true(m.worst < 8 * BACKLOG);
	assert_true(m.admitted[0] > 0);
}

static void all_are_admitted_when_they_can_be_served(void **state)
{
	struct model m;

	init(&m, 64);
	run(&m, 50, 60);
	assert_false(share_is_limited(&m.share));
	assert_int_equal(m.admitted[1], m.received[1]);
}

static void admission_recovers_after_a_flood(void **state)
{
	unsigned int rounds = 0;
	struct model m;

	init(&m, 64);
	run(&m, 100, 5);
	assert_true(share_is_limited(&m.share));
	for (; share_is_limited(&m.share); rounds++)
		share_decide(&m.share, SHARE_ROOM, 1);
	assert_in_range(rounds, 1, 500);
}

static int open_socket(struct sockaddr_in *sa)
{
	socklen_t len = sizeof(*sa);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*sa = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)sa, sizeof(*sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)sa, &len), 0);
	return fd;
}

/*
 * Returns how many of n packets from 127.0.0.1 to a QP, with a MAD of this type, pass the filter.
 */
static unsigned int admitted(const struct admit_rule *rule, uint8_t qpn, uint8_t type,
			     unsigned int n)
{
	struct sock_filter insn[ADMIT_INSNS];
	struct sock_fprog prog = { .filter = insn };
	uint8_t packet[280] = {
		0x64, [7] = qpn, [20] = 1, [21] = 7, [22] = 2, [23] = 3, [37] = type
	};
	unsigned int got = 0;
	struct sockaddr_in sa;
	int fd = open_socket(&sa);

	prog.len = (unsigned short)admit_build(rule, insn);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)), 0);
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&sa,
					sizeof(sa)), sizeof(packet));
		while (recv(fd, packet, sizeof(packet), 0) > 0)
			got++;
	}
	close(fd);
	return got;
}

enum { REQ = 0x10, REP = 0x13, RTU = 0x14, SIDR_REQ = 0x17 };

/* All buckets have one level, except for one bucket. */
static struct admit_rule rule_of(uint32_t salt, unsigned int level, unsigned int but,
				 unsigned int but_level)
{
	struct admit_rule r = { .salt = salt, .keep = { 0, 0, 64, ADMIT_ALL } };

	for (unsigned int b = 0; b < ADMIT_BUCKETS; b++)
		admit_set_level(&r, b, b == but ? but_level : level);
	return r;
}

static void the_filter_drops_requests_only(void **state)
{
	struct admit_rule none = rule_of(SALT, 1, ADMIT_BUCKETS, 0);
	struct admit_rule some = rule_of(SALT, 2, ADMIT_BUCKETS, 0);
	struct admit_rule all = rule_of(SALT, 3, ADMIT_BUCKETS, 0);

	assert_int_equal(admitted(&none, 1, REQ, 100), 0);
	assert_int_equal(admitted(&none, 1, SIDR_REQ, 100), 0);
	assert_int_equal(admitted(&none, 1, REP, 100), 100);
	assert_int_equal(admitted(&none, 1, RTU, 100), 100);
	assert_int_equal(admitted(&none, 2, REQ, 100), 100);
	assert_in_range(admitted(&some, 1, REQ, 4000), 600, 1400);
	assert_int_equal(admitted(&all, 1, REQ, 100), 100);
}

/* The kernel and this process compute the same bucket for an address. */
static void the_filter_distinguishes_sources(void **state)
{
	static const struct net_addr here = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

	for (uint32_t i = 0, salt = SALT; i < 40; i++, salt = salt * 5 | 1) {
		unsigned int b = admit_bucket(salt, &here);
		struct admit_rule others = rule_of(salt, 1, b, 0);
		struct admit_rule only = rule_of(salt, 0, b, 1);

		assert_int_equal(admitted(&others, 1, REQ, 2), 2);
		assert_int_equal(admitted(&only, 1, REQ, 2), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quiet_source_is_admitted_beside_busy_ones),
		cmocka_unit_test(a_flood_of_all_addresses_is_bounded),
		cmocka_unit_test(all_are_admitted_when_they_can_be_served),
		cmocka_unit_test(admission_recovers_after_a_flood),
		cmocka_unit_test(the_filter_drops_requests_only),
		cmocka_unit_test(the_filter_distinguishes_sources),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
