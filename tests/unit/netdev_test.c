/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Network interfaces and the monitor of their changes. Each test runs in a child with a network
 * namespace of its own, where that is permitted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "left_out.h"
#include "place.h"
#include "run/config.h"
#include "run/netdev.h"

enum { SKIP = 77, LIMIT_MS = 20000 };

/*
 * Reports failures of the child by its exit status, since cmocka's asserts work only in the parent.
 */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void in_netns(void (*body)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!place_enter_netns()) {
			fflush(stdout);
			_exit(SKIP);
		}
		body();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
		LEAVE_OUT("no network namespaces");
	assert_int_equal(status, 0);
}

static void ip(const char *args)
{
	char line[200];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", args);
	CHECK(system(line) == 0);
}

static const struct netdev *find(const struct netdev *list, unsigned int n, const char *name)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

static bool has(const struct netdev *dev, unsigned int i, const char *text, uint8_t prefix_len)
{
	char buf[INET6_ADDRSTRLEN];

	if (i >= dev->n_addrs)
		return false;
	inet_ntop(AF_INET6, dev->addr[i].addr.raw, buf, sizeof(buf));
	return !strcmp(buf, text) && dev->addr[i].prefix_len == prefix_len;
}

static void check_loopback(void)
{
	struct netdev *list;
	unsigned int n;

	CHECK(netdev_list(&list, &n) == 0 && n >= 1);
	CHECK(!strcmp(list[n - 1].name, "lo") && list[n - 1].loopback);
	CHECK(list[n - 1].up && list[n - 1].running && list[n - 1].mtu >= 1280);
	CHECK(has(&list[n - 1], 0, "::ffff:127.0.0.1", 8));
	free(list);
}

static void loopback_is_there_and_last(void **state)
{
	in_netns(check_loopback);
}

static void check_order(void)
{
	const struct netdev *a;
	struct netdev *list;
	unsigned int n;

	ip("link add vrbt0 type veth peer name vrbt1");
	ip("link set vrbt0 address 02:00:00:00:12:34 mtu 4200");
	ip("addr add 2001:db8::5/64 dev vrbt0 nodad");
	ip("addr add 192.0.2.1/24 dev vrbt0");
	ip("addr add 192.0.2.7/24 dev vrbt0");
	ip("addr add fe80::77/64 dev vrbt0 nodad");
	CHECK(netdev_list(&list, &n) == 0);
	a = find(list, n, "vrbt0");
	CHECK(a && a->mtu == 4200 && !memcmp(a->mac, "\2\0\0\0\x12\x34", 6));
	CHECK(a->ifindex == if_nametoindex("vrbt0") && !a->up && !a->running && !a->loopback);
	CHECK(a->n_addrs == 4);
	CHECK(has(a, 0, "fe80::77", 64));
	CHECK(has(a, 1, "::ffff:192.0.2.1", 24));
	CHECK(has(a, 2, "::ffff:192.0.2.7", 24));
	CHECK(has(a, 3, "2001:db8::5", 64));
	CHECK(list[n - 1].loopback);
	free(list);
}

static void addresses_come_in_gid_order(void **state)
{
	in_netns(check_order);
}

/* As a systemd unit with RestrictAddressFamilies=AF_INET AF_INET6. */
static void refuse_netlink(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	CHECK(socket(AF_NETLINK, SOCK_RAW, 0) < 0);
}

static bool same_interface(const struct netdev *a, const struct netdev *b)
{
	bool same = !strcmp(a->name, b->name) && a->ifindex == b->ifindex && a->mtu == b->mtu &&
		    !memcmp(a->mac, b->mac, sizeof(a->mac)) && a->up == b->up &&
		    a->running == b->running && a->loopback == b->loopback &&
		    a->n_addrs == b->n_addrs;

	for (uint32_t i = 0; same && i < a->n_addrs; i++)
		same = net_addr_equal(&a->addr[i].addr, &b->addr[i].addr) &&
		       a->addr[i].prefix_len == b->addr[i].prefix_len;
	return same;
}

static void check_without_netlink(void)
{
	struct netdev *list, *again;
	unsigned int n, m, found = 0;

	ip("link set lo up");
	ip("link add vrbt0 type veth peer name vrbt1");
	ip("link set vrbt0 address 02:00:00:00:12:34 mtu 4200 addrgenmode none up");
	ip("link set vrbt1 addrgenmode none up");
	ip("addr add 2001:db8::5/64 dev vrbt0 nodad");
	ip("addr add 192.0.2.1/24 dev vrbt0");
	ip("addr add 192.0.2.7/24 dev vrbt0 label vrbt0:1");
	ip("addr add 198.51.100.7/20 dev vrbt0");
	CHECK(netdev_list(&list, &n) == 0);
	refuse_netlink();
	CHECK(netdev_list(&again, &m) == 0);
	for (unsigned int i = 0; i < n; i++) {
		const struct netdev *same = find(again, m, list[i].name);

		CHECK(!list[i].n_addrs == !same);
		CHECK(!same || same_interface(same, &list[i]));
		found += same != NULL;
	}
	CHECK(found == 2 && m == 2 && again[1].loopback);
	free(list);
	free(again);
}

static void without_netlink_the_same_is_found(void **state)
{
	in_netns(check_without_netlink);
}

/* Netlink was not refused then, and the log does not say so. */
static void without_descriptors_there_is_no_list(void **state)
{
	char name[] = "/tmp/netdev_test.XXXXXX";
	int log = mkstemp(name), next;
	struct rlimit was, limit;
	struct netdev *list;
	struct stat st;
	unsigned int n;

	assert_true(log >= 0);
	setenv("VERBENA_LOG", "info", 1);
	setenv("VERBENA_LOG_FILE", name, 1);
	config_get();
	next = dup(log);	/* the library has the file open, too */
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	limit = (struct rlimit){ (rlim_t)next, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(netdev_list(&list, &n), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(fstat(log, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(log);
	unlink(name);
}

static bool readable(int fd, int timeout)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout) == 1;
}

static bool is_running(const char *name)
{
	struct netdev *list;
	unsigned int n;
	bool running;

	CHECK(netdev_list(&list, &n) == 0);
	CHECK(find(list, n, name)->up);
	running = find(list, n, name)->running;
	free(list);
	return running;
}

/* The kernel reports the carrier with some delay: the monitor must announce it. */
static void check_carrier(void)
{
	int fd = netdev_monitor_open();

	ip("link add vrbt0 type veth peer name vrbt1");
	ip("link set vrbt0 up");
	CHECK(!is_running("vrbt0"));
	ip("link set vrbt1 up");
	while (!is_running("vrbt0")) {
		CHECK(readable(fd, LIMIT_MS));
		netdev_monitor_drain(fd);
	}
	close(fd);
}

static void carrier_is_seen(void **state)
{
	in_netns(check_carrier);
}

static void check_monitor(void)
{
	int fd = netdev_monitor_open();

	CHECK(fd >= 0);
	CHECK(!netdev_monitor_drain(fd) && !readable(fd, 0));
	ip("addr add 192.0.2.1/24 dev lo");
	CHECK(readable(fd, LIMIT_MS));
	CHECK(netdev_monitor_drain(fd));
	CHECK(!netdev_monitor_drain(fd));
	ip("link add vrbt0 type veth peer name vrbt1");
	CHECK(readable(fd, LIMIT_MS) && netdev_monitor_drain(fd));
	close(fd);
}

static void monitor_reports_changes(void **state)
{
	in_netns(check_monitor);
}

static void check_many(void)
{
	char line[64];
	struct netdev *list;
	unsigned int i, n;

	for (i = 0; i < NETDEV_ADDRS + 20; i++) {
		snprintf(line, sizeof(line), "addr add 192.0.%u.%u/32 dev lo", i / 200,
			 1 + i % 200);
		ip(line);
	}
	CHECK(netdev_list(&list, &n) == 0);
	CHECK(find(list, n, "lo")->n_addrs == NETDEV_ADDRS);
	free(list);
}

static void more_addresses_than_fit(void **state)
{
	in_netns(check_many);
}

static bool owns(const char *text)
{
	struct net_addr a = { { [10] = 0xff, [11] = 0xff } };

	if (strchr(text, ':'))
		CHECK(inet_pton(AF_INET6, text, a.raw) == 1);
	else
		CHECK(inet_pton(AF_INET, text, a.raw + 12) == 1);
	return netdev_owns(&a, 0, NULL);
}

static void check_owns(void)
{
	static const char *const own[] = { "127.0.0.1", "127.0.0.5", "192.0.2.1", "192.0.2.2",
					   "203.0.113.1", "::1", "2001:db8::1", "2001:db8::2" };
	static const char *const others[] = { "192.0.2.9", "198.51.100.1", "2001:db8::9",
					      "2001:db8:1::1", "224.0.0.1", "::" };

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		CHECK(owns(own[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		CHECK(!owns(others[i]));
}

/* Load balancers set the sysctl, by which sockets can be bound to any address. */
static void check_nonlocal_bind(void)
{
	ip("link set lo up");
	ip("link add vrbt0 type veth peer name vrbt1");
	ip("link set vrbt0 up");
	ip("addr add 192.0.2.1/24 dev vrbt0");
	ip("addr add 192.0.2.2/24 dev vrbt0");
	ip("addr add 203.0.113.1/32 dev lo");
	ip("addr add 2001:db8::1/64 dev vrbt0 nodad");
	ip("addr add 2001:db8::2/64 dev vrbt0 nodad preferred_lft 0");
	check_owns();
	CHECK(system("echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && "
		     "echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind") == 0);
	check_owns();
}

static void owns_with_nonlocal_bind(void **state)
{
	in_netns(check_nonlocal_bind);
}

static void works_in_the_current_namespace(void **state)
{
	struct netdev *list;
	unsigned int i, n;

	assert_int_equal(netdev_list(&list, &n), 0);
	for (i = 1; i < n; i++)
		assert_true(list[i - 1].loopback <= list[i].loopback);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(works_in_the_current_namespace),
		cmocka_unit_test(loopback_is_there_and_last),
		cmocka_unit_test(addresses_come_in_gid_order),
		cmocka_unit_test(without_netlink_the_same_is_found),
		cmocka_unit_test(without_descriptors_there_is_no_list),
		cmocka_unit_test(carrier_is_seen),
		cmocka_unit_test(monitor_reports_changes),
		cmocka_unit_test(more_addresses_than_fit),
		cmocka_unit_test(owns_with_nonlocal_bind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
