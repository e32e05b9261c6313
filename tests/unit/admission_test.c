/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Admission of connection requests: what is decided, in a model of a socket buffer; and the filter
 * that the kernel runs, on a socket.
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

#include "core/mad/admission.h"

/* Of the model: packets. */
enum {
	BUFFER = 20000,
	PERIOD_MS = 4,
	ROUNDS = 5000,		/* 20 s */
	SETTLED = 500,
};

struct outcome {
	unsigned int lost, worst;	/* once settled: for want of room, and the fullest buffer */
	uint64_t served;
	unsigned int keep;		/* at the end */
};

/* Requests come and are served at so many per ms. */
static struct outcome run(unsigned int come, unsigned int serve, bool flooded)
{
	struct admission a = { .keep = ADMIT_ALL };
	struct outcome o = { 0 };
	unsigned int queued = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int in = come * PERIOD_MS * a.keep / ADMIT_ALL;
		unsigned int out = min(queued + in, serve * PERIOD_MS);

		queued += in - out;
		if (i >= SETTLED) {
			o.served += out;
			o.worst = max(o.worst, min(queued, (unsigned int)BUFFER));
			o.lost += queued > BUFFER ? queued - BUFFER : 0;
		}
		queued = min(queued, (unsigned int)BUFFER);
		admission_decide(&a, queued * UDP_FULL / BUFFER, flooded);
	}
	o.keep = a.keep;
	return o;
}

static void a_flood_leaves_room(void **state)
{
	/* 100,000/s, of which this process can look at 50,000, 20,000, 5,000, 1,000. */
	static const unsigned int serve[] = { 50, 20, 5, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(serve); i++) {
		struct outcome o = run(100, serve[i], true);

		assert_int_equal(o.lost, 0);
		assert_true(o.worst < BUFFER * 3 / 4);
		/* And the process has work nearly all of the time. */
		assert_true(o.served >
			    (uint64_t)(ROUNDS - SETTLED) * PERIOD_MS * serve[i] * 7 / 10);
	}
}

static void all_come_in_where_they_can_be_served(void **state)
{
	struct outcome o = run(50, 60, true);

	assert_int_equal(o.keep, ADMIT_ALL);
	assert_int_equal(o.served, (uint64_t)(ROUNDS - SETTLED) * PERIOD_MS * 50);
	/* Where data fill the buffer, requests are not what has to go. */
	assert_int_equal(run(100, 20, false).keep, ADMIT_ALL);
}

static void a_flood_that_ends_is_forgotten(void **state)
{
	struct admission a = { .keep = 1, .fill = UDP_FULL };
	unsigned int rounds = 0;

	while (a.keep < ADMIT_ALL) {
		admission_decide(&a, 0, false);
		rounds++;
	}
	assert_in_range(rounds, 1, 25);
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

/* How many of n packets to a QP, with a MAD of this type, come through. */
static unsigned int let_in(unsigned int keep, uint8_t qpn, uint8_t type, unsigned int n)
{
	struct sock_filter insn[ADMIT_INSNS];
	struct sock_fprog prog = { .filter = insn };
	uint8_t packet[280] = {
		0x64, [7] = qpn, [20] = 1, [21] = 7, [22] = 2, [23] = 3, [37] = type
	};
	unsigned int got = 0;
	struct sockaddr_in sa;
	int fd = open_socket(&sa);

	prog.len = (unsigned short)admit_build(keep, insn);
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

static void the_filter_drops_requests_only(void **state)
{
	enum { REQ = 0x10, REP = 0x13, RTU = 0x14, SIDR_REQ = 0x17 };

	assert_int_equal(let_in(0, 1, REQ, 100), 0);
	assert_int_equal(let_in(0, 1, SIDR_REQ, 100), 0);
	assert_int_equal(let_in(0, 1, REP, 100), 100);
	assert_int_equal(let_in(0, 1, RTU, 100), 100);
	assert_int_equal(let_in(0, 2, REQ, 100), 100);
	assert_in_range(let_in(64, 1, REQ, 4000), 600, 1400);
	assert_int_equal(let_in(ADMIT_ALL, 1, REQ, 100), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_leaves_room),
		cmocka_unit_test(all_come_in_where_they_can_be_served),
		cmocka_unit_test(a_flood_that_ends_is_forgotten),
		cmocka_unit_test(the_filter_drops_requests_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
