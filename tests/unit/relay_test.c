/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that do not hold the UDP port: numbers, relayed packets and requests, who may send
 * them, and what happens when the holder ends.
 */
#include "udp_env.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/relay.h"
#include "left_out.h"
#include "place.h"
#include "util/compiler.h"
#include "wire/claim.h"
#include "wire/relay.h"

enum { LEN = 300, OTHER_GROUP = ENV_GROUP + 1 };

/* Other tests of this network namespace take numbers, too. */
static struct wire *open_number(unsigned int *number)
{
	uint64_t seed = place_seed();
	struct wire *w;

	for (unsigned int i = 0; i < 64; i++) {
		*number = NET_RELAY_FIRST + (unsigned int)(place_next(&seed) % 512);
		if (!udp_open_relayed(env_port, *number, &w))
			return w;
	}
	fail_msg("no free number");
	return NULL;
}

static void fill(uint8_t *data)
{
	for (unsigned int i = 0; i < LEN; i++)
		data[i] = (uint8_t)(i * 7);
}

static void a_packet_arrives_with_its_path(void **state)
{
	const struct net_path paths[] = {
		{ .src = env_addr("::ffff:192.0.2.1"), .dst = env_addr("::ffff:192.0.2.9"),
		  .ifindex = 3, .src_port = 50000, .dst_port = 4791, .traffic_class = 0x2a,
		  .hop_limit = 61 },
		{ .src = env_addr("fe80::1"), .dst = env_addr("fe80::2"), .ifindex = 4,
		  .flow_label = 0xfedcb, .src_port = 1, .dst_port = 2, .hop_limit = 255 },
	};
	struct wire *holder = env_open(), *w;
	uint8_t data[LEN];
	unsigned int number;
	struct wire_pkt in;

	w = open_number(&number);
	fill(data);
	for (unsigned int i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_int_equal(relay_packet(holder, number, &paths[i], data, LEN, true), 0);
		assert_int_equal(env_receive(w, &in, 1), 1);
		assert_int_equal(in.len, LEN);
		assert_memory_equal(in.data, data, LEN);
		assert_memory_equal(&in.path, &paths[i], sizeof(in.path));
		assert_false(in.id_known);
	}
	assert_int_equal(relay_packet(holder, NET_RELAY_FIRST - 1, paths, data, LEN, true), ENOENT);
	assert_int_equal(relay_packet(w, number, paths, data, LEN, true), ENOENT);
	wire_close(w);
	wire_close(holder);
}

/* Takes a free number. Returns the length of what the holder sends to it. */
static int copy_relayed(struct wire *holder, unsigned int *number, uint8_t copy[LEN + 64])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct net_path path = env_path_v4();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), got;
	uint8_t data[LEN];

	wire_close(open_number(number));
	at.sin_port = htons(relay_port(*number));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	fill(data);
	assert_int_equal(relay_packet(holder, *number, &path, data, LEN, true), 0);
	got = (int)recv(fd, copy, LEN + 64, 0);
	assert_true(got > LEN);
	close(fd);
	return got;
}

static void only_a_holder_is_believed(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct net_path path = env_path_v4();
	struct wire *holder = env_open(), *w;
	uint8_t data[LEN], copy[LEN + 64];
	unsigned int number;
	struct wire_pkt in;
	int got, fd;

	fill(data);
	got = copy_relayed(holder, &number, copy);
	to.sin_port = htons(relay_port(number));
	assert_int_equal(udp_open_relayed(env_port, number, &w), 0);
	/* The same, but from another socket. */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(sendto(fd, copy, (size_t)got, 0, (struct sockaddr *)&to, sizeof(to)), got);
	assert_int_equal(env_drain(w), 0);
	/* A packet of the holder that is not relayed. */
	assert_int_equal(relay_packet(holder, number, &path, data, 0, true), 0);
	assert_int_equal(env_drain(w), 0);
	assert_int_equal(relay_packet(holder, number, &path, data, LEN, true), 0);
	assert_int_equal(env_receive(w, &in, 1), 1);
	close(fd);
	wire_close(w);
	wire_close(holder);
}

/* Without IPv6 nobody else can have it. */
static int bind_ipv6(uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		LEAVE_OUT("no IPv6");
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	return fd;
}

/*
 * A holder relays by IPv4. It has no IPv6 where another user has the port, who could send what a
 * holder sends.
 */
static void only_one_family_is_believed(void **state)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int other = bind_ipv6(env_port), got;
	uint8_t copy[LEN + 64];
	struct wire *holder, *w;
	unsigned int number;

	holder = env_open();
	assert_true(holder->ipv4 && !holder->ipv6);
	got = copy_relayed(holder, &number, copy);
	assert_int_equal(udp_open_relayed(env_port, number, &w), 0);
	to.sin6_port = htons(relay_port(number));
	assert_int_equal(sendto(other, copy, (size_t)got, 0, (struct sockaddr *)&to, sizeof(to)),
			 got);
	assert_int_equal(env_drain(w), 0);
	wire_close(w);
	wire_close(holder);
	close(other);
}

/* Of 127.0.0.0/8 others may come from a host nearby, where an interface has route_localnet. */
static void only_one_address_is_believed(void **state)
{
	static const struct {
		const char *src;
		bool ok;
	} rows[] = {
		{ "::ffff:127.0.0.1", true },
		{ "::ffff:127.0.0.2", false },
		{ "::1", false },
	};
	struct wire *holder = env_open(), *w;
	uint8_t copy[LEN + 64];
	unsigned int number;
	int got = copy_relayed(holder, &number, copy);

	assert_int_equal(udp_open_relayed(env_port, number, &w), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_pkt in = { .path = { .src = env_addr(rows[i].src),
						 .src_port = env_port },
				       .data = copy, .len = (uint32_t)got };

		assert_int_equal(relay_unwrap(w, &in), rows[i].ok);
	}
	wire_close(w);
	wire_close(holder);
}

/* A process that has ended does not count as one that has closed the RoCEv2 port. */
static void a_number_without_process_is_no_closed_port(void **state)
{
	struct wire *holder = env_open();
	struct net_path path = env_path_v4();
	const struct net_addr to = env_addr("::ffff:127.0.0.1");
	uint8_t data[LEN];
	unsigned int number;

	wire_close(open_number(&number));
	fill(data);
	assert_int_equal(relay_packet(holder, number, &path, data, LEN, false), 0);
	wire_look(holder, -1, true);
	assert_int_equal(env_drain(holder), 0);
	assert_int_equal(holder->stats.recv_errors, 1);
	assert_int_equal(path_errors_latest(holder->path_errors, &to, 0), 0);
	wire_close(holder);
}

static void it_sends_from_the_port_of_its_number(void **state)
{
	struct wire *holder = env_open(), *w, *again;
	struct wire_pkt in, out = { .path = env_path_v4(), .data = (uint8_t[16]){ 1 }, .len = 16 };
	unsigned int number;

	w = open_number(&number);
	assert_int_equal(wire_src_port(w), relay_port(number));
	assert_int_equal(wire_dst_port(w), env_port);
	assert_int_equal(udp_open_relayed(env_port, number, &again), EADDRINUSE);
	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(env_receive(holder, &in, 1), 1);
	assert_int_equal(in.path.src_port, relay_port(number));
	wire_close(w);
	wire_close(holder);
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

static void the_next_one_takes_the_port(void **state)
{
	struct wire *holder = env_open(), *w, *again;
	struct wire_pkt in, out = { .path = env_path_v4(), .data = (uint8_t[16]){ 1 }, .len = 16 };
	unsigned int number;
	uid_t user = (uid_t)-1;
	int claim;

	w = open_number(&number);
	assert_int_equal(claim_connect(env_port, ENV_GROUP, &user), -1);
	claim = claim_connect(env_port, OTHER_GROUP, &user);
	assert_true(claim >= 0);
	assert_int_equal(user, geteuid());
	assert_false(readable(claim));
	assert_int_equal(udp_take_port(w, OTHER_GROUP), EADDRINUSE);
	assert_true(w->relayed);
	wire_close(holder);
	assert_true(readable(claim));
	close(claim);

	assert_int_equal(udp_take_port(w, OTHER_GROUP), 0);
	assert_false(w->relayed);
	assert_int_equal(wire_src_port(w), env_port);
	assert_int_equal(wire_send(w, &out, 1), 1);
	assert_int_equal(env_receive(w, &in, 1), 1);
	assert_int_equal(in.path.src_port, env_port);
	/* Its QP numbers stay its own, and nobody reads what comes to the number's port. */
	assert_int_equal(relay_packet(w, number, &in.path, "0123", 4, false), ENOENT);
	assert_int_equal(udp_open_relayed(env_port, number, &again), EADDRINUSE);
	claim = claim_connect(env_port, ENV_GROUP, &user);
	assert_true(claim >= 0);
	close(claim);
	wire_close(w);
	assert_int_equal(udp_open_relayed(env_port, number, &again), 0);
	wire_close(again);
}

/* Another has the port for IPv6. A thread that sleeps on the descriptors still may. */
static void the_port_is_taken_for_one_family(void **state)
{
	int fds[WIRE_FDS], other = bind_ipv6(env_port);
	struct wire *w;
	unsigned int number, n;

	w = open_number(&number);
	n = wire_fds(w, fds);
	assert_int_equal(n, 2);
	assert_int_equal(udp_take_port(w, ENV_GROUP), 0);
	assert_true(w->ipv4 && !w->ipv6);
	for (unsigned int i = 0; i < n; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLIN };

		assert_int_equal(poll(&p, 1, 0), 0);
	}
	assert_int_equal(wire_fds(w, fds), 1);
	wire_close(w);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
	close(other);
}

/* So it has both families, as the port has later. */
static void a_number_is_free_for_both_families(void **state)
{
	struct wire *w;
	unsigned int number;
	int other;

	wire_close(open_number(&number));
	other = bind_ipv6(relay_port(number));
	assert_int_equal(udp_open_relayed(env_port, number, &w), EADDRINUSE);
	close(other);
	assert_int_equal(udp_open_relayed(env_port, number, &w), 0);
	wire_close(w);
}

static void a_claim_counts_only_with_the_port(void **state)
{
	int forged = claim_port(env_port, ENV_GROUP), claim;
	struct wire *holder;
	uid_t user;

	assert_true(forged >= 0);
	assert_int_equal(claim_connect(env_port, OTHER_GROUP, &user), -1);
	assert_int_equal(errno, ENOENT);
	holder = env_open();
	claim = claim_connect(env_port, OTHER_GROUP, &user);
	assert_true(claim >= 0);
	assert_int_equal(user, geteuid());
	close(claim);
	wire_close(holder);
	close(forged);
}

/* The full name of the claim to env_port, of which there is one. */
static socklen_t find_claim(struct sockaddr_un *sun)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], wanted[32], *name = NULL;
	socklen_t len;

	assert_non_null(f);
	snprintf(wanted, sizeof(wanted), "@verbena-udp-%u-", env_port);
	while (!name && fgets(line, sizeof(line), f))
		name = strstr(line, wanted);
	fclose(f);
	assert_non_null(name);
	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	len = (socklen_t)strcspn(name, "\n");
	memcpy(sun->sun_path + 1, name + 1, len - 1);
	return (socklen_t)offsetof(struct sockaddr_un, sun_path) + len;
}

/* Connections stay although those who made them have ended. */
static void a_claim_may_be_full(void **state)
{
	struct wire *holder = env_open();
	struct sockaddr_un sun;
	socklen_t len = find_claim(&sun);
	uid_t user = (uid_t)-1;
	int err = 0;

	while (!err) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		assert_true(fd >= 0);
		err = connect(fd, (struct sockaddr *)&sun, len) < 0 ? errno : 0;
		close(fd);
	}
	assert_int_equal(err, EAGAIN);
	assert_int_equal(claim_connect(env_port, OTHER_GROUP, &user), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(user, geteuid());
	wire_close(holder);
	assert_int_equal(claim_connect(env_port, OTHER_GROUP, &user), -1);
	assert_int_equal(errno, ENOENT);
}

static void limit_files(rlim_t n, struct rlimit *before)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
	limit = (struct rlimit){ n, before->rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* It is taken with the claim and with the number, or not at all. */
static void the_port_is_taken_whole(void **state)
{
	enum { MAX = 16 };
	struct wire *w, *again;
	unsigned int number, n;
	int err = EMFILE;

	w = open_number(&number);
	for (n = 0; err && n < MAX; n++) {
		struct rlimit before;
		int next = dup(STDERR_FILENO);

		close(next);
		limit_files((rlim_t)next + n, &before);
		err = udp_take_port(w, ENV_GROUP);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_true(!err || err == EMFILE);
		assert_int_equal(w->relayed, err != 0);
		assert_int_equal(udp_open_relayed(env_port, number, &again), EADDRINUSE);
	}
	assert_int_equal(err, 0);
	assert_true(claim_of_others(env_port, OTHER_GROUP));
	wire_close(w);
}

/* ---- host/relay.h ---- */

static struct host *join(char dir[64])
{
	struct host *h;

	place_make_dir(dir);
	assert_int_equal(host_join(dir, &h), 0);
	return h;
}

static void a_number_has_its_qp_numbers(void **state)
{
	enum { NUMBER = 700, QPNS = 2000 };
	char dir[64];
	struct host *a = join(dir), *b;
	uint32_t qpn;

	assert_int_equal(host_join(dir, &b), 0);
	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	assert_true(qpn >> NET_RELAY_QPN_BITS < NET_RELAY_FIRST);
	assert_int_equal(host_relay_slot(b, NUMBER), HOST_NO_SLOT);
	assert_int_equal(host_relay_number(a), 0);
	assert_int_equal(host_relay_take(a, NUMBER), 0);
	assert_int_equal(host_relay_number(a), NUMBER);
	assert_int_equal(host_relay_take(b, NUMBER), EEXIST);
	assert_int_equal(host_relay_slot(b, NUMBER), host_slot(a));
	for (unsigned int i = 0; i < QPNS; i++) {
		unsigned int shard = i % HOST_SHARDS;

		assert_int_equal(i % 100 ? host_qpn_alloc(a, shard, &qpn) :
					   host_qpn_alloc_alone(a, &qpn), 0);
		assert_int_equal(qpn >> NET_RELAY_QPN_BITS, NUMBER);
		if (i % 3)
			host_qpn_free(a, qpn);
	}
	assert_int_equal(host_relay_take(b, NUMBER + 1), 0);
	host_leave(a);
	assert_int_equal(host_relay_slot(b, NUMBER), HOST_NO_SLOT);
	host_leave(b);
	place_remove_dir(dir);
}

static bool receives(struct host *h, struct host_datagram *m)
{
	return host_inbox_recv_batch(h, m, 1) == 1;
}

static void requests_find_their_listener(void **state)
{
	const struct net_addr any = { 0 }, addr = env_addr("::ffff:192.0.2.9");
	const uint64_t service = 0x01061234, other = 0x01061235;
	struct net_path path = { .src = env_addr("::ffff:192.0.2.1"), .dst = addr, .ifindex = 2 };
	static uint8_t mad[HOST_MAD_LEN] = { 1, 2, 3 };
	static struct host_datagram m;
	char dir[2][64];
	struct host *a = join(dir[0]), *b = join(dir[1]);
	const struct net_addr *const at[] = { &any, &addr };

	assert_int_equal(host_relay_take(a, 600), 0);
	assert_int_equal(host_relay_take(b, 601), 0);
	host_relay_trust(a, geteuid());
	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++) {
		assert_int_equal(host_relay_request(b, env_port, service, &path, mad), ENOENT);
		for (unsigned int k = 0; k < 2; k++)
			assert_int_equal(host_relay_listen(a, env_port, service, at[i]), 0);
		assert_int_equal(host_relay_listen(b, env_port, service, at[i]), EADDRINUSE);
		assert_int_equal(host_relay_listen(b, env_port, other, at[i]), 0);
		assert_int_equal(host_relay_request(b, env_port, service, &path, mad), 0);
		assert_true(receives(a, &m));
		assert_int_equal(m.kind, HOST_REQUEST);
		assert_memory_equal(&m.path, &path, sizeof(path));
		assert_memory_equal(m.data, mad, sizeof(mad));
		assert_false(receives(a, &m));
		/* Not the holder's user. */
		host_relay_trust(a, geteuid() + 1);
		assert_int_equal(host_relay_request(b, env_port, service, &path, mad), 0);
		assert_true(receives(a, &m));
		assert_int_equal(m.kind, HOST_GARBAGE);
		host_relay_trust(a, geteuid());
		host_relay_unlisten(a, service, at[i]);
		assert_int_equal(host_relay_request(b, env_port, service, &path, mad), 0);
		host_relay_unlisten(a, service, at[i]);
		host_relay_unlisten(b, other, at[i]);
		assert_false(receives(a, &m));
	}
	assert_int_equal(host_relay_listen(a, env_port, service, &any), 0);
	host_leave(a);
	assert_int_equal(host_relay_request(b, env_port, service, &path, mad), ENOENT);
	host_leave(b);
	for (unsigned int i = 0; i < ARRAY_SIZE(dir); i++)
		place_remove_dir(dir[i]);
}

/*
 * Stopped listeners do not read, until no more fits into the buffer of a socket that sends. Others
 * get their requests all the same, also from a process that has no descriptor to spare.
 */
static void stopped_listeners_hold_up_nobody(void **state)
{
	enum { SERVICES = 200, REQUESTS = 12 };	/* net.unix.max_dgram_qlen is 10 by default */
	const struct net_addr any = { 0 };
	struct net_path path = { .src = env_addr("::ffff:192.0.2.1"),
				 .dst = env_addr("::ffff:192.0.2.9"), .ifindex = 2 };
	static uint8_t mad[HOST_MAD_LEN];
	static struct host_datagram m;
	struct rlimit before;
	char dir[3][64];
	struct host *stopped = join(dir[0]), *holder = join(dir[1]), *listener = join(dir[2]);
	int next;

	assert_int_equal(host_relay_take(stopped, 600), 0);
	assert_int_equal(host_relay_take(listener, 601), 0);
	host_relay_trust(listener, geteuid());
	for (uint64_t i = 0; i < SERVICES; i++) {
		assert_int_equal(host_relay_listen(stopped, env_port, i, &any), 0);
		for (unsigned int k = 0; k < REQUESTS; k++)
			assert_int_equal(host_relay_request(holder, env_port, i, &path, mad), 0);
	}
	assert_int_equal(host_relay_listen(listener, env_port, SERVICES, &any), 0);
	assert_int_equal(host_relay_request(holder, env_port, SERVICES, &path, mad), 0);
	assert_true(receives(listener, &m));
	assert_int_equal(m.kind, HOST_REQUEST);

	next = dup(STDERR_FILENO);
	close(next);
	limit_files((rlim_t)next, &before);
	assert_int_equal(host_relay_request(holder, env_port, SERVICES, &path, mad), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(receives(listener, &m));
	host_leave(stopped);
	host_leave(holder);
	host_leave(listener);
	for (unsigned int i = 0; i < ARRAY_SIZE(dir); i++)
		place_remove_dir(dir[i]);
}

static bool refuse_epoll(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Its program waits by another call. What is not read keeps the progress thread busy. */
static void a_sandbox_may_refuse_epoll(void **state)
{
	const struct net_addr any = { 0 };
	struct net_path path = { .src = env_addr("::ffff:192.0.2.1"),
				 .dst = env_addr("::ffff:192.0.2.9"), .ifindex = 2 };
	static uint8_t mad[HOST_MAD_LEN];
	static struct host_datagram m;
	char dir[2][64];
	struct host *listener = join(dir[0]), *holder = join(dir[1]);
	struct pollfd p;
	int status;
	pid_t pid;

	assert_int_equal(host_relay_take(listener, 600), 0);
	host_relay_trust(listener, geteuid());
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(host_relay_listen(listener, env_port, i, &any), 0);
	assert_int_equal(host_relay_request(holder, env_port, 1, &path, mad), 0);
	p = (struct pollfd){ .fd = host_relay_fd(listener), .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 1);
	pid = fork();
	if (pid == 0) {
		bool ok = refuse_epoll() && receives(listener, &m) && m.kind == HOST_REQUEST;

		_exit(ok && !receives(listener, &m) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	host_leave(listener);
	host_leave(holder);
	for (unsigned int i = 0; i < ARRAY_SIZE(dir); i++)
		place_remove_dir(dir[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_packet_arrives_with_its_path, env_new_port),
		cmocka_unit_test_setup(only_a_holder_is_believed, env_new_port),
		cmocka_unit_test_setup(only_one_family_is_believed, env_new_port),
		cmocka_unit_test_setup(only_one_address_is_believed, env_new_port),
		cmocka_unit_test_setup(a_number_without_process_is_no_closed_port, env_new_port),
		cmocka_unit_test_setup(it_sends_from_the_port_of_its_number, env_new_port),
		cmocka_unit_test_setup(the_next_one_takes_the_port, env_new_port),
		cmocka_unit_test_setup(the_port_is_taken_for_one_family, env_new_port),
		cmocka_unit_test_setup(a_number_is_free_for_both_families, env_new_port),
		cmocka_unit_test_setup(a_claim_counts_only_with_the_port, env_new_port),
		cmocka_unit_test_setup(a_claim_may_be_full, env_new_port),
		cmocka_unit_test_setup(the_port_is_taken_whole, env_new_port),
		cmocka_unit_test(a_number_has_its_qp_numbers),
		cmocka_unit_test_setup(requests_find_their_listener, env_new_port),
		cmocka_unit_test_setup(stopped_listeners_hold_up_nobody, env_new_port),
		cmocka_unit_test_setup(a_sandbox_may_refuse_epoll, env_new_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
