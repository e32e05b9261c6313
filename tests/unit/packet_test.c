/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames through packet sockets in a network namespace of the test: received frames are as on the
 * wire, although the kernel strips parts of them; sent frames are unchanged; frames to the
 * interface itself are received once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "left_out.h"
#include "place.h"
#include "raw/raw.h"
#include "run/clock.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"
#include "util/time.h"

enum {
	TYPE = 0x88b5,		/* EtherType for local experiments */
	SKIPPED = 77,
	MSS = 1000,
	KEPT = 128,
	LIMIT_MS = 20000,
};

static const uint8_t left_mac[6] = { 2, 0, 0, 0, 0, 1 }, right_mac[6] = { 2, 0, 0, 0, 0, 2 },
		     foreign_mac[6] = { 2, 0, 0, 0, 0, 9 }, group_mac[6] = { 1, 0, 0x5e, 0, 0, 9 };

/* Frames that a port has received. */
struct received {
	unsigned int n;
	struct {
		uint8_t data[RAW_MAX_FRAME];
		uint32_t len;
		bool sum_ok, outgoing;
		uint64_t time;
	} f[KEPT];
};

static void record_frame(void *arg, const struct raw_frame *f)
{
	struct received *h = arg;

	assert_true(h->n < KEPT);
	memcpy(h->f[h->n].data, f->data, f->len);
	h->f[h->n].len = f->len;
	h->f[h->n].sum_ok = f->sum_ok;
	h->f[h->n].outgoing = f->outgoing;
	h->f[h->n++].time = f->time;
}

static void receive(struct raw_port *p, struct received *h, unsigned int n)
{
	struct pollfd readable[] = { { p->fd[0], POLLIN, 0 }, { p->fd[1], POLLIN, 0 } };

	for (h->n = 0; h->n < n;)
		if (!raw_recv(p, n - h->n, clock_now(), record_frame, h))
			assert_true(poll(readable, 2, LIMIT_MS) > 0);
}

static void run(const char *command)
{
	if (system(command) != 0) {
		printf("cannot: %s\n", command);
		exit(SKIPPED);
	}
}

static struct raw_port *open_port(const char *name, const uint8_t mac[6])
{
	struct raw_interface on = { .name = name, .index = if_nametoindex(name),
				    .loopback = !strcmp(name, "lo") };
	struct raw_port *p;
	int err;

	if (mac)
		memcpy(on.mac, mac, 6);
	err = raw_open(NULL, &on, CONFIG_RAW_PACKET, &p);
	if (err)
		printf("%s: %s\n", name, strerror(err));
	assert_int_equal(err, 0);
	return p;
}

/*
 * Receives only this EtherType, or only IP packets that are not sent to a group, since the kernel
 * sends packets of its own.
 */
static void set_filter(struct raw_port *p, uint16_t type, enum raw_scope scope)
{
	const struct sock_filter only[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, type, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, type == TYPE ? 0 : 1, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0x7fffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	assert_int_equal(raw_filter(p, only, ARRAY_SIZE(only), scope), 0);
}

static void ethernet(uint8_t *p, const uint8_t dst[6], uint16_t type)
{
	memcpy(p, dst, 6);
	memcpy(p + 6, left_mac, 6);
	put_be16(p + 12, type);
}

static struct raw_out one_piece(void *data, uint32_t len)
{
	return (struct raw_out){ .piece = { { data, len } }, .pieces = 1, .len = len };
}

static void send_one(struct raw_port *p, struct raw_out out)
{
	enum raw_sent why;

	assert_int_equal(raw_send(p, &out, 1, clock_now(), &why), 1);
}

static void send_to(struct raw_port *p, const uint8_t dst[6], uint8_t mark)
{
	uint8_t frame[100] = { [50] = mark };

	ethernet(frame, dst, TYPE);
	send_one(p, one_piece(frame, sizeof(frame)));
}

/* ---------------------------------------------------------------- */

static struct raw_port *left, *right;
static struct received h;

static void test_both_directions(void)
{
	uint64_t before = clock_now(), after, skew;

	set_filter(right, TYPE, RAW_OWN);
	for (int i = 0; i < 10; i++)
		send_to(left, right_mac, i);
	receive(right, &h, 10);
	after = clock_now();
	/*
	 * The skew of two clocks read one after the other: up to the duration of both reads, which
	 * is long on a busy machine.
	 */
	skew = after - before + VRB_MSEC;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(h.f[i].len, 100);
		assert_int_equal(h.f[i].data[50], i);
		assert_false(h.f[i].outgoing);
		assert_true(h.f[i].time + skew > before);
		assert_true(h.f[i].time < after + skew);
	}
}

/* A filter that accepts nothing, then one that accepts only the second frame. */
static void test_filter(void)
{
	const struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	/* opened later, so it is matched before `right` */
	struct raw_port *fresh = open_port("right", right_mac);

	assert_int_equal(raw_filter(fresh, &none, 0, RAW_OWN), 0);
	send_to(left, right_mac, 1);
	receive(right, &h, 1);
	set_filter(fresh, TYPE, RAW_OWN);
	send_to(left, right_mac, 2);
	receive(right, &h, 1);
	receive(fresh, &h, 1);
	assert_int_equal(h.f[0].data[50], 2);
	raw_close(fresh, true);
}

/* The kernel removes VLAN tags; the library restores them. */
static void test_tag(void)
{
	uint8_t frame[100] = { [60] = 7 };

	ethernet(frame, right_mac, 0x8100);
	put_be16(frame + 14, 0x2005);
	put_be16(frame + 16, TYPE);
	send_one(left, one_piece(frame, sizeof(frame)));
	receive(right, &h, 1);
	assert_int_equal(h.f[0].len, sizeof(frame));
	assert_memory_equal(h.f[0].data, frame, sizeof(frame));
}

/* As on a NIC: frames to the interface's own address or to a group are also received here, once. */
static void test_loop(void)
{
	struct raw_port *other = open_port("left", left_mac);

	set_filter(left, TYPE, RAW_GROUPS);
	set_filter(other, TYPE, RAW_GROUPS);
	set_filter(right, TYPE, RAW_PROMISC);
	send_to(left, foreign_mac, 1);
	send_to(left, left_mac, 2);
	send_to(left, group_mac, 3);
	send_to(left, group_mac, 4);
	receive(other, &h, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(h.f[i].data[50], 2 + i);
		assert_false(h.f[i].outgoing);
	}
	receive(left, &h, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(h.f[i].data[50], 2 + i);
	receive(right, &h, 4);
	/* a sniffer gets outgoing packets as well */
	set_filter(other, TYPE, RAW_SNIFF);
	send_to(left, foreign_mac, 5);
	send_to(left, left_mac, 6);
	receive(other, &h, 2);
	assert_int_equal(h.f[0].data[50], 5);
	assert_true(h.f[0].outgoing);
	assert_int_equal(h.f[1].data[50], 6);
	assert_false(h.f[1].outgoing);
	receive(right, &h, 2);
	receive(left, &h, 1);
	raw_close(other, true);
}

/* Writes IPv4 or IPv6 and TCP headers; returns their length. */
static uint32_t tcp_headers(uint8_t *p, bool ipv6, uint32_t data)
{
	uint32_t l4 = INET_ETHERNET + (ipv6 ? 40 : 20);

	memset(p, 0, 100);
	ethernet(p, right_mac, ipv6 ? INET_TYPE_IPV6 : INET_TYPE_IPV4);
	if (ipv6) {
		p[14] = 0x60;
		put_be16(p + 18, 20 + data);
		p[20] = INET_PROTO_TCP;
	} else {
		p[14] = 0x45;
		put_be16(p + 16, 40 + data);
		p[23] = INET_PROTO_TCP;
	}
	memset(p + l4 - (ipv6 ? 32 : 8), 0x33, ipv6 ? 32 : 8);
	put_be32(p + l4 + 4, 1000);
	p[l4 + 12] = 5 << 4;
	return l4 + 20;
}

/* The interface completes a checksum and segments a long frame; it arrives as from a wire. */
static void test_offload(void)
{
	static uint8_t frame[10000];

	for (int v6 = 0; v6 < 2; v6++) {
		uint32_t data = 7 * MSS + 100, len = tcp_headers(frame, v6, data);
		struct raw_out out = one_piece(frame, len + data);
		struct inet f;

		for (uint32_t i = 0; i < data; i++)
			frame[len + i] = i * 5 + v6;
		assert_true(inet_parse_frame(frame, len + data, INET_BY_HEADER, &f));
		inet_fill_header_sum(frame, &f);
		put_be16(frame + f.sum, inet_pseudo_sum(frame, &f));
		out.sum_start = f.l4;
		out.sum_offset = f.sum - f.l4;
		out.mss = MSS;
		out.hdr_len = f.data;
		out.ipv6 = v6;
		set_filter(right, v6 ? INET_TYPE_IPV6 : INET_TYPE_IPV4, RAW_OWN);
		send_one(left, out);
		receive(right, &h, 8);
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t part = i < 7 ? MSS : 100;

			assert_int_equal(h.f[i].len, len + part);
			assert_true(h.f[i].sum_ok);
			assert_true(inet_parse_frame(h.f[i].data, h.f[i].len, INET_BY_HEADER, &f));
			assert_true(inet_sums_ok(h.f[i].data, &f));
			assert_int_equal(get_be32(h.f[i].data + f.l4 + 4), 1000 + i * MSS);
			assert_memory_equal(h.f[i].data + len, frame + len + i * MSS, part);
		}
	}
}

/*
 * A frame of many SGEs, the longest that fits, one that does not fit, and one whose memory is
 * unmapped.
 */
static void test_limits(void)
{
	static uint8_t frame[2000];
	uint8_t *gone = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct raw_out out[3];
	enum raw_sent why;

	set_filter(right, TYPE, RAW_OWN);
	ethernet(frame, right_mac, TYPE);
	out[0] = (struct raw_out){ .pieces = RAW_PIECES, .len = 1514 };
	for (unsigned int i = 0; i < RAW_PIECES; i++)
		out[0].piece[i] = (struct iovec){ frame + i * 40, i + 1 < RAW_PIECES ? 40 : 194 };
	out[1] = one_piece(frame, 1600);
	assert_int_equal(raw_send(left, out, 2, clock_now(), &why), 1);
	assert_int_equal(why, RAW_TOO_LONG);
	receive(right, &h, 1);
	assert_int_equal(h.f[0].len, 1514);
	assert_memory_equal(h.f[0].data, frame, 1514);
	munmap(gone, 4096);
	out[1] = (struct raw_out){ .piece = { { frame, 14 }, { gone, 100 } },
				   .pieces = 2,
				   .len = 114 };
	out[2] = one_piece(frame, 60);
	assert_int_equal(raw_send(left, out, 3, clock_now(), &why), 1);
	assert_int_equal(why, RAW_BAD_MEMORY);
}

/*
 * An interface whose queue is full stops the sender, but not for ever. Nothing leaves the queue of
 * this one during the test.
 */
static void test_full(void)
{
	enum { FRAMES = 10, LONG = 1000 };
	static uint8_t frame[LONG];
	struct raw_out out[FRAMES];
	uint64_t now = clock_now(), refused = left->stats.refused;
	enum raw_sent why;
	unsigned int n;

	if (system("PATH=$PATH:/usr/sbin:/sbin tc qdisc add dev left root tbf rate 8bit "
		   "burst 1600 limit 3000 2>&1")) {
		left_out(1, "no token bucket of tc");
		return;
	}
	ethernet(frame, right_mac, TYPE);
	for (unsigned int i = 0; i < FRAMES; i++)
		out[i] = one_piece(frame, LONG);
	n = raw_send(left, out, FRAMES, now, &why);
	assert_in_range(n, 1, FRAMES - 1);
	assert_int_equal(why, RAW_FULL);
	now += 100 * VRB_MSEC;
	assert_int_equal(raw_send(left, out + n, FRAMES - n, now, &why), 0);
	assert_int_equal(why, RAW_FULL);
	assert_int_equal(left->stats.refused, refused);
	now += VRB_SECOND;
	assert_int_equal(raw_send(left, out + n, FRAMES - n, now, &why), FRAMES - n);
	assert_int_equal(left->stats.refused, refused + FRAMES - n);
	run("PATH=$PATH:/usr/sbin:/sbin tc qdisc del dev left root");
}

static void send_number(uint32_t number)
{
	uint8_t frame[100];

	ethernet(frame, right_mac, TYPE);
	put_be32(frame + 50, number);
	send_one(left, one_piece(frame, sizeof(frame)));
}

/*
 * Halfway, queued frames move to another ring: each arrives once, in order, few or many at a time.
 */
static void test_stream(void)
{
	enum { FRAMES = 3000, AHEAD = 500 };
	struct raw_port *fresh = right = open_port("right", right_mac);
	uint32_t sent = 0, got = 0, before;

	set_filter(fresh, TYPE, RAW_OWN);
	while (got < FRAMES) {
		for (; sent < FRAMES && sent - got < (got < 50 ? 1 : AHEAD); sent++)
			send_number(sent);
		before = got;
		receive(fresh, &h, sent - got < 7 ? sent - got : 7);
		for (unsigned int i = 0; i < h.n; i++)
			assert_int_equal(get_be32(h.f[i].data + 50), got++);
		assert_true(got > before);
	}
	assert_int_equal(raw_recv(fresh, 1, clock_now(), record_frame, &h), 0);
	raw_count(fresh);
	assert_int_equal(fresh->stats.received, FRAMES);
	assert_int_equal(fresh->stats.lost, 0);
	raw_close(fresh, true);
}

/* Datagrams of the kernel, whose checksums are left to an interface that does not verify them. */
static void test_kernel_datagram(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9999),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct raw_port *lo = open_port("lo", NULL);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint8_t data[777] = { 1, 2, 3 };
	struct inet f;

	set_filter(lo, INET_TYPE_IPV4, RAW_OWN);
	assert_int_equal(sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(data));
	do
		receive(lo, &h, 1);
	while (h.f[0].data[23] != INET_PROTO_UDP);
	assert_int_equal(h.f[0].len, 42 + sizeof(data));
	assert_true(inet_parse_frame(h.f[0].data, h.f[0].len, INET_BY_HEADER, &f));
	assert_true(inet_sums_ok(h.f[0].data, &f));
	close(fd);
	raw_close(lo, true);
}

/* A TCP stream, which the kernel carries in segments of up to 64 KiB. */
static void test_kernel_stream(void)
{
	enum { BYTES = 30000 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), a = socket(AF_INET, SOCK_STREAM, 0), b;
	static uint8_t sent[BYTES], got[BYTES];
	socklen_t len = sizeof(at);
	struct raw_port *lo;
	uint32_t first = 0, received = 0;

	for (int i = 0; i < BYTES; i++)
		sent[i] = i * 3 + i / 1000;
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	getsockname(listener, (struct sockaddr *)&at, &len);
	assert_int_equal(connect(a, (struct sockaddr *)&at, sizeof(at)), 0);
	b = accept(listener, NULL, NULL);
	lo = open_port("lo", NULL);
	set_filter(lo, INET_TYPE_IPV4, RAW_OWN);
	assert_int_equal(send(a, sent, BYTES, 0), BYTES);
	while (received < BYTES) {
		struct inet f;
		uint32_t seq;

		receive(lo, &h, 1);
		for (unsigned int i = 0; i < h.n; i++) {
			assert_true(inet_parse_frame(h.f[i].data, h.f[i].len, INET_BY_HEADER, &f));
			assert_true(h.f[i].len <= 1514);
			assert_true(inet_sums_ok(h.f[i].data, &f));
			if (get_be16(h.f[i].data + f.l4 + 2) != ntohs(at.sin_port) ||
			    f.end == f.data)
				continue;
			seq = get_be32(h.f[i].data + f.l4 + 4);
			if (!received)
				first = seq;
			assert_true(seq - first + (f.end - f.data) <= BYTES);
			memcpy(got + (seq - first), h.f[i].data + f.data, f.end - f.data);
			received += f.end - f.data;
		}
	}
	assert_memory_equal(got, sent, BYTES);
	raw_close(lo, true);
	close(a);
	close(b);
	close(listener);
}

/* A tunnel of IP packets has no Ethernet frames. */
static void test_other_links(void)
{
	struct raw_interface on = { .name = "tunnel" };
	struct raw_port *p;

	if (system("ip tuntap add dev tunnel mode tun 2>&1")) {
		left_out(1, "no tunnel interface");
		return;
	}
	on.index = if_nametoindex("tunnel");
	assert_int_equal(raw_open(NULL, &on, CONFIG_RAW_PACKET, &p), EOPNOTSUPP);
}

static void all(void)
{
	if (!place_enter_netns())
		exit(SKIPPED);
	run("ip link set lo mtu 1500 2>&1");
	run("ip link add left address 02:00:00:00:00:01 type veth peer name right address "
	    "02:00:00:00:00:02 2>&1");
	run("ip link set left up 2>&1 && ip link set right up 2>&1");
	left = open_port("left", left_mac);
	right = open_port("right", right_mac);
	test_both_directions();
	test_filter();
	test_tag();
	test_loop();
	test_offload();
	test_limits();
	test_full();
	test_other_links();
	test_kernel_datagram();
	test_kernel_stream();
	raw_close(right, true);
	test_stream();
	raw_close(left, true);
}

static void test_in_a_namespace(void **state)
{
	int status, verdict;
	pid_t child = fork();

	if (!child) {
		all();
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	verdict = WEXITSTATUS(status);
	if (verdict == SKIPPED)
		LEAVE_OUT("no network namespace with veth interfaces");
	assert_int_equal(verdict, 0);
}

/* Without the capability no interface can be opened. */
static void test_no_capability(void **state)
{
	const struct raw_interface lo = { .name = "lo", .index = 1, .loopback = true };
	struct raw_port *p;
	int status;
	pid_t child = fork();

	if (!child) {
		if (geteuid() == 0 && setresuid(65534, 65534, 65534))
			exit(2);
		exit(raw_open(NULL, &lo, CONFIG_RAW_PACKET, &p) == EPERM ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_capability),
		cmocka_unit_test(test_in_a_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
