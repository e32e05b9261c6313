/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolution of an IP address to an Ethernet address: addresses that need no lookup, and the
 * kernel's neighbour table in a network namespace of the test.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/arp.h"
#include "core/device/port.h"
#include "left_out.h"
#include "place.h"
#include "run/netdev.h"

static const uint8_t own_mac[6] = { 0x02, 0, 0, 0, 0, 0x01 };
static const uint8_t peer_mac[6] = { 0x02, 0, 0, 0, 0, 0x07 };
static const uint8_t no_mac[6];

static struct net_addr addr(const char *text)
{
	struct net_addr a = { { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, text, a.raw + 12) == 1)
		return a;
	if (inet_pton(AF_INET6, text, a.raw) != 1)
		abort();
	return a;
}

static struct vrb_port port_of(uint32_t ifindex, bool loopback)
{
	struct netdev nd = {
		.name = "d0", .ifindex = ifindex, .mtu = 1500, .up = true, .running = true
	};
	struct vrb_port port;

	nd.addr[nd.n_addrs++] = (struct netdev_addr){ addr("192.0.2.1"), 24 };
	nd.addr[nd.n_addrs++] = (struct netdev_addr){ addr("2001:db8::1"), 64 };
	memset(&port, 0, sizeof(port));
	vrb_port_init(&port, &nd);
	memcpy(port.mac, own_mac, sizeof(own_mac));
	port.loopback = loopback;
	return port;
}

/* Returns whether the result is `err` and, if there is no error, this Ethernet address. */
static bool resolves(struct vrb_port *port, const char *to, int err, const uint8_t mac[6])
{
	struct net_addr dst = addr(to);
	uint8_t got[6];
	int ret = vrb_arp_resolve(port, &dst, got);

	if (ret == err && (ret || !memcmp(got, mac, sizeof(got))))
		return true;
	fprintf(stderr, "%s: %d, ...:%02x:%02x\n", to, ret, got[4], got[5]);
	return false;
}

static void groups_map_to_multicast_addresses(void **state)
{
	static const uint8_t v4[6] = { 0x01, 0x00, 0x5e, 0x01, 0x02, 0x03 };
	static const uint8_t v6[6] = { 0x33, 0x33, 0xff, 0x00, 0x00, 0x01 };
	struct vrb_port port = port_of(1, false);

	assert_true(resolves(&port, "239.129.2.3", 0, v4));
	assert_true(resolves(&port, "ff02::1:ff00:1", 0, v6));
}

static void loopback_has_no_address(void **state)
{
	struct vrb_port port = port_of(1, true);

	assert_true(resolves(&port, "127.0.0.1", 0, no_mac));
	assert_true(resolves(&port, "::1", 0, no_mac));
}

static void own_addresses_resolve_to_the_port(void **state)
{
	struct vrb_port port = port_of(1, false);

	assert_true(resolves(&port, "192.0.2.1", 0, own_mac));
	assert_true(resolves(&port, "2001:db8::1", 0, own_mac));
}

static void run(const char *command)
{
	char line[256];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", command);
	if (system(line) != 0)
		_exit(77);
}

static uint32_t make_interface(void)
{
	run("link add d0 type veth peer name d1");
	run("link set d1 up");
	run("link set d0 up");
	run("addr add 192.0.2.1/24 dev d0");
	run("-6 addr add 2001:db8::1/64 dev d0 nodad");
	run("neigh add 192.0.2.7 lladdr 02:00:00:00:00:07 dev d0 nud permanent");
	run("neigh add 2001:db8::7 lladdr 02:00:00:00:00:07 dev d0 nud permanent");
	run("route add 198.51.100.0/24 via 192.0.2.7");
	run("-6 route add 2001:db8:1::/64 via 2001:db8::7");
	return if_nametoindex("d0");
}

static void in_netns(void)
{
	struct vrb_port port;

	if (!place_enter_netns())
		_exit(77);
	port = port_of(make_interface(), false);
	if (!resolves(&port, "192.0.2.7", 0, peer_mac) ||
	    !resolves(&port, "2001:db8::7", 0, peer_mac))
		_exit(1);
	/* Behind a gateway, the result is the gateway's address. */
	if (!resolves(&port, "198.51.100.9", 0, peer_mac) ||
	    !resolves(&port, "2001:db8:1::9", 0, peer_mac))
		_exit(1);
	/* No host has this address. */
	if (!resolves(&port, "192.0.2.8", EHOSTUNREACH, NULL))
		_exit(1);
	/* The interface does not exist any more. */
	port.ifindex = 9999;
	if (!resolves(&port, "192.0.2.7", ENETUNREACH, NULL))
		_exit(1);
	exit(0);
}

static void other_addresses_come_from_the_kernel(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		in_netns();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		LEAVE_OUT("no network namespace with a pair of interfaces here");
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_map_to_multicast_addresses),
		cmocka_unit_test(loopback_has_no_address),
		cmocka_unit_test(own_addresses_resolve_to_the_port),
		cmocka_unit_test(other_addresses_come_from_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
