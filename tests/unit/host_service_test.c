/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Services: which listeners may share a port, which one a lookup finds, and cleanup after dead
 * processes.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/service.h"
#include "host_env.h"
#include "util/compiler.h"

#define TCP(port) (0x01060000ull | (port))
#define UDP(port) (0x01110000ull | (port))

static struct net_addr v4(uint8_t last)
{
	return (struct net_addr){ { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = last } };
}

static const struct net_addr any, v6 = { { 0xfd, [15] = 1 } },
				  link_local = { { 0xfe, 0x80, [15] = 1 } };

static struct host_service service(uint64_t id, const struct net_addr *addr, uint8_t family)
{
	return (struct host_service){ .service_id = id, .addr = *addr, .family = family };
}

/* The result of a second binding on the same port. */
static void sharing_rules(void **state)
{
	const struct net_addr a = v4(1), b = v4(2);
	const struct {
		struct host_service first, second;
		int want;
	} rows[] = {
		{ { .addr = a, .family = 4 }, { .addr = a, .family = 4 }, EADDRINUSE },
		{ { .addr = a, .family = 4 }, { .addr = b, .family = 4 }, 0 },
		{ { .family = 4 }, { .addr = a, .family = 4 }, EADDRNOTAVAIL },
		{ { .addr = a, .family = 4 }, { .family = 4 }, EADDRNOTAVAIL },
		{ { .family = 4 }, { .family = 4 }, EADDRNOTAVAIL },
		{ { .family = 6 }, { .family = 4 }, EADDRNOTAVAIL },
		{ { .family = 6, .only_family = true }, { .family = 4 }, 0 },
		{ { .family = 6, .only_family = true },
		  { .family = 6, .only_family = true },
		  EADDRNOTAVAIL },
		{ { .addr = a, .family = 4, .reuse = true },
		  { .addr = a, .family = 4 },
		  EADDRINUSE },
		{ { .addr = a, .family = 4, .reuse = true },
		  { .addr = a, .family = 4, .reuse = true },
		  0 },
		{ { .family = 4, .reuse = true }, { .family = 6, .reuse = true }, 0 },
		{ { .addr = link_local, .ifindex = 1, .family = 6 },
		  { .addr = link_local, .ifindex = 2, .family = 6 },
		  0 },
		{ { .addr = link_local, .ifindex = 1, .family = 6 },
		  { .addr = link_local, .ifindex = 1, .family = 6 },
		  EADDRINUSE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct host *h = join(), *other = join();
		struct host_service first = rows[i].first, second = rows[i].second;
		uint32_t at, at2;

		first.service_id = second.service_id = TCP(7174);
		assert_int_equal(host_service_bind(h, &first, &at), 0);
		if (host_service_bind(other, &second, &at2) != rows[i].want)
			fail_msg("row %zu", i);
		/* another port space is independent */
		second.service_id = UDP(7174);
		assert_int_equal(host_service_bind(other, &second, &at2), 0);
		host_service_unbind(h, at);
		second.service_id = TCP(7174);
		if (rows[i].want)
			assert_int_equal(host_service_bind(other, &second, &at2), 0);
		host_leave(other);
		host_leave(h);
	}
}

static bool finds(struct host *h, uint64_t id, const struct net_addr *addr, uint8_t family,
		  const struct host *owner)
{
	uint64_t incarnation;
	int slot;

	if (!host_service_find(h, id, addr, 0, family, &slot, &incarnation))
		return !owner;
	return owner && slot == host_slot(owner) && incarnation == host_incarnation(owner);
}

static void listeners_are_found(void **state)
{
	struct host *a = join(), *b = join();
	const struct net_addr one = v4(1), two = v4(2);
	struct host_service specific = service(TCP(1), &one, 4), wide4 = service(TCP(2), &any, 4),
			    wide6 = service(TCP(3), &any, 6), only6 = service(TCP(4), &any, 6);
	uint32_t at[4];

	only6.only_family = true;
	assert_int_equal(host_service_bind(a, &specific, &at[0]), 0);
	assert_true(finds(b, TCP(1), &one, 4, NULL));
	assert_int_equal(host_service_listen(a, at[0]), 0);
	assert_int_equal(host_service_bind(a, &wide4, &at[1]) | host_service_listen(a, at[1]), 0);
	assert_int_equal(host_service_bind(a, &wide6, &at[2]) | host_service_listen(a, at[2]), 0);
	assert_int_equal(host_service_bind(a, &only6, &at[3]) | host_service_listen(a, at[3]), 0);
	assert_true(finds(b, TCP(1), &one, 4, a));
	assert_true(finds(b, TCP(1), &two, 4, NULL));
	assert_true(finds(b, UDP(1), &one, 4, NULL));
	assert_true(finds(b, TCP(2), &two, 4, a));
	assert_true(finds(b, TCP(2), &v6, 6, NULL));
	assert_true(finds(b, TCP(3), &two, 4, a));
	assert_true(finds(b, TCP(3), &v6, 6, a));
	assert_true(finds(b, TCP(4), &two, 4, NULL));
	assert_true(finds(b, TCP(4), &v6, 6, a));
	assert_true(finds(a, TCP(4), &v6, 6, a));
	host_service_unbind(a, at[0]);
	assert_true(finds(b, TCP(1), &one, 4, NULL));
	assert_int_equal(host_service_only_family(a, at[0], true), EINVAL);
	host_leave(a);
	assert_true(finds(b, TCP(2), &two, 4, NULL));
	host_leave(b);
}

/*
 * The listening process finds its own listeners without the file, which another process may have
 * truncated.
 */
static void own_listeners_are_found_without_the_file(void **state)
{
	struct host *a = join(), *b = join();
	struct host_service s = service(TCP(9), &any, 4);
	const struct net_addr one = v4(1);
	char path[4096];
	uint32_t at;

	assert_int_equal(host_service_bind(a, &s, &at), 0);
	assert_true(finds(a, TCP(9), &one, 4, NULL));
	assert_int_equal(host_service_listen(a, at), 0);
	assert_true(finds(b, TCP(9), &one, 4, a));
	snprintf(path, sizeof(path), "%s/services", run_dir);
	assert_int_equal(truncate(path, 0), 0);
	assert_true(finds(b, TCP(9), &one, 4, NULL));
	assert_true(finds(a, TCP(9), &one, 4, a));
	assert_true(finds(a, TCP(9), &v6, 6, NULL));
	assert_true(finds(a, TCP(10), &one, 4, NULL));
	host_service_unbind(a, at);
	assert_true(finds(a, TCP(9), &one, 4, NULL));
	host_leave(b);
	host_leave(a);
}

/*
 * A listener that has ended does not hold its port, and is found until another one listens, and
 * again when that ends.
 */
static void ended_listeners_are_found(void **state)
{
	struct host *a = join(), *b = join();
	struct host_service s = service(TCP(11), &any, 4), t = s;
	const struct net_addr one = v4(1);
	uint32_t at, at2;

	assert_int_equal(host_service_bind(a, &s, &at) | host_service_listen(a, at), 0);
	host_service_end_listening(a, at);
	assert_true(finds(a, TCP(11), &one, 4, a));
	assert_true(finds(b, TCP(11), &one, 4, a));
	assert_true(finds(b, TCP(11), &v6, 6, NULL));
	assert_int_equal(host_service_bind(b, &t, &at2), 0);
	assert_true(finds(a, TCP(11), &one, 4, a));
	assert_int_equal(host_service_listen(b, at2), 0);
	assert_true(finds(a, TCP(11), &one, 4, b));
	assert_true(finds(b, TCP(11), &one, 4, b));
	host_service_unbind(b, at2);
	assert_true(finds(b, TCP(11), &one, 4, a));
	host_service_unbind(a, at);
	assert_true(finds(a, TCP(11), &one, 4, NULL));
	assert_true(finds(b, TCP(11), &one, 4, NULL));
	host_leave(a);
	host_leave(b);
}

/* An IPv6 wildcard that changes its IPv4 setting before it listens. */
static void only_family_after_binding(void **state)
{
	struct host *a = join();
	struct host_service six = service(TCP(5), &any, 6), four = service(TCP(5), &any, 4);
	const struct net_addr one = v4(1);
	uint32_t at, at4;

	six.only_family = true;
	assert_int_equal(host_service_bind(a, &six, &at), 0);
	assert_int_equal(host_service_bind(a, &four, &at4), 0);
	assert_int_equal(host_service_only_family(a, at, false), 0);
	assert_int_equal(host_service_listen(a, at), EADDRNOTAVAIL);
	host_service_unbind(a, at4);
	assert_int_equal(host_service_listen(a, at), 0);
	assert_true(finds(a, TCP(5), &one, 4, a));
	host_service_unbind(a, at);
	six.only_family = false;
	assert_int_equal(host_service_bind(a, &six, &at), 0);
	assert_int_equal(host_service_only_family(a, at, true), 0);
	assert_int_equal(host_service_listen(a, at), 0);
	assert_true(finds(a, TCP(5), &one, 4, NULL));
	assert_true(finds(a, TCP(5), &v6, 6, a));
	host_leave(a);
}

/* A listener that shares its port cannot listen until it is the only one. */
static void listening_ends_sharing(void **state)
{
	const struct net_addr one = v4(1);
	struct host *a = join(), *b = join();
	struct host_service s = service(TCP(5), &one, 4), t;
	uint32_t at, at2;

	s.reuse = true;
	t = s;
	assert_int_equal(host_service_bind(a, &s, &at), 0);
	assert_int_equal(host_service_bind(b, &t, &at2), 0);
	assert_int_equal(host_service_listen(a, at), EADDRINUSE);
	host_service_unbind(b, at2);
	assert_int_equal(host_service_listen(a, at), 0);
	assert_int_equal(host_service_bind(b, &t, &at2), EADDRINUSE);
	host_leave(a);
	host_leave(b);
}

static void any_port(void **state)
{
	struct host *a = join();
	static uint8_t seen[65536];
	const struct net_addr one = v4(1);

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < 2000; i++) {
		struct host_service s = service(TCP(0), &one, 4);
		uint32_t at;

		s.reuse = i % 2;
		assert_int_equal(host_service_bind(a, &s, &at), 0);
		assert_true((s.service_id & ~0xffffull) == TCP(0) &&
			    (s.service_id & 0xffff) >= 1024);
		assert_false(seen[s.service_id & 0xffff]++);
	}
	host_leave(a);
}

enum { CROWD = 300 }; /* several buckets */

/* More ids share a port than a bucket holds; those beyond it count, are found, and make room. */
static void crowded_port(void **state)
{
	struct host *h[2] = { join(), join() };
	const struct net_addr one = v4(1);
	struct host_service s = service(TCP(9), &one, 4), alone = s;
	struct host_service other = service(TCP(10), &one, 4);
	uint32_t at[CROWD], last;
	int i;

	s.reuse = true;
	for (i = 0; i < CROWD; i++)
		assert_int_equal(host_service_bind(h[i % 2], &s, &at[i]), 0);
	assert_int_equal(host_service_bind(h[0], &other, &last), 0);
	for (i = 0; i < CROWD - 1; i++) {
		assert_int_equal(host_service_listen(h[i % 2], at[i]), EADDRINUSE);
		host_service_unbind(h[i % 2], at[i]);
	}
	/* The last one is alone now, far from the port's own bucket. */
	assert_int_equal(host_service_bind(h[0], &alone, &last), EADDRINUSE);
	assert_true(finds(h[0], TCP(9), &one, 4, NULL));
	assert_int_equal(host_service_listen(h[i % 2], at[i]), 0);
	assert_true(finds(h[0], TCP(9), &one, 4, h[i % 2]));
	assert_true(finds(h[1], TCP(9), &one, 4, h[i % 2]));
	host_service_end_listening(h[i % 2], at[i]);
	assert_int_equal(host_service_bind(h[0], &alone, &last), 0);
	assert_true(finds(h[0], TCP(9), &one, 4, h[i % 2]));
	assert_int_equal(host_service_listen(h[0], last), 0);
	assert_true(finds(h[1], TCP(9), &one, 4, h[0]));
	host_service_unbind(h[i % 2], at[i]);
	host_leave(h[0]);
	host_leave(h[1]);
}

static void services_of_dead_processes_are_removed(void **state)
{
	struct host *a = join();
	const struct net_addr one = v4(1);
	struct host_service s = service(TCP(11), &one, 4);
	int ready[2], status;
	uint32_t at;
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct host *h = join();

		for (int i = 0; i < 64; i++) {
			s.reuse = i;
			s.addr = v4((uint8_t)(1 + i));
			if (host_service_bind(h, &s, &at) || (!i && host_service_listen(h, at)))
				_exit(1);
		}
		_exit(write(ready[1], "x", 1) == 1 ? (pause(), 0) : 1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_false(finds(a, TCP(11), &one, 4, NULL));
	assert_int_equal(host_service_bind(a, &s, &at), EADDRINUSE);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(finds(a, TCP(11), &one, 4, NULL));
	assert_int_equal(host_service_bind(a, &s, &at), 0);
	close(ready[0]);
	close(ready[1]);
	host_leave(a);
}

/* Random bytes in the file break at most one service. */
static void noise(void **state)
{
	struct host *a = join();
	const struct net_addr one = v4(1);
	struct host_service s = service(TCP(12), &one, 4);
	uint8_t junk[4096];
	char path[128];
	uint32_t at;
	FILE *f;

	assert_int_equal(host_service_bind(a, &s, &at), 0);
	snprintf(path, sizeof(path), "%s/services", run_dir);
	f = fopen(path, "r+");
	assert_non_null(f);
	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 2654435761u >> 13);
	for (int i = 0; i < 2048; i++)
		fwrite(junk, sizeof(junk), 1, f);
	fclose(f);
	assert_true(finds(a, TCP(12), &one, 4, NULL));
	assert_int_equal(host_service_listen(a, at), EINVAL);
	host_service_unbind(a, at);
	assert_int_equal(host_service_bind(a, &s, &at), 0);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(host_service_listen(a, at), EINVAL);
	assert_int_equal(host_service_bind(a, &s, &at), 0);
	assert_int_equal(host_service_listen(a, at), 0);
	assert_true(finds(a, TCP(12), &one, 4, a));
	host_leave(a);
}

/* Without a table (here because of the file size limit) the process keeps its services private. */
static void in_private_mode(void **state)
{
	const struct net_addr one = v4(1);
	struct host_service s = service(TCP(13), &one, 4);
	uint64_t incarnation;
	struct rlimit before, none;
	struct host *a;
	uint32_t at, at2;
	int slot;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){ 4096, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(host_join(run_dir, &a), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_false(host_shared(a));
	assert_int_equal(host_service_bind(a, &s, &at), 0);
	assert_int_equal(host_service_bind(a, &s, &at2), EADDRINUSE);
	assert_int_equal(host_service_listen(a, at), 0);
	assert_true(host_service_find(a, TCP(13), &one, 0, 4, &slot, &incarnation));
	assert_int_equal(slot, HOST_NO_SLOT);
	host_leave(a);
}

/* Several processes bind any port and the same ports again and again: no two get the same. */
static void race(void **state)
{
	enum { PROCESSES = 4, ROUNDS = 300, PORTS = 5 };
	struct host *a = join();
	const struct net_addr one = v4(1);
	pid_t pid[PROCESSES];
	int status;

	for (int p = 0; p < PROCESSES; p++) {
		pid[p] = fork();
		if (pid[p])
			continue;
		struct host *h = join();

		for (int i = 0; i < ROUNDS; i++) {
			struct host_service s =
				service(TCP(100 + (unsigned int)i % PORTS), &one, 4);
			uint32_t at;
			int err = host_service_bind(h, &s, &at);

			if (err == EADDRINUSE)
				continue;
			if (err || host_service_listen(h, at) ||
			    !finds(h, s.service_id, &one, 4, h))
				_exit(1);
			host_service_unbind(h, at);
		}
		host_leave(h);
		_exit(0);
	}
	for (int p = 0; p < PROCESSES; p++) {
		waitpid(pid[p], &status, 0);
		assert_int_equal(status, 0);
	}
	host_leave(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(sharing_rules),
		IN_DIR(listeners_are_found),
		IN_DIR(own_listeners_are_found_without_the_file),
		IN_DIR(ended_listeners_are_found),
		IN_DIR(only_family_after_binding),
		IN_DIR(listening_ends_sharing),
		IN_DIR(any_port),
		IN_DIR(crowded_port),
		IN_DIR(services_of_dead_processes_are_removed),
		IN_DIR(noise),
		IN_DIR(in_private_mode),
		IN_DIR(race),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
