/* SPDX-License-Identifier: BSD-2-Clause */
/* The virtual segment: a hub for the processes of one user, which join, leave, and stop reading. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "place.h"
#include "raw/raw.h"
#include "util/time.h"

enum {
	LEN = 100,
	MANY = 400,
};

static char dir[64];

/* A process of the host with an open interface. */
struct member {
	struct host *host;
	struct raw_port *port;
	unsigned int heard;
	uint8_t last[LEN];
};

static struct member join(uint32_t ifindex, unsigned int ordinal)
{
	struct raw_interface on = { .name = "test", .index = ifindex, .ordinal = ordinal };
	struct member m = { 0 };

	assert_int_equal(host_join(dir, &m.host), 0);
	assert_int_equal(raw_open(m.host, &on, CONFIG_RAW_VIRTUAL, &m.port), 0);
	assert_false(m.port->offloads);
	assert_int_equal(raw_filter(m.port, NULL, 0, RAW_OWN), 0);
	return m;
}

static void leave(struct member *m)
{
	raw_close(m->port, true);
	host_leave(m->host);
}

static void record_frame(void *arg, const struct raw_frame *f)
{
	struct member *m = arg;

	assert_int_equal(f->len, LEN);
	assert_false(f->outgoing || f->sum_ok);
	memcpy(m->last, f->data, LEN);
	m->heard++;
}

static unsigned int receive(struct member *m)
{
	while (raw_recv(m->port, 64, 1, record_frame, m))
		;
	return m->heard;
}

static struct raw_out frame(uint8_t data[LEN], uint8_t mark)
{
	memset(data, mark, LEN);
	return (struct raw_out){ .piece = { { data, 10 }, { data + 10, LEN - 10 } }, .pieces = 2,
				 .len = LEN };
}

static bool send_at(struct member *m, struct raw_out *out, uint64_t now)
{
	enum raw_sent why;
	bool sent = raw_send(m->port, out, 1, now, &why) == 1;

	assert_true(sent || why == RAW_FULL);
	return sent;
}

static int set_up(void **state)
{
	place_make_dir(dir);
	return 0;
}

static int tear_down(void **state)
{
	place_remove_dir(dir);
	return 0;
}

/* All ports on the interface get the frame, the sender's included; other interfaces do not. */
static void test_hub(void **state)
{
	struct member a = join(1, 0), b = join(1, 0), second = join(1, 1), other = join(2, 0);
	uint8_t data[LEN];
	struct raw_out out = frame(data, 7);

	assert_true(send_at(&a, &out, 1));
	assert_int_equal(receive(&a), 1);
	assert_int_equal(receive(&b), 1);
	assert_int_equal(receive(&second), 1);
	assert_int_equal(receive(&other), 0);
	assert_memory_equal(b.last, data, LEN);
	/* joining and leaving take effect at once */
	leave(&b);
	b = join(1, 0);
	out = frame(data, 8);
	assert_true(send_at(&a, &out, 2));
	assert_int_equal(receive(&b), 1);
	assert_int_equal(b.last[0], 8);
	leave(&a);
	leave(&b);
	leave(&second);
	leave(&other);
}

/*
 * Members that a sender without a descriptor cannot list are found once it has one, although the
 * directory has not changed since.
 */
static void test_no_descriptor(void **state)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct member a = join(1, 0), b = join(1, 0);
	struct rlimit was;
	uint8_t data[LEN];
	struct raw_out out = frame(data, 7);

	assert_int_equal(futimens(host_dirfd(a.host), long_ago), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 3, was.rlim_max }), 0);
	assert_true(send_at(&a, &out, 1));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	out = frame(data, 8);
	assert_true(send_at(&a, &out, 2));
	assert_int_equal(receive(&b), 1);
	assert_int_equal(b.last[0], 8);
	leave(&a);
	leave(&b);
}

/* Every frame arrives once and in order, even if the queues in between are small. */
static void test_flow_control(void **state)
{
	struct member a = join(1, 0), b = join(1, 0);
	uint8_t data[LEN];
	unsigned int full = 0;

	for (unsigned int i = 0; i < MANY; i++) {
		struct raw_out out = frame(data, i);

		while (!send_at(&a, &out, 1 + i)) {
			full++;
			receive(&a);
			receive(&b);
			assert_int_equal(b.last[0], (uint8_t)(b.heard - 1));
		}
	}
	assert_true(full > 0);
	assert_int_equal(receive(&a), MANY);
	assert_int_equal(receive(&b), MANY);
	leave(&a);
	leave(&b);
}

/*
 * The others wait for a while for one that stops reading; then they continue without it, until it
 * reads again.
 */
static void test_stalled_reader(void **state)
{
	struct member a = join(1, 0), deaf = join(1, 0);
	uint8_t data[LEN];
	struct raw_out out = frame(data, 1);
	unsigned int sent = 0;
	uint64_t now = 1000;

	for (; send_at(&a, &out, now); sent++) {
		receive(&a);
		out = frame(data, 1);
	}
	assert_int_equal(a.heard, sent);
	assert_false(send_at(&a, &out, now + 19 * VRB_MSEC));
	now += 20 * VRB_MSEC;
	assert_true(send_at(&a, &out, now));
	assert_int_equal(receive(&a), sent + 1);
	out = frame(data, 2);
	assert_true(send_at(&a, &out, now));
	assert_int_equal(receive(&deaf), sent);
	out = frame(data, 3);
	assert_true(send_at(&a, &out, now));
	assert_int_equal(receive(&deaf), sent + 1);
	assert_int_equal(deaf.last[0], 3);
	leave(&a);
	leave(&deaf);
}

/* Invalid or filtered frames are not forwarded. */
static void test_filter(void **state)
{
	const struct sock_filter none = { 0 };
	struct member a = join(1, 0);
	uint8_t data[LEN];
	struct raw_out out = frame(data, 1);
	struct raw_out stump = { .piece = { { data, RAW_HEADER_LEN - 1 } }, .pieces = 1,
				 .len = RAW_HEADER_LEN - 1 };

	assert_true(send_at(&a, &stump, 1));
	assert_int_equal(receive(&a), 0);
	assert_int_equal(raw_filter(a.port, &none, 0, RAW_OWN), 0);
	assert_true(send_at(&a, &out, 1));
	assert_int_equal(receive(&a), 0);
	leave(&a);
}

/* The socket has an abstract name, which is no secret. */
static void expect_no_stranger(const struct member *m)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(m->port->fd[0], (struct sockaddr *)&at, &len), 0);
	assert_int_equal(sendto(fd, "frame", 5, 0, (struct sockaddr *)&at, len), -1);
	assert_int_equal(errno, EPERM);
	close(fd);
}

/* Without the run directory a process is alone and receives only its own frames. */
static void test_alone(void **state)
{
	struct rlimit before, none;
	struct member a;
	uint8_t data[LEN];
	struct raw_out out = frame(data, 1);

	/* too small for a table in any directory */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){ 4096, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	a = join(1, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_false(host_shared(a.host));
	assert_true(send_at(&a, &out, 1));
	assert_int_equal(receive(&a), 1);
	expect_no_stranger(&a);
	leave(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hub),	cmocka_unit_test(test_flow_control),
		cmocka_unit_test(test_stalled_reader),	cmocka_unit_test(test_filter),
		cmocka_unit_test(test_alone),	cmocka_unit_test(test_no_descriptor),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
