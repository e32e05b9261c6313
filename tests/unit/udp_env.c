/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp_env.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#include "place.h"

uint16_t env_port;

struct net_addr env_addr(const char *text)
{
	struct net_addr a;

	assert_int_equal(inet_pton(AF_INET6, text, a.raw), 1);
	return a;
}

struct wire *env_open(void)
{
	struct wire *w;

	assert_int_equal(udp_open(env_port, ENV_GROUP, &w), 0);
	return w;
}

unsigned int env_receive(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	struct pollfd p[WIRE_FDS];
	int fds[WIRE_FDS];
	unsigned int i, n_fds = wire_fds(w, fds), got = 0;

	for (i = 0; i < n_fds; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	while (got < n && (w->held || poll(p, n_fds, ENV_LIMIT_MS) > 0))
		got += wire_recv(w, pkts + got, n - got);
	return got;
}

unsigned int env_drain(struct wire *w)
{
	struct wire_pkt in[WIRE_BURST];
	unsigned int calls, n = 0;

	for (calls = 0; calls < 32; calls++)
		n += wire_recv(w, in, WIRE_BURST);
	return n;
}

struct net_path env_path_v4(void)
{
	return (struct net_path){
		.src = env_addr("::ffff:127.0.0.5"),
		.dst = env_addr("::ffff:127.0.0.9"),
		.traffic_class = 0x6a,
		.hop_limit = 33,
	};
}

struct net_path env_path_v6(void)
{
	return (struct net_path){
		.src = env_addr("::1"),
		.dst = env_addr("::1"),
		.traffic_class = 0x29,
		.hop_limit = 7,
		.flow_label = 0x54321,
	};
}

void env_make_run(struct wire_pkt *out, uint8_t *data, uint32_t len, struct net_path path)
{
	unsigned int i;

	for (i = 0; i < ENV_RUN; i++) {
		uint32_t mine = i == ENV_RUN - 1 ? len / 2 : len;

		memset(data + i * len, (int)i, mine);
		out[i] = (struct wire_pkt){ .path = path, .data = data + i * len, .len = mine,
					    .ip_id = (uint16_t)i };
	}
}

int env_new_port(void **state)
{
	env_port = place_free_port();
	return 0;
}
