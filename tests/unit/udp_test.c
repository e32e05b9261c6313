/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loopback: what path says is what arrives; what cannot be sent is lost and counted; steering finds
 * the owner.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "place.h"
#include "run/log.h"
#include "util/be.h"
#include "util/compiler.h"
#include "wire/udp.h"

enum { PATIENCE_MS = 20000 };

static uint16_t port;

static struct net_addr addr(const char *text)
{
	struct net_addr a;

	assert_int_equal(inet_pton(AF_INET6, text, a.raw), 1);
	return a;
}

static struct wire *open_wire(void)
{
	struct wire *w;

	assert_int_equal(udp_open(port, &w), 0);
	return w;
}

/* Waits for n packets; loopback delivers before sendmmsg returns, so this does not wait in fact. */
static unsigned int receive(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	struct pollfd p[WIRE_FDS];
	int fds[WIRE_FDS];
	unsigned int i, n_fds = wire_fds(w, fds), got = 0;

	for (i = 0; i < n_fds; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	while (got < n && (w->held || poll(p, n_fds, PATIENCE_MS) > 0))
		got += wire_recv(w, pkts + got, n - got);
	return got;
}

/* Whatever has arrived, of both families. */
static unsigned int drain(struct wire *w)
{
	struct wire_pkt in[WIRE_BURST];
	unsigned int calls, n = 0;

	for (calls = 0; calls < 32; calls++)
		n += wire_recv(w, in, WIRE_BURST);
	return n;
}

static struct net_path path_v4(void)
{
	return (struct net_path){
		.src = addr("::ffff:127.0.0.5"),
		.dst = addr("::ffff:127.0.0.9"),
		.traffic_class = 0x6a,
		.hop_limit = 33,
	};
}

static struct net_path path_v6(void)
{
	return (struct net_path){
		.src = addr("::1"),
		.dst = addr("::1"),
		.traffic_class = 0x29,
		.hop_limit = 7,
		.flow_label = 0x54321,
	};
}

static void check_round_trip(struct wire *w, struct net_path path)
{
	const uint32_t lens[] = { 1, 32, 1024, 4096 + 76, WIRE_MAX_PACKET };
	static uint8_t data[WIRE_MAX_PACKET];
	struct wire_pkt out, in;
	size_t i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 13);
	data[1] = 0x40;
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		out = (struct wire_pkt){ .path = path, .data = data, .len = lens[i] };
		assert_int_equal(wire_send(w, &out, 1), 1);
		assert_int_equal(receive(w, &in, 1), 1);
		assert_int_equal(in.len, lens[i]);
		assert_memory_equal(in.data, data, in.len);
		assert_memory_equal(&in.path.src, &path.src, 16);
		assert_memory_equal(&in.path.dst, &path.dst, 16);
		assert_int_equal(in.path.src_port, wire_src_port(w));
		assert_int_equal(in.path.dst_port, wire_dst_port(w));
		assert_int_equal(in.path.traffic_class, path.traffic_class);
		assert_int_equal(in.path.hop_limit, path.hop_limit);
		assert_int_equal(in.path.ifindex, if_nametoindex("lo"));
		assert_int_equal(in.path.flow_label, path.flow_label);
		assert_false(in.id_known);
	}
}

static void ipv4_path_arrives_as_sent(void **state)
{
	struct wire *w = open_wire();

	check_round_trip(w, path_v4());
	wire_close(w);
}

static void ipv6_path_arrives_as_sent(void **state)
{
	struct wire *w = open_wire();

	if (!w->ipv6) {
		wire_close(w);
		print_message("no IPv6 here\n");
		skip();
	}
	check_round_trip(w, path_v6());
	wire_close(w);
}

static void check_order(struct wire *w, const struct wire_pkt *out, const struct wire_pkt *in,
			unsigned int n, unsigned int next[2])
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		unsigned int k = in[i].data[0];

		assert_int_equal(net_is_ipv4(&in[i].path.src), net_is_ipv4(&out[k].path.src));
		if (!w->ipv6)
			continue;
		assert_int_equal(k, next[k % 2]);
		next[k % 2] += 2;
	}
}

static void bursts_of_both_families_keep_their_order(void **state)
{
	struct wire *w = open_wire();
	struct wire_pkt out[WIRE_BURST], in[WIRE_BURST];
	uint8_t data[WIRE_BURST][64] = { { 0 } };
	unsigned int i, next[2] = { 0, 1 }, total = 0;

	for (i = 0; i < WIRE_BURST; i++) {
		data[i][0] = (uint8_t)i;
		out[i] = (struct wire_pkt){
			.path = i % 2 && w->ipv6 ? path_v6() : path_v4(),
			.data = data[i],
			.len = sizeof(data[i]),
		};
	}
	assert_int_equal(wire_send(w, out, WIRE_BURST), WIRE_BURST);
	while (total < WIRE_BURST) {
		unsigned int n = receive(w, in, 1);

		assert_int_equal(n, 1);
		check_order(w, out, in, n, next);
		total += n;
	}
	assert_int_equal(w->stats.sent, WIRE_BURST);
	assert_int_equal(w->stats.received, WIRE_BURST);
	wire_close(w);
}

enum { RUN = 20 };

/* RUN packets of len bytes behind each other, the last one shorter. */
static void make_run(struct wire_pkt *out, uint8_t *data, uint32_t len, struct net_path path)
{
	unsigned int i;

	for (i = 0; i < RUN; i++) {
		uint32_t mine = i == RUN - 1 ? len / 2 : len;

		memset(data + i * len, (int)i, mine);
		out[i] = (struct wire_pkt){ .path = path, .data = data + i * len, .len = mine,
					    .ip_id = (uint16_t)i };
	}
}

static void check_run_arrives(struct wire *w, struct net_path path)
{
	static uint8_t data[RUN * 3000];
	const uint32_t lens[] = { 24, 1040, 3000 };
	struct wire_pkt out[RUN], in[3];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		unsigned int k = 0;

		make_run(out, data, lens[i], path);
		assert_int_equal(wire_send(w, out, RUN), RUN);
		while (k < RUN) {
			unsigned int j, n = wire_recv(w, in, 3);

			for (j = 0; j < n; j++, k++) {
				assert_int_equal(in[j].len, out[k].len);
				assert_memory_equal(in[j].data, out[k].data, out[k].len);
				assert_memory_equal(&in[j].path.dst, &path.dst, 16);
				assert_int_equal(in[j].ip_id, k);
			}
		}
	}
	assert_int_equal(wire_recv(w, in, 3), 0);
}

static void runs_travel_as_one_message(void **state)
{
	struct wire *w = open_wire();

	if (!w->runs) {
		wire_close(w);
		print_message("this kernel has no UDP_SEGMENT\n");
		skip();
	}
	check_run_arrives(w, path_v4());
	assert_int_equal(w->stats.send_runs, 3);
	assert_int_equal(w->stats.recv_runs, 3);
	if (w->ipv6)
		check_run_arrives(w, path_v6());
	wire_close(w);
}

static void what_cannot_be_sent_is_lost_and_counted(void **state)
{
	struct wire *w = open_wire();
	static uint8_t data[70000];
	struct wire_pkt out[4], in;
	unsigned int i;

	for (i = 0; i < 4; i++)
		out[i] = (struct wire_pkt){ .path = path_v4(), .data = data, .len = 16 };
	/* Not an address of ours; too long; a destination that cannot be. */
	out[0].path.src = addr("::ffff:192.0.2.99");
	out[1].len = sizeof(data);
	out[2].path.dst = addr("::ffff:0.0.0.0");
	out[2].path.src = addr("::ffff:203.0.113.1");
	out[3].data = (uint8_t[16]){ 42 };
	assert_int_equal(wire_send(w, out, 4), 4);
	assert_int_equal(receive(w, &in, 1), 1);
	assert_int_equal(in.data[0], 42);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(w->stats.sent, 1);
	assert_int_equal(w->stats.send_too_long, 1);
	assert_int_equal(w->stats.send_refused, 2);
	wire_close(w);
}

/* Nobody takes packets: the kernel drops what finds no room, and the next packet after that says how many. Returns them. */
static uint64_t overflow(struct wire *w)
{
	static uint8_t data[8192];
	struct wire_pkt out = { .path = path_v4(), .data = data, .len = sizeof(data) }, in[WIRE_BURST];
	uint64_t sent = 0, got = 0;
	unsigned int n;

	while (sent < (64 << 20) / sizeof(data))
		sent += wire_send(w, &out, 1);
	while ((n = wire_recv(w, in, WIRE_BURST)))
		got += n;
	assert_true(got > 0 && got < sent);
	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(receive(w, in, 1), 1);
	return sent - got;
}

/* In a child, because a process tells it once. Writes what is told into a file. */
static void overflow_twice(FILE *told)
{
	uint8_t warn[LOG_MODULES];
	struct wire *w = open_wire();

	memset(warn, LOG_WARN, sizeof(warn));
	log_configure(warn, "");
	dup2(fileno(told), STDERR_FILENO);
	overflow(w);
	overflow(w);
	_exit(0);
}

static void overflow_is_told_once(void **state)
{
	FILE *told = tmpfile();
	char line[512], name[32];
	pid_t child = fork();
	int status;

	assert_non_null(told);
	if (!child)
		overflow_twice(told);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rewind(told);
	snprintf(name, sizeof(name), "UDP port %u", port);
	assert_non_null(fgets(line, sizeof(line), told));
	assert_non_null(strstr(line, name));
	assert_non_null(strstr(line, "net.core.rmem_max"));
	assert_null(fgets(line, sizeof(line), told));
	fclose(told);
}

static void overflow_is_counted(void **state)
{
	struct wire *w = open_wire();
	uint64_t lost = overflow(w);

	assert_int_equal(w->stats.recv_overflow, lost);
	wire_close(w);
}

/* What the packets that wait occupy of the buffer, in percent. */
static unsigned int filled(int fd)
{
	uint32_t info[9];	/* of SO_MEMINFO: occupied, size of the receive buffer, ... */
	socklen_t len = sizeof(info);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len), 0);
	return 100ull * info[0] / info[1];
}

/* Where packets fill most of the buffer, those that may be marked say so; not those that may not, and not when few are waiting. */
static void a_crowded_buffer_marks(void **state)
{
	static const struct {
		uint8_t traffic_class;
		unsigned int percent;
		bool marks;
	} rows[] = { { 0x6a, 40, false }, { 0x6a, 76, true }, { 0x6a, 40, false }, { 0x68, 76, false } };
	struct wire *w = open_wire();
	static uint8_t data[9000];
	struct wire_pkt out = { .path = path_v4(), .data = data, .len = sizeof(data) }, in[WIRE_BURST];
	int fds[WIRE_FDS], size = 200000;
	uint64_t marked = 0;

	wire_fds(w, fds);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int n = 0;

		out.path.traffic_class = rows[i].traffic_class;
		for (; filled(fds[0]) < rows[i].percent && n < WIRE_BURST; n++)
			assert_int_equal(wire_send(w, &out, 1), 1);
		assert_int_equal(receive(w, in, n), n);
		for (unsigned int k = 0; k < n; k++)
			assert_int_equal(in[k].path.traffic_class, rows[i].traffic_class | (rows[i].marks ? 3 : 0));
		marked += rows[i].marks ? n : 0;
		assert_int_equal(w->stats.recv_marked, marked);
	}
	assert_int_equal(w->stats.recv_overflow, 0);
	wire_close(w);
}

/* An ICMP message does no harm to other packets, is taken off the socket, and is remembered. */
static void icmp_errors_are_remembered(void **state)
{
	struct wire *w = open_wire();
	struct wire_pkt out[2], in;
	struct net_addr nobody = addr("::ffff:127.0.0.2");
	uint8_t data[16] = { 42 };
	int fds[WIRE_FDS];
	struct pollfd p;

	/* 127.0.0.2 is this host, but another port is nobody's. */
	for (int i = 0; i < 2; i++)
		out[i] = (struct wire_pkt){ .path = path_v4(), .data = data, .len = sizeof(data) };
	out[0].path.dst = nobody;
	w->port++;
	assert_int_equal(wire_send(w, out, 1), 1);
	w->port--;
	assert_int_equal(wire_send(w, out + 1, 1), 1);
	assert_int_equal(receive(w, &in, 1), 1);
	wire_fds(w, fds);
	wire_readable(w, fds[0]);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(trouble_about(&w->trouble, &nobody, 0), ECONNREFUSED);
	assert_int_equal(w->stats.recv_errors, 1);
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	wire_close(w);
}

static void truncated_packets_are_dropped(void **state)
{
	struct wire *w = open_wire();
	static uint8_t data[WIRE_MAX_PACKET + 1];
	struct wire_pkt out = { .path = path_v4(), .data = data, .len = sizeof(data) }, in;

	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(w->stats.recv_truncated, 1);
	wire_close(w);
}

static void a_port_that_is_not_shared_is_a_distinct_error(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct wire *w;

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(udp_open(port, &w), EADDRINUSE);
	close(fd);
	w = open_wire();
	wire_close(w);
}

static void multicast_reaches_who_joined(void **state)
{
	struct wire *a = open_wire(), *b = open_wire();
	uint32_t lo = if_nametoindex("lo");
	struct wire_pkt in, out = {
		.path = { .src = addr("::ffff:127.0.0.1"), .dst = addr("::ffff:239.1.2.3"),
			  .ifindex = lo, .hop_limit = 1 },
		.data = (uint8_t[16]){ 1 },
		.len = 16,
	};
	const struct net_addr unicast = addr("::1");

	assert_int_equal(wire_join(b, &unicast, lo), EINVAL);
	assert_int_equal(wire_join(b, &out.path.dst, lo), 0);
	assert_int_equal(wire_send(a, &out, 1), 1);
	assert_int_equal(receive(b, &in, 1), 1);
	assert_memory_equal(&in.path.dst, &out.path.dst, 16);
	assert_int_equal(wire_recv(a, &in, 1), 0);
	assert_int_equal(wire_leave(b, &out.path.dst, lo), 0);
	assert_int_equal(wire_send(a, &out, 1), 1);
	assert_int_equal(wire_recv(b, &in, 1), 0);
	wire_close(a);
	wire_close(b);
}

/* Others talk on loopback, too, and would fill the buffer of whoever listens to all of it. */
static void only_to_port(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = { .len = 4, .filter = code };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
}

/* What the ICRC relies on: identification 0 and DF; and a checksum, without which the kernel merges nothing. */
static void ip_header_is_what_the_icrc_needs(void **state)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
	struct wire *w = open_wire();
	uint8_t data[64] = { 1 }, ip[2048];
	struct wire_pkt out[3];
	unsigned int i, seen = 0;

	if (fd < 0) {
		wire_close(w);
		print_message("no packet socket: %s\n", strerror(errno));
		skip();
	}
	only_to_port(fd);
	ll.sll_ifindex = (int)if_nametoindex("lo");
	assert_int_equal(bind(fd, (struct sockaddr *)&ll, sizeof(ll)), 0);
	for (i = 0; i < 3; i++)
		out[i] = (struct wire_pkt){ .path = path_v4(), .data = data, .len = sizeof(data) };
	assert_int_equal(wire_send(w, out, 3), 3);
	while (seen < 3) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		assert_true(recv(fd, ip, sizeof(ip), 0) > 0);
		/* A packet to another port of ours in the test before, or one that is no UDP. */
		if (ip[9] != 17 || get_be16(ip + 22) != port || ip[1] != 0x6a)
			continue;
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(get_be16(ip + 4), 0);
		assert_int_equal(get_be16(ip + 6), 0x4000);
		assert_int_equal(ip[8], 33);
		assert_int_equal(get_be16(ip + 20), port);
		assert_int_not_equal(get_be16(ip + 26), 0);
		seen++;
	}
	close(fd);
	wire_close(w);
}

/* Processes that share the port, as core drives them. */
enum { MEMBERS = 5 };

struct member {
	struct host *host;
	struct wire *wire;
	uint32_t qpn;
};

static void refresh(struct member *m)
{
	struct net_steer map[64];

	assert_int_equal(udp_steer(m->wire, map, host_steer_map(m->host, map, ARRAY_SIZE(map))), 0);
}

static void find_position(struct member *m)
{
	struct host_steer steer = { 0 };
	int32_t *position = steer.at[0];

	refresh(m);
	udp_probe(m->wire, MEMBERS + 3);
	assert_int_equal(drain(m->wire), 0);
	udp_position(m->wire, position);
	assert_true(position[0] >= 0 && position[0] < MEMBERS);
	assert_true(!m->wire->ipv6 || (position[1] >= 0 && position[1] < MEMBERS));
	host_publish_wire(m->host, m->wire->port, &steer);
	refresh(m);
}

static void member_up(struct member *m, const char *dir)
{
	assert_int_equal(host_join(dir, &m->host), 0);
	m->wire = open_wire();
	assert_int_equal(host_qpn_alloc(m->host, 0, &m->qpn), 0);
	find_position(m);
}

static void member_down(struct member *m)
{
	wire_close(m->wire);
	host_leave(m->host);
	m->wire = NULL;
}

/*
 * How many packets to `to`, sent by `from`, arrive there directly; the rest is taken from whoever
 * got it.
 */
static unsigned int arrive_directly_of(struct member *m, unsigned int n, struct member *from, struct member *to)
{
	uint8_t data[32] = { 4, 0x40 };
	struct wire_pkt out = { .data = data, .len = sizeof(data) };
	unsigned int i, direct = 0, total = 0;

	put_be24(data + 5, to->qpn);
	for (i = 0; i < 8; i++) {
		out.path = i % 2 && from->wire->ipv6 ? path_v6() : path_v4();
		out.path.flow_label = 0;
		assert_int_equal(wire_send(from->wire, &out, 1), 1);
	}
	direct = drain(to->wire);
	for (i = 0; i < n; i++)
		if (m[i].wire)
			total += drain(m[i].wire);
	assert_int_equal(direct + total, 8);
	return direct;
}

static unsigned int arrive_directly(struct member *m, struct member *from, struct member *to)
{
	return arrive_directly_of(m, MEMBERS, from, to);
}

static void steering_finds_the_owner_and_survives_departures(void **state)
{
	struct member m[MEMBERS] = { { NULL } };
	unsigned int i, j;
	char dir[64];

	place_make_dir(dir);
	for (i = 0; i < MEMBERS; i++)
		member_up(&m[i], dir);
	for (i = 0; i < MEMBERS; i++)
		for (j = 0; j < MEMBERS; j++)
			assert_int_equal(arrive_directly(m, &m[i], &m[j]), 8);

	/* The last socket moves into the gap: nothing is lost, and a refresh repairs it. */
	member_down(&m[1]);
	for (j = 0; j < MEMBERS; j++)
		if (m[j].wire)
			arrive_directly(m, &m[0], &m[j]);
	find_position(&m[MEMBERS - 1]);
	for (j = 0; j < MEMBERS; j++)
		if (m[j].wire)
			assert_int_equal(arrive_directly(m, &m[0], &m[j]), 8);

	member_up(&m[1], dir);
	for (j = 0; j < MEMBERS; j++)
		assert_int_equal(arrive_directly(m, &m[2], &m[j]), 8);
	for (i = 0; i < MEMBERS; i++)
		member_down(&m[i]);
	place_remove_dir(dir);
}

/* A process with two wires: each gets what is for its shard, and the one that is closed leaves nothing unreachable. */
static void shards_have_wires_of_their_own(void **state)
{
	struct member m[2] = { { NULL } }, shard = { NULL };
	struct host_steer steer;
	char dir[64];

	place_make_dir(dir);
	member_up(&m[0], dir);
	member_up(&m[1], dir);
	shard.host = m[0].host;
	shard.wire = open_wire();
	assert_int_equal(host_qpn_alloc(shard.host, 3, &shard.qpn), 0);
	refresh(&m[0]);
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 0);	/* nobody has said where: to the first wire */

	memset(&steer, 0xff, sizeof(steer));
	udp_probe(m[0].wire, MEMBERS);
	udp_probe(shard.wire, MEMBERS);
	assert_int_equal(drain(m[0].wire) + drain(shard.wire), 0);
	udp_position(m[0].wire, steer.at[0]);
	udp_position(shard.wire, steer.at[3]);
	assert_int_not_equal(steer.at[0][0], steer.at[3][0]);
	host_publish_wire(m[0].host, m[0].wire->port, &steer);
	refresh(&m[1]);
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 8);
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &m[0]), 8);
	assert_int_equal(arrive_directly_of(m, 2, &m[0], &m[1]), 8);

	wire_close(shard.wire);
	steer.at[3][0] = steer.at[3][1] = -1;
	host_publish_wire(m[0].host, m[0].wire->port, &steer);
	refresh(&m[1]);
	shard.wire = m[0].wire;
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 8);
	member_down(&m[0]);
	member_down(&m[1]);
	place_remove_dir(dir);
}

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

/* A token bucket smaller than the run makes the kernel cut it before it leaves. */
static void in_netns_that_cuts_runs(void)
{
	static uint8_t data[RUN * 1000], ip[2048];
	struct wire_pkt out[RUN], in;
	unsigned int i;
	struct wire *w;
	int fd;

	if (!place_enter_netns() || system("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev lo root tbf "
					   "rate 10gbit burst 2000b latency 1s") != 0)
		_exit(77);
	fd = packet_socket();
	must(!udp_open(port, &w), "udp_open");
	make_run(out, data, 1000, path_v4());
	must(wire_send(w, out, RUN) == RUN, "send");
	for (i = 0; i < RUN; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		must(poll(&p, 1, PATIENCE_MS) == 1 && recv(fd, ip, sizeof(ip), 0) > 0, "no packet seen");
		must(get_be16(ip + 4) == i, "identification");
		must(get_be16(ip + 6) == 0x4000, "DF");
		must(get_be16(ip + 24) == 8 + out[i].len, "UDP length");
		must(get_be16(ip + 26) != 0, "UDP checksum");
	}
	for (i = 0; i < RUN; i++)
		must(receive(w, &in, 1) == 1 && in.len == out[i].len, "receive");
	_exit(0);
}

/* The interface is smaller than the packets: the run is given back, its packets are lost alone. */
static void in_netns_of_small_mtu(void)
{
	static uint8_t data[RUN * 1000];
	struct wire_pkt out[RUN];
	unsigned int i, done = 0, given_back = 0;
	struct wire *w;

	if (!place_enter_netns() || system("PATH=$PATH:/usr/sbin:/sbin ip link set lo mtu 700") != 0)
		_exit(77);
	must(!udp_open(port, &w), "udp_open");
	make_run(out, data, 1000, path_v4());
	while (done < RUN && given_back < 3) {
		done += wire_send(w, out + done, RUN - done);
		if (done == RUN)
			break;
		must(out[done].alone && done == 0, "why it was given back");
		given_back++;
		for (i = 0; i < RUN; i++)
			out[i].ip_id = 0;
	}
	must(given_back == 1 && done == RUN, "how often it was given back");
	must(w->stats.send_too_long == RUN - 1 && w->stats.sent == 1, "what was lost");
	must(w->runs, "runs are over for all");
	_exit(0);
}

/* ENOBUFS: what the interface's queue has no room for is lost, as at a router; nobody waits for it, and later packets leave. */
static void in_netns_of_short_queue(void)
{
	enum { PACKETS = 20 };
	static uint8_t data[1000];
	struct wire_pkt out[PACKETS];
	struct wire *w;

	if (!place_enter_netns() ||
	    system("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev lo root tbf rate 8kbit burst 2500 limit 2500") != 0)
		_exit(77);
	must(!udp_open(port, &w), "udp_open");
	for (unsigned int i = 0; i < PACKETS; i++)
		out[i] = (struct wire_pkt){ .path = path_v4(), .data = data, .len = sizeof(data) };
	for (unsigned int i = 0; i < PACKETS; i++)
		must(wire_send(w, &out[i], 1) == 1, "a packet that is lost is dealt with");
	must(w->stats.send_full > 0 && w->stats.sent > 0, "some have left and some found the queue full");
	must(w->stats.send_full + w->stats.sent == PACKETS, "each is counted once");
	must(w->stats.send_refused == 0, "it is no refusal");
	must(system("PATH=$PATH:/usr/sbin:/sbin tc qdisc del dev lo root") == 0, "tc");
	must(wire_send(w, &out[0], 1) == 1, "the next packet");
	must(w->stats.send_full + w->stats.sent == PACKETS + 1, "the next packet has left");
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
		skip();
	assert_int_equal(status, 0);
}

static void a_run_is_cut_into_packets_of_rising_identification(void **state)
{
	in_netns(in_netns_that_cuts_runs);
}

static void a_run_above_the_mtu_is_given_back(void **state)
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
	if (udp_open(port, &w) || !w->ipv4)
		_exit(1);
	wire_close(w);
	_exit(0);
}

static void disabled_ipv6_leaves_ipv4(void **state)
{
	in_netns(in_netns_without_ipv6);
}

static int new_port(void **state)
{
	port = place_free_port();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ipv4_path_arrives_as_sent, new_port),
		cmocka_unit_test_setup(ipv6_path_arrives_as_sent, new_port),
		cmocka_unit_test_setup(bursts_of_both_families_keep_their_order, new_port),
		cmocka_unit_test_setup(runs_travel_as_one_message, new_port),
		cmocka_unit_test_setup(a_run_is_cut_into_packets_of_rising_identification, new_port),
		cmocka_unit_test_setup(a_run_above_the_mtu_is_given_back, new_port),
		cmocka_unit_test_setup(what_cannot_be_sent_is_lost_and_counted, new_port),
		cmocka_unit_test_setup(overflow_is_told_once, new_port),
		cmocka_unit_test_setup(overflow_is_counted, new_port),
		cmocka_unit_test_setup(a_crowded_buffer_marks, new_port),
		cmocka_unit_test_setup(a_full_interface_queue_loses_packets, new_port),
		cmocka_unit_test_setup(icmp_errors_are_remembered, new_port),
		cmocka_unit_test_setup(truncated_packets_are_dropped, new_port),
		cmocka_unit_test_setup(a_port_that_is_not_shared_is_a_distinct_error, new_port),
		cmocka_unit_test_setup(multicast_reaches_who_joined, new_port),
		cmocka_unit_test_setup(ip_header_is_what_the_icrc_needs, new_port),
		cmocka_unit_test_setup(steering_finds_the_owner_and_survives_departures, new_port),
		cmocka_unit_test_setup(shards_have_wires_of_their_own, new_port),
		cmocka_unit_test_setup(disabled_ipv6_leaves_ipv4, new_port),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
