/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP wire over interfaces with a small MTU, a short queue, or without IPv6: in network
 * namespaces, where the test may create them.
 */
#include "left_out.h"
#include "udp_env.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "util/be.h"

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "in the namespace: %s\n", what);
	_exit(1);
}

static int packet_socket(void)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex("lo") };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));

	if (fd < 0 || bind(fd, (struct sockaddr *)&ll, sizeof(ll)))
		_exit(77);
	return fd;
}

/* A token bucket smaller than the run makes the kernel segment the run before it is sent. */
static void in_netns_that_segments_runs(void)
{
	static uint8_t data[ENV_RUN * 1000], ip[2048];
	struct wire_pkt out[ENV_RUN], in;
	unsigned int i;
	struct wire *w;
	int fd;

	if (!place_enter_netns() ||
	    system("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev lo root tbf "
		   "rate 10gbit burst 2000b latency 1s") != 0)
		_exit(77);
	fd = packet_socket();
	must(!udp_open(env_port, ENV_GROUP, &w), "udp_open");
	env_make_run(out, data, 1000, env_path_v4());
	must(wire_send(w, out, ENV_RUN) == ENV_RUN, "send");
	for (i = 0; i < ENV_RUN; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		must(poll(&p, 1, ENV_LIMIT_MS) == 1 && recv(fd, ip, sizeof(ip), 0) > 0,
		     "no packet seen");
		must(get_be16(ip + 4) == i, "identification");
		must(get_be16(ip + 6) == 0x4000, "DF");
		must(get_be16(ip + 24) == 8 + out[i].len, "UDP length");
		must(get_be16(ip + 26) != 0, "UDP checksum");
	}
	for (i = 0; i < ENV_RUN; i++)
		must(env_receive(w, &in, 1) == 1 && in.len == out[i].len, "receive");
	_exit(0);
}

/*
 * The interface's MTU is smaller than the packets: the run is returned, and its packets are lost
 * one by one.
 */
static void in_netns_of_small_mtu(void)
{
	static uint8_t data[ENV_RUN * 1000];
	struct wire_pkt out[ENV_RUN];
	unsigned int i, done = 0, given_back = 0;
	struct wire *w;

	if (!place_enter_netns() ||
	    system("PATH=$PATH:/usr/sbin:/sbin ip link set lo mtu 700") != 0)
		_exit(77);
	must(!udp_open(env_port, ENV_GROUP, &w), "udp_open");
	env_make_run(out, data, 1000, env_path_v4());
	while (done < ENV_RUN && given_back < 3) {
		done += wire_send(w, out + done, ENV_RUN - done);
		if (done == ENV_RUN)
			break;
		must(out[done].alone && done == 0, "the reason for the returned run");
		given_back++;
		for (i = 0; i < ENV_RUN; i++)
			out[i].ip_id = 0;
	}
	must(given_back == 1 && done == ENV_RUN, "how often it was returned");
	must(w->stats.send_too_long == ENV_RUN - 1 && w->stats.sent == 1, "packets lost");
	must(w->runs, "the wire uses runs no more");
	_exit(0);
}

/*
 * ENOBUFS: packets that do not fit the interface's queue are lost, as at a router; the sender does
 * not wait, and later packets are sent.
 */
static void in_netns_of_short_queue(void)
{
	enum { PACKETS = 20 };
	static uint8_t data[1000];
	struct wire_pkt out[PACKETS];
	struct wire *w;

	if (!place_enter_netns() || system("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev lo root "
					   "tbf rate 8kbit burst 2500 limit 2500") != 0)
		_exit(77);
	must(!udp_open(env_port, ENV_GROUP, &w), "udp_open");
	for (unsigned int i = 0; i < PACKETS; i++)
		out[i] = (struct wire_pkt){ .path = env_path_v4(),
					    .data = data,
					    .len = sizeof(data) };
	for (unsigned int i = 0; i < PACKETS; i++)
		must(wire_send(w, &out[i], 1) == 1, "a lost packet counts as sent");
	must(w->stats.send_full > 0 && w->stats.sent > 0,
	     "some packets were sent and some found the queue full");
	must(w->stats.send_full + w->stats.sent == PACKETS, "each is counted once");
	must(w->stats.send_refused == 0, "no packet was refused");
	must(system("PATH=$PATH:/usr/sbin:/sbin tc qdisc del dev lo root") == 0, "tc");
	must(wire_send(w, &out[0], 1) == 1, "the next packet");
	must(w->stats.send_full + w->stats.sent == PACKETS + 1, "the next packet was sent");
	wire_close(w);
	_exit(0);
}

static void in_netns(void (*body)(void))
{
	int status;

	fflush(stdout);
	if (fork() == 0)
		body();
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		LEAVE_OUT("no network namespaces");
	assert_int_equal(status, 0);
}

static void a_run_is_cut_into_packets_of_rising_identification(void **state)
{
	in_netns(in_netns_that_segments_runs);
}

static void a_run_above_the_mtu_is_returned(void **state)
{
	in_netns(in_netns_of_small_mtu);
}

static void a_full_interface_queue_loses_packets(void **state)
{
	in_netns(in_netns_of_short_queue);
}

static void in_netns_without_ipv6(void)
{
	struct wire *w;

	if (!place_enter_netns() || system("PATH=$PATH:/usr/sbin:/sbin sysctl -qw "
					   "net.ipv6.conf.all.disable_ipv6=1") != 0)
		_exit(77);
	if (udp_open(env_port, ENV_GROUP, &w) || !w->ipv4)
		_exit(1);
	wire_close(w);
	_exit(0);
}

static void disabled_ipv6_leaves_ipv4(void **state)
{
	in_netns(in_netns_without_ipv6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_run_is_cut_into_packets_of_rising_identification,
				       env_new_port),
		cmocka_unit_test_setup(a_run_above_the_mtu_is_returned, env_new_port),
		cmocka_unit_test_setup(a_full_interface_queue_loses_packets, env_new_port),
		cmocka_unit_test_setup(disabled_ipv6_leaves_ipv4, env_new_port),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
