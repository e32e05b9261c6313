/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from another host to a group reach the wire that joined it and no other wire of the
 * port, whichever socket the kernel would choose by addresses and ports. In a network namespace the
 * test plays the other host with a packet socket at the far end of a veth pair.
 */
#include "left_out.h"
#include "udp_env.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"

enum {
	DATAGRAMS = 64, /* each from another port, for another choice of the kernel */
	PAYLOAD = 16,
};

#define IP "PATH=$PATH:/usr/sbin:/sbin ip "

static const char links[] = IP "link add here type veth peer name there && " IP
			       "addr add 10.9.0.1/24 dev here && " IP "link set here up && " IP
			       "link set there up";

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "in the namespace: %s\n", what);
	_exit(1);
}

static uint16_t ip_checksum(const void *header)
{
	const uint8_t *p = header;
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void send_datagram(int fd, const char *group, uint16_t from_port)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex("there"), .sll_halen = 6,
				  .sll_addr = { 1, 0, 0x5e } };
	struct {
		struct iphdr ip;
		struct udphdr udp;
		uint8_t data[PAYLOAD];
	} packet = {
		.ip = { .version = 4, .ihl = 5, .ttl = 8, .protocol = IPPROTO_UDP,
			.tot_len = htons(sizeof(packet)), .saddr = inet_addr("10.9.0.2"),
			.daddr = inet_addr(group) },
		.udp = { .source = htons(from_port), .dest = htons(env_port),
			 .len = htons(sizeof(packet.udp) + PAYLOAD) },
	};
	const uint8_t *address = (const uint8_t *)&packet.ip.daddr;

	packet.ip.check = ip_checksum(&packet.ip);
	to.sll_addr[3] = address[1] & 0x7f;
	to.sll_addr[4] = address[2];
	to.sll_addr[5] = address[3];
	must(sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) ==
	     sizeof(packet), "send");
}

static void send_all(int fd, const char *group)
{
	for (int i = 0; i < DATAGRAMS; i++)
		send_datagram(fd, group, (uint16_t)(40000 + i));
}

static void in_netns(void)
{
	struct net_addr first = env_addr("::ffff:239.9.0.1"), second = env_addr("::ffff:239.9.0.2");
	struct wire_pkt in[DATAGRAMS];
	struct wire *a, *b;
	uint32_t here;
	int fd;

	if (!place_enter_netns() || system(links) != 0)
		_exit(77);
	fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	here = if_nametoindex("here");
	must(fd >= 0 && here, "packet socket");
	must(!udp_open(env_port, ENV_GROUP, &a) && !udp_open(env_port, ENV_GROUP, &b), "udp_open");
	must(!wire_join(a, &first, here) && !wire_join(b, &second, here), "join");
	send_all(fd, "239.9.0.1");
	must(env_receive(a, in, DATAGRAMS) == DATAGRAMS, "the member gets all");
	must(env_drain(b) == 0, "the other one gets none");
	must(!wire_join(b, &first, here), "join");
	send_all(fd, "239.9.0.1");
	must(env_receive(a, in, DATAGRAMS) == DATAGRAMS, "the first of two members gets all");
	must(env_receive(b, in, DATAGRAMS) == DATAGRAMS, "the second of two members gets all");
	must(!wire_leave(a, &first, here), "leave");
	send_all(fd, "239.9.0.1");
	must(env_receive(b, in, DATAGRAMS) == DATAGRAMS, "the member that stays gets all");
	must(env_drain(a) == 0, "the one that left gets none");
	wire_close(a);
	wire_close(b);
	_exit(0);
}

static void datagrams_go_to_members_only(void **state)
{
	int status;

	fflush(stdout);
	if (fork() == 0)
		in_netns();
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		LEAVE_OUT("no network namespaces");
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(datagrams_go_to_members_only, env_new_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
