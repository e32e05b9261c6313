/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP wire over loopback: packets arrive along the given path; those that cannot be sent are
 * lost and counted.
 */
#include "left_out.h"
#include "udp_env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/log.h"
#include "util/be.h"
#include "util/compiler.h"

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
		assert_int_equal(env_receive(w, &in, 1), 1);
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

/* Some packets use the socket's traffic class, others before and after them do not. */
static void check_traffic_classes(struct wire *w, struct net_path path)
{
	static const uint8_t classes[] = { 0, 2, 0x6a, 2, 1, 0, 3 };

	check_round_trip(w, path);
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		path.traffic_class = classes[i];
		check_round_trip(w, path);
	}
}

static void ipv4_path_arrives_as_sent(void **state)
{
	struct wire *w = env_open();

	check_traffic_classes(w, env_path_v4());
	wire_close(w);
}

static void ipv6_path_arrives_as_sent(void **state)
{
	struct wire *w = env_open();

	if (!w->ipv6) {
		wire_close(w);
		LEAVE_OUT("no IPv6 on this host");
	}
	check_traffic_classes(w, env_path_v6());
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
	struct wire *w = env_open();
	struct wire_pkt out[WIRE_BURST], in[WIRE_BURST];
	uint8_t data[WIRE_BURST][64] = { { 0 } };
	unsigned int i, next[2] = { 0, 1 }, total = 0;

	for (i = 0; i < WIRE_BURST; i++) {
		data[i][0] = (uint8_t)i;
		out[i] = (struct wire_pkt){
			.path = i % 2 && w->ipv6 ? env_path_v6() : env_path_v4(),
			.data = data[i],
			.len = sizeof(data[i]),
		};
	}
	assert_int_equal(wire_send(w, out, WIRE_BURST), WIRE_BURST);
	while (total < WIRE_BURST) {
		unsigned int n = env_receive(w, in, 1);

		assert_int_equal(n, 1);
		check_order(w, out, in, n, next);
		total += n;
	}
	assert_int_equal(w->stats.sent, WIRE_BURST);
	assert_int_equal(w->stats.received, WIRE_BURST);
	wire_close(w);
}

/* Receives until no packet comes. Returns how many of IPv4 there were. */
static unsigned int drain_ipv4(struct wire *w, int fd)
{
	unsigned int ipv4 = 0;
	struct wire_pkt in;

	wire_look(w, fd, false);
	while (wire_recv(w, &in, 1))
		ipv4 += net_is_ipv4(&in.path.src);
	return ipv4;
}

/* The turns of the other family do not come in between. */
static void a_socket_that_is_looked_at_is_emptied(void **state)
{
	struct wire *w = env_open();
	uint8_t data[16] = { 42 };
	int fds[WIRE_FDS];

	if (wire_fds(w, fds) < 2) {
		wire_close(w);
		LEAVE_OUT("no IPv6 on this host");
	}
	for (int i = 0; i < 32; i++) {
		struct wire_pkt out[] = {
			{ .path = env_path_v4(), .data = data, .len = sizeof(data) },
			{ .path = env_path_v6(), .data = data, .len = sizeof(data) },
		};
		struct pollfd p = { .fd = fds[0], .events = POLLIN };

		assert_int_equal(wire_send(w, out, 2), 2);
		assert_int_equal(poll(&p, 1, -1), 1);
		assert_int_equal(drain_ipv4(w, fds[0]), 1);
		/* Then the turns come with other reads. */
		if (i == 16)
			assert_int_equal(drain_ipv4(w, fds[0]), 0);
	}
	wire_close(w);
}

static void check_run_arrives(struct wire *w, struct net_path path)
{
	static uint8_t data[ENV_RUN * 3000];
	const uint32_t lens[] = { 24, 1040, 3000 };
	struct wire_pkt out[ENV_RUN], in[3];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		unsigned int k = 0;

		env_make_run(out, data, lens[i], path);
		assert_int_equal(wire_send(w, out, ENV_RUN), ENV_RUN);
		while (k < ENV_RUN) {
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

/* The kernel merges packets from the second burst on. */
static void check_first_run(struct wire *w, struct net_path path)
{
	static uint8_t data[ENV_RUN * 24];
	struct wire_pkt out[ENV_RUN], in[ENV_RUN];
	uint64_t runs = w->stats.recv_runs;

	env_make_run(out, data, 24, path);
	assert_int_equal(wire_send(w, out, ENV_RUN), ENV_RUN);
	assert_int_equal(env_receive(w, in, ENV_RUN), ENV_RUN);
	assert_int_equal(w->stats.recv_runs, runs);
}

static void runs_travel_as_one_message(void **state)
{
	struct wire *w = env_open();

	if (!w->runs) {
		wire_close(w);
		LEAVE_OUT("this kernel has no UDP_SEGMENT");
	}
	check_first_run(w, env_path_v4());
	w->stats.send_runs = 0;
	check_run_arrives(w, env_path_v4());
	assert_int_equal(w->stats.send_runs, 3);
	assert_int_equal(w->stats.recv_runs, 3);
	if (w->ipv6) {
		check_first_run(w, env_path_v6());
		check_run_arrives(w, env_path_v6());
	}
	wire_close(w);
}

static void unsendable_packets_are_lost_and_counted(void **state)
{
	struct wire *w = env_open();
	static uint8_t data[70000];
	struct wire_pkt out[4], in;
	unsigned int i;

	for (i = 0; i < 4; i++)
		out[i] = (struct wire_pkt){ .path = env_path_v4(), .data = data, .len = 16 };
	/* not a local address; too long; an impossible destination */
	out[0].path.src = env_addr("::ffff:192.0.2.99");
	out[1].len = sizeof(data);
	out[2].path.dst = env_addr("::ffff:0.0.0.0");
	out[2].path.src = env_addr("::ffff:203.0.113.1");
	out[3].data = (uint8_t[16]){ 42 };
	assert_int_equal(wire_send(w, out, 4), 4);
	assert_int_equal(env_receive(w, &in, 1), 1);
	assert_int_equal(in.data[0], 42);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(w->stats.sent, 1);
	assert_int_equal(w->stats.send_too_long, 1);
	assert_int_equal(w->stats.send_refused, 2);
	wire_close(w);
}

/*
 * No packet is read: the kernel drops those that do not fit, and the next packet carries their
 * number. Returns it.
 */
static uint64_t overflow(struct wire *w)
{
	static uint8_t data[8192];
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) },
			in[WIRE_BURST];
	uint64_t sent = 0, got = 0;
	unsigned int n;

	while (sent < (64 << 20) / sizeof(data))
		sent += wire_send(w, &out, 1);
	while ((n = wire_recv(w, in, WIRE_BURST)))
		got += n;
	assert_true(got > 0 && got < sent);
	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(env_receive(w, in, 1), 1);
	return sent - got;
}

/* Runs in a child, because a process logs it once. Writes the log to a file. */
static void overflow_twice(FILE *log)
{
	uint8_t warn[LOG_MODULES];
	struct wire *w = env_open();

	memset(warn, LOG_WARN, sizeof(warn));
	log_configure(warn, "");
	dup2(fileno(log), STDERR_FILENO);
	overflow(w);
	overflow(w);
	_exit(0);
}

static void overflow_is_logged_once(void **state)
{
	FILE *log = tmpfile();
	char line[512], name[32];
	pid_t child = fork();
	int status;

	assert_non_null(log);
	if (!child)
		overflow_twice(log);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rewind(log);
	snprintf(name, sizeof(name), "UDP port %u", env_port);
	assert_non_null(fgets(line, sizeof(line), log));
	assert_non_null(strstr(line, name));
	assert_non_null(strstr(line, "net.core.rmem_max"));
	assert_non_null(strstr(line, "UdpInCsumErrors"));	/* the kernel counts both as one */
	assert_null(fgets(line, sizeof(line), log));
	fclose(log);
}

static void overflow_is_counted(void **state)
{
	struct wire *w = env_open();
	uint64_t lost = overflow(w);

	assert_int_equal(w->stats.recv_overflow, lost);
	wire_close(w);
}

static unsigned int levels_read;

/* In place of the C library's: counts how often the fill level of a buffer is read. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	levels_read += level == SOL_SOCKET && name == SO_MEMINFO;
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

/* Returns the percentage of the buffer that queued packets occupy. */
static unsigned int filled(int fd)
{
	uint32_t info[9];	/* of SO_MEMINFO: occupied, size of the receive buffer, ... */
	socklen_t len = sizeof(info);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len), 0);
	return 100ull * info[0] / info[1];
}

static void set_small_buffer(struct wire *w)
{
	int fds[WIRE_FDS], size = 200000;

	wire_fds(w, fds);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
}

/*
 * If packets fill most of the buffer, ECN-capable ones are marked; others are not, and none while
 * few are queued.
 */
static void a_full_buffer_marks(void **state)
{
	static const struct {
		uint8_t traffic_class;
		unsigned int percent;
		bool marks;
	} rows[] = {
		{ 0x6a, 40, false }, { 0x6a, 76, true }, { 0x6a, 40, false }, { 0x68, 76, false },
		{ 0x6a, 76, true },
	};
	struct wire *w = env_open();
	static uint8_t data[9000];
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) },
			in[WIRE_BURST];
	int fds[WIRE_FDS];
	uint64_t marked = 0;

	wire_fds(w, fds);
	set_small_buffer(w);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int n = 0;

		out.path.traffic_class = rows[i].traffic_class;
		for (; filled(fds[0]) < rows[i].percent && n < WIRE_BURST; n++)
			assert_int_equal(wire_send(w, &out, 1), 1);
		assert_int_equal(env_receive(w, in, n), n);
		for (unsigned int k = 0; k < n; k++)
			assert_int_equal(in[k].path.traffic_class,
					 rows[i].traffic_class | (rows[i].marks ? 3 : 0));
		marked += rows[i].marks ? n : 0;
		assert_int_equal(w->stats.recv_marked, marked);
	}
	assert_int_equal(w->stats.recv_overflow, 0);
	wire_close(w);
}

/*
 * Short packets of which one call takes only a small part: all that are left in a nearly full
 * buffer are marked.
 */
static void a_backlog_marks(void **state)
{
	struct wire *w = env_open();
	static uint8_t data[1200];
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) },
			in[WIRE_BURST];
	unsigned int left = 0, n;
	bool first = true, nearly_full;
	int fds[WIRE_FDS];

	wire_fds(w, fds);
	set_small_buffer(w);
	for (; filled(fds[0]) < 95; left++)
		assert_int_equal(wire_send(w, &out, 1), 1);
	for (; left; left -= n, first = false) {
		nearly_full = !first && filled(fds[0]) > 75;
		n = wire_recv(w, in, WIRE_BURST);
		assert_true(n > 0 && n <= left);
		for (unsigned int k = 0; k < n; k++)
			assert_int_equal(in[k].path.traffic_class, nearly_full ? 0x6b : 0x6a);
	}
	assert_true(w->stats.recv_marked > 0);
	wire_close(w);
}

/*
 * A stream that the receiver keeps up with costs no system call for the level of the buffer, but
 * the first of each socket, which learns its size.
 */
static void the_level_of_a_quiet_buffer_is_not_read(void **state)
{
	enum { BURSTS = 20, BURST = 5 };
	struct wire *w = env_open();
	static uint8_t data[9000];
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) },
			in[BURST];

	levels_read = 0;
	for (unsigned int i = 0; i < BURSTS; i++) {
		for (unsigned int k = 0; k < BURST; k++)
			assert_int_equal(wire_send(w, &out, 1), 1);
		assert_int_equal(env_receive(w, in, BURST), BURST);
	}
	assert_true(levels_read <= WIRE_FDS);
	wire_close(w);
}

/* An ICMP error does not affect other packets, is read from the socket, and is recorded. */
static void icmp_errors_are_recorded(void **state)
{
	struct wire *w = env_open();
	struct wire_pkt out[2], in;
	struct net_addr closed = env_addr("::ffff:127.0.0.2");
	uint8_t data[16] = { 42 };
	int fds[WIRE_FDS];
	struct pollfd p;

	/* 127.0.0.2 is this host, but the port is not bound. */
	for (int i = 0; i < 2; i++)
		out[i] = (struct wire_pkt){ .path = env_path_v4(),
					    .data = data,
					    .len = sizeof(data) };
	out[0].path.dst = closed;
	w->port++;
	assert_int_equal(wire_send(w, out, 1), 1);
	w->port--;
	assert_int_equal(wire_send(w, out + 1, 1), 1);
	assert_int_equal(env_receive(w, &in, 1), 1);
	wire_fds(w, fds);
	wire_look(w, fds[0], true);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(path_errors_latest(w->path_errors, &closed, 0), ECONNREFUSED);
	assert_int_equal(w->stats.recv_errors, 1);
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	wire_close(w);
}

/*
 * The kernel delivers the ICMP error to any socket of the port, by its hash: a process with several
 * sockets still records it.
 */
static void icmp_errors_of_any_socket_are_recorded(void **state)
{
	enum { WIRES = 4 };
	uint8_t data[16] = { 42 };
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) }, in;
	uint64_t elsewhere = 0;
	struct wire *w[WIRES];

	w[0] = env_open();
	for (unsigned int i = 1; i < WIRES; i++)
		assert_int_equal(udp_open_beside(w[0], &w[i]), 0);
	out.path.dst = env_addr("::ffff:127.0.0.2");
	w[0]->port++;
	for (unsigned int i = 0; i < PATH_ERRORS; i++, out.path.dst.raw[15]++)
		assert_int_equal(wire_send(w[0], &out, 1), 1);
	w[0]->port--;
	for (unsigned int i = 0; i < WIRES; i++) {
		wire_look(w[i], -1, true);
		assert_int_equal(wire_recv(w[i], &in, 1), 0);
		elsewhere += i ? w[i]->stats.recv_errors : 0;
	}
	assert_true(elsewhere > 0);
	for (unsigned int i = 0; i < PATH_ERRORS; i++) {
		out.path.dst.raw[15]--;
		assert_int_equal(path_errors_latest(w[0]->path_errors, &out.path.dst, 0),
				 ECONNREFUSED);
	}
	for (unsigned int i = WIRES; i; i--)
		wire_close(w[i - 1]);
}

static void truncated_packets_are_dropped(void **state)
{
	struct wire *w = env_open();
	static uint8_t data[WIRE_MAX_PACKET + 1];
	struct wire_pkt out = { .path = env_path_v4(), .data = data, .len = sizeof(data) }, in;

	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(wire_recv(w, &in, 1), 0);
	assert_int_equal(w->stats.recv_truncated, 1);
	wire_close(w);
}

static void a_port_that_is_not_shared_is_a_distinct_error(void **state)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(env_port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct wire *w;

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(udp_open(env_port, ENV_GROUP, &w), EADDRINUSE);
	close(fd);
	w = env_open();
	wire_close(w);
}

/* Wires of the same group share the port; others, and wires without a group, do not. */
static void a_port_is_shared_within_one_group(void **state)
{
	static const struct {
		uint64_t first, second;
		int err;
	} rows[] = {
		{ ENV_GROUP, ENV_GROUP, 0 },
		{ ENV_GROUP, ENV_GROUP + 1, EADDRINUSE },
		{ ENV_GROUP, 0, EADDRINUSE },
		{ 0, ENV_GROUP, EADDRINUSE },
		{ 0, 0, EADDRINUSE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire *a, *b;

		assert_int_equal(udp_open(env_port, rows[i].first, &a), 0);
		assert_int_equal(udp_open(env_port, rows[i].second, &b), rows[i].err);
		wire_close(a);
		if (rows[i].err)
			assert_int_equal(udp_open(env_port, rows[i].second, &b), 0);
		wire_close(b);
	}
}

static void multicast_reaches_members(void **state)
{
	struct wire *a = env_open(), *b = env_open();
	uint32_t lo = if_nametoindex("lo");
	struct wire_pkt in, out = {
		.path = { .src = env_addr("::ffff:127.0.0.1"), .dst = env_addr("::ffff:239.1.2.3"),
			  .ifindex = lo, .hop_limit = 1 },
		.data = (uint8_t[16]){ 1 },
		.len = 16,
	};
	const struct net_addr unicast = env_addr("::1");

	assert_int_equal(wire_join(b, &unicast, lo), EINVAL);
	assert_int_equal(wire_join(b, &out.path.dst, lo), 0);
	assert_int_equal(wire_send(a, &out, 1), 1);
	assert_int_equal(env_receive(b, &in, 1), 1);
	assert_memory_equal(&in.path.dst, &out.path.dst, 16);
	assert_int_equal(wire_recv(a, &in, 1), 0);
	assert_int_equal(wire_leave(b, &out.path.dst, lo), 0);
	assert_int_equal(wire_send(a, &out, 1), 1);
	assert_int_equal(wire_recv(b, &in, 1), 0);
	wire_close(a);
	wire_close(b);
}

/* More groups than a socket may join, whether or not other processes may use the port. */
static void many_groups(void **state)
{
	enum { GROUPS = 100, GONE = 7 };
	static const uint64_t sharing[] = { 0, ENV_GROUP };
	uint32_t lo = if_nametoindex("lo");

	for (unsigned int i = 0; i < ARRAY_SIZE(sharing); i++) {
		struct wire *w;
		struct wire_pkt in, out = {
			.path = { .src = env_addr("::ffff:127.0.0.1"),
				  .dst = env_addr("::ffff:239.1.2.0"), .ifindex = lo,
				  .hop_limit = 1 },
			.data = (uint8_t[16]){ 1 },
			.len = 16,
		};
		uint8_t *last = &out.path.dst.raw[15];

		assert_int_equal(udp_open(env_port, sharing[i], &w), 0);
		for (*last = 0; *last < GROUPS; ++*last)
			assert_int_equal(wire_join(w, &out.path.dst, lo), 0);
		for (*last = 0; *last < GROUPS; ++*last) {
			assert_int_equal(wire_send(w, &out, 1), 1);
			assert_int_equal(env_receive(w, &in, 1), 1);
			assert_memory_equal(&in.path.dst, &out.path.dst, 16);
		}
		for (*last = 0; *last < GROUPS; *last += GONE)
			assert_int_equal(wire_leave(w, &out.path.dst, lo), 0);
		for (*last = 0; *last < GROUPS; ++*last) {
			assert_int_equal(wire_send(w, &out, 1), 1);
			assert_int_equal(*last % GONE ? env_receive(w, &in, 1) : env_drain(w),
					 *last % GONE ? 1 : 0);
		}
		wire_close(w);
	}
}

/* Other loopback traffic would fill the buffer of a socket that receives everything. */
static void only_to_port(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 22),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, env_port, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog filter = { .len = 4, .filter = code };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
}

/*
 * Properties that the ICRC relies on: identification 0 and DF; and a checksum, without which the
 * kernel does not merge packets.
 */
static void ip_header_fits_the_icrc(void **state)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	/* receives nothing before bind() */
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct wire *w = env_open();
	uint8_t data[64] = { 1 }, ip[2048];
	struct wire_pkt out[3];
	unsigned int i, seen = 0;

	if (fd < 0) {
		wire_close(w);
		LEAVE_OUT("no privilege for a packet socket");
	}
	only_to_port(fd);
	ll.sll_ifindex = (int)if_nametoindex("lo");
	assert_int_equal(bind(fd, (struct sockaddr *)&ll, sizeof(ll)), 0);
	for (i = 0; i < 3; i++)
		out[i] = (struct wire_pkt){ .path = env_path_v4(),
					    .data = data,
					    .len = sizeof(data) };
	assert_int_equal(wire_send(w, out, 3), 3);
	while (seen < 3) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		assert_int_equal(poll(&p, 1, ENV_LIMIT_MS), 1);
		assert_true(recv(fd, ip, sizeof(ip), 0) > 0);
		/* a packet of an earlier test to another port, or not UDP */
		if (ip[9] != 17 || get_be16(ip + 22) != env_port || ip[1] != 0x6a)
			continue;
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(get_be16(ip + 4), 0);
		assert_int_equal(get_be16(ip + 6), 0x4000);
		assert_int_equal(ip[8], 33);
		assert_int_equal(get_be16(ip + 20), env_port);
		assert_int_not_equal(get_be16(ip + 26), 0);
		seen++;
	}
	close(fd);
	wire_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ipv4_path_arrives_as_sent, env_new_port),
		cmocka_unit_test_setup(ipv6_path_arrives_as_sent, env_new_port),
		cmocka_unit_test_setup(bursts_of_both_families_keep_their_order, env_new_port),
		cmocka_unit_test_setup(a_socket_that_is_looked_at_is_emptied, env_new_port),
		cmocka_unit_test_setup(runs_travel_as_one_message, env_new_port),
		cmocka_unit_test_setup(unsendable_packets_are_lost_and_counted, env_new_port),
		cmocka_unit_test_setup(overflow_is_logged_once, env_new_port),
		cmocka_unit_test_setup(overflow_is_counted, env_new_port),
		cmocka_unit_test_setup(a_full_buffer_marks, env_new_port),
		cmocka_unit_test_setup(a_backlog_marks, env_new_port),
		cmocka_unit_test_setup(the_level_of_a_quiet_buffer_is_not_read, env_new_port),
		cmocka_unit_test_setup(icmp_errors_are_recorded, env_new_port),
		cmocka_unit_test_setup(icmp_errors_of_any_socket_are_recorded, env_new_port),
		cmocka_unit_test_setup(truncated_packets_are_dropped, env_new_port),
		cmocka_unit_test_setup(a_port_that_is_not_shared_is_a_distinct_error, env_new_port),
		cmocka_unit_test_setup(a_port_is_shared_within_one_group, env_new_port),
		cmocka_unit_test_setup(multicast_reaches_members, env_new_port),
		cmocka_unit_test_setup(many_groups, env_new_port),
		cmocka_unit_test_setup(ip_header_fits_the_icrc, env_new_port),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
