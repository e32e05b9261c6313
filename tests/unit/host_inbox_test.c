/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inbox: packets, messages and doorbells from other processes arrive complete, or the sender
 * gets an error.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host_env.h"
#include "place.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

static void packets_arrive_whole(void **state)
{
	static uint8_t packet[HOST_PACKET_MAX + 1], buf[HOST_PACKET_MAX];
	const size_t lens[] = { 0, 1, 16, 4200, HOST_PACKET_MAX };
	struct host *a = join(), *b = join();
	struct net_path path;
	uint32_t qpn, mine;
	size_t i, len;

	for (i = 0; i < sizeof(packet); i++)
		packet[i] = (uint8_t)(i * 7);
	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	assert_int_equal(host_qpn_alloc(a, 0, &mine), 0);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(host_hand(a, qpn, &some_path, packet, lens[i], 1), 0);
		assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_PACKET);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(buf, packet, len);
		assert_memory_equal(&path, &some_path, sizeof(path));
	}
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_NOTHING);
	assert_int_equal(host_hand(a, qpn, &some_path, packet, sizeof(packet), 1), EMSGSIZE);
	assert_int_equal(host_hand(a, mine, &some_path, packet, 1, 1), ENOENT);
	host_leave(b);
	assert_int_equal(host_hand(a, qpn, &some_path, packet, 1, 1), ENOENT);
	host_leave(a);
}

static void a_full_inbox_is_an_error_and_does_not_block(void **state)
{
	struct host *a = join(), *b = join();
	struct net_path path;
	static uint8_t buf[HOST_PACKET_MAX];
	unsigned int sent = 0, got = 0;
	uint32_t qpn;
	size_t len;
	int err = 0;

	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	while (!err && sent < 100000) {
		err = host_hand(a, qpn, &some_path, buf, 100, 1);
		sent += !err;
	}
	assert_int_equal(err, EAGAIN);
	assert_int_equal(host_hand(a, qpn, &some_path, buf, 100, 1), EAGAIN);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	while (host_inbox_recv(b, &path, buf, &len) != HOST_NOTHING)
		got++;
	assert_int_equal(got, sent);
	assert_int_equal(host_hand(a, qpn, &some_path, buf, 100, 1), 0);
	host_leave(a);
	host_leave(b);
}

/* Empties it, but not at once. */
static void *empty_late(void *arg)
{
	const struct timespec wait = { .tv_nsec = 20 * VRB_MSEC };
	static uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	size_t len;

	nanosleep(&wait, NULL);
	while (host_inbox_recv(arg, &path, buf, &len) != HOST_NOTHING)
		;
	return NULL;
}

/* One that was read lately. */
static void a_last_packet_waits_for_room(void **state)
{
	struct host *a = join(), *b = join();
	static uint8_t buf[HOST_PACKET_MAX];
	struct host_keepalive p = { .to = host_incarnation(b) };
	pthread_t reader;
	uint32_t qpn;

	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	while (host_send_keepalive(a, host_slot(b), &p) == 0)
		;
	assert_int_equal(pthread_create(&reader, NULL, empty_late, b), 0);
	assert_int_equal(host_hand(a, qpn, &some_path, buf, 100, LIMIT_INBOX_LAST_TRIES), 0);
	assert_int_equal(pthread_join(reader, NULL), 0);
	host_leave(a);
	host_leave(b);
}

/* It rings when the socket's name can no longer be reached, but not the next process there. */
static void a_bell_needs_no_name(void **state)
{
	struct host *a = join(), *b = join();
	char name[PATH_MAX], hidden[PATH_MAX];
	static uint8_t buf[HOST_PACKET_MAX];
	uint64_t incarnation = host_incarnation(b);
	int slot = host_slot(b), bell = host_bell_open(a, slot, incarnation);
	struct net_path path;
	size_t len;

	assert_true(bell >= 0);
	assert_int_equal(host_bell_open(a, slot, incarnation + 1), -1);
	snprintf(name, sizeof(name), "%s/s%04d.sock", host_dir(a), slot);
	snprintf(hidden, sizeof(hidden), "%s/hidden", host_dir(a));
	assert_int_equal(rename(name, hidden), 0);
	assert_int_equal(host_ring_by(a, -1, slot, incarnation), ENOENT);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_NOTHING);
	for (int i = 0; i < 1000; i++)	/* more than it has room for */
		assert_int_equal(host_ring_by(a, bell, slot, incarnation), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_DOORBELL);
	assert_int_equal(rename(hidden, name), 0);
	host_leave(b);
	assert_int_equal(host_ring_by(a, bell, slot, incarnation), ENOENT);
	close(bell);
	host_leave(a);
}

static void batches_are_whole_and_in_order(void **state)
{
	static struct host_datagram m[HOST_INBOX_BATCH];
	struct host *a = join(), *b = join();
	static uint8_t packet[HOST_PACKET_MAX];
	uint32_t qpn;

	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	for (unsigned int i = 0; i < HOST_INBOX_BATCH + 2; i++) {
		packet[0] = (uint8_t)i;
		assert_int_equal(host_hand(a, qpn, &some_path, packet, 100 * i + 1, 1), 0);
	}
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	assert_int_equal(host_inbox_recv_batch(b, m, HOST_INBOX_BATCH), HOST_INBOX_BATCH);
	for (unsigned int i = 0; i < HOST_INBOX_BATCH; i++) {
		assert_int_equal(m[i].kind, HOST_PACKET);
		assert_int_equal(m[i].len, 100 * i + 1);
		assert_int_equal(m[i].data[0], i);
		assert_memory_equal(&m[i].path, &some_path, sizeof(some_path));
	}
	assert_int_equal(host_inbox_recv_batch(b, m, HOST_INBOX_BATCH), 3);
	assert_int_equal(m[1].len, 100 * (HOST_INBOX_BATCH + 1) + 1);
	assert_int_equal(m[2].kind, HOST_DOORBELL);
	assert_int_equal(host_inbox_recv_batch(b, m, HOST_INBOX_BATCH), 0);
	host_leave(a);
	host_leave(b);
}

static void messages_arrive_whole_and_in_order(void **state)
{
	static uint8_t big[HOST_PACKET_MAX], buf[HOST_PACKET_MAX];
	struct host *a = join(), *b = join();
	const struct iovec parts[] = {
		{ (void *)"one", 3 }, { NULL, 0 }, { (void *)"two", 3 }, { big, 1000 }
	};
	const struct iovec too_long[] = { { big, sizeof(big) }, { (void *)"x", 1 } };
	uint64_t to = host_incarnation(b);
	int slot = host_slot(b);
	struct net_path path;
	size_t len;

	assert_int_equal(host_send_xrc(a, slot, to, parts, 4), 0);
	assert_int_equal(host_send_xrc(a, slot, to, parts, 1), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_XRC);
	assert_int_equal(len, 1006);
	assert_memory_equal(buf, "onetwo", 6);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_XRC);
	assert_int_equal(len, 3);
	assert_int_equal(host_send_xrc(a, slot, to, too_long, 1), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_XRC);
	assert_int_equal(len, sizeof(big));
	assert_int_equal(host_send_xrc(a, slot, to, too_long, 2), EMSGSIZE);
	assert_int_equal(host_send_xrc(a, slot, to + 1, parts, 1), ENOENT);
	host_leave(b);
	assert_int_equal(host_send_xrc(a, slot, to, parts, 1), ENOENT);
	host_leave(a);
}

static void doorbells_wake(void **state)
{
	struct host *a = join(), *b = join();
	struct pollfd p = { .fd = host_inbox_fd(b), .events = POLLIN };
	struct net_path path;
	static uint8_t buf[HOST_PACKET_MAX];
	size_t len;

	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b) + 1), ENOENT);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_DOORBELL);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_NOTHING);
	host_leave(a);
	host_leave(b);
}

static void keepalives_carry_their_sender(void **state)
{
	struct host *a = join(), *b = join();
	struct host_keepalive p = { .asked_at = 7, .to = host_incarnation(b) }, got;
	static uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	unsigned int sent = 1, gone = host_slot(b);
	size_t len;

	assert_int_equal(host_send_keepalive(a, host_slot(b), &p), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_KEEPALIVE);
	memcpy(&got, buf, sizeof(got));
	assert_int_equal(got.asked_at, 7);
	assert_int_equal(got.answer, 0);
	assert_int_equal(got.slot, host_slot(a));
	assert_true(got.from == host_incarnation(a));
	while (host_send_keepalive(a, host_slot(b), &p) == 0 && sent < 100000)
		sent++;
	assert_int_equal(host_send_keepalive(a, host_slot(b), &p), EAGAIN);
	p.to++;
	assert_int_equal(host_send_keepalive(a, host_slot(b), &p), ENOENT);
	host_leave(b);
	assert_int_equal(host_send_keepalive(a, gone, &p), ENOENT);
	host_leave(a);
}

static void invalid_datagrams_are_dropped(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	static uint8_t noise[12000], buf[HOST_PACKET_MAX];
	const size_t lens[] = { 0, 1, 63, 64, 65, 9000, 9280, 9281, 12000 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct net_path path;
	char name[32];
	size_t i, j, len;

	host_file_name(host_slot(h), "sock", name);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", run_dir, name);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		for (j = 0; j < sizeof(noise); j++)
			noise[j] = (uint8_t)place_next(&seed);
		/* half of them with the correct magic */
		if (i % 2)
			memcpy(noise, "\x31\x42\x52\x56", 4);
		assert_int_equal(sendto(fd, noise, lens[i], 0, (struct sockaddr *)&sun,
					sizeof(sun)),
				 lens[i]);
		assert_int_equal(host_inbox_recv(h, &path, buf, &len), HOST_GARBAGE);
	}
	close(fd);
	host_leave(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(packets_arrive_whole),
		IN_DIR(a_full_inbox_is_an_error_and_does_not_block),
		IN_DIR(a_last_packet_waits_for_room),
		IN_DIR(a_bell_needs_no_name),
		IN_DIR(batches_are_whole_and_in_order),
		IN_DIR(messages_arrive_whole_and_in_order),
		IN_DIR(doorbells_wake),
		IN_DIR(keepalives_carry_their_sender),
		IN_DIR(invalid_datagrams_are_dropped),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
