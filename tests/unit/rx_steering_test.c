/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering to the sockets of RX queues, one of which is new and one of another process.
 *
 * Packets for the QPs of a new RX queue: they arrive at the main queue's socket until the new one's
 * position is known, and none that went there is read after one that goes to the new socket. Only
 * the positions of IPv4 sockets become known here.
 */
#include "core/progress/rx_steering.h"

#include "core_env.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/path_flows.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_queue.h"
#include "host/steer.h"
#include "place.h"
#include "util/be.h"
#include "util/compiler.h"
#include "wire/udp.h"

enum {
	SHARD = 1,
	PACKETS = 20,
	PACKET_LEN = 16,
	DEST_QPN_AT = 5,
	BLOCKS_MAX = 8,
};

static struct vrb_context *ctx;
static struct vrb_rx_queue *main_queue, *new_queue;
static uint32_t qpn;

static int32_t published_position(void)
{
	struct net_steer map[BLOCKS_MAX];
	size_t n = host_steer_map(vrb.host, map, BLOCKS_MAX);

	for (size_t i = 0; i < n; i++)
		if (map[i].number == qpn >> 8)
			return map[i].index[0];
	return -1;
}

/*
 * They carry no ICRC: queues count them, and drop them. Each is from a port of its own: without a
 * program the kernel's hash spreads them.
 */
static void send_packets(uint32_t dest)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(vrb.wire->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	uint8_t packet[PACKET_LEN] = { 0 };

	put_be24(packet + DEST_QPN_AT, dest);
	for (int i = 0; i < PACKETS; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

		assert_true(fd >= 0);
		assert_int_equal(sendto(fd, packet, sizeof(packet), 0, (const struct sockaddr *)&to,
					sizeof(to)), sizeof(packet));
		close(fd);
	}
}

static void poll_queue(struct vrb_rx_queue *r)
{
	lock_acquire(r->lock);
	vrb_rx_queue_take_all(r, 1, false);
	lock_release(r->lock);
}

static void find_positions(void)
{
	vrb_for_each_rx_queue (r)
		poll_queue(r);
}

static void new_queues_take_over_in_order(void **state)
{
	assert_int_equal(published_position(), 0);
	lock_acquire(&vrb.poll_lock);
	vrb_steer_probe();
	lock_release(&vrb.poll_lock);
	poll_queue(main_queue);
	assert_int_equal(published_position(), 0);

	send_packets(qpn);
	assert_int_equal(main_queue->stats.rcvd_pkts, 0);
	poll_queue(new_queue);
	assert_int_equal(published_position(), 1);
	assert_int_equal(main_queue->stats.rcvd_pkts, PACKETS);
	assert_int_equal(new_queue->stats.rcvd_pkts, 0);

	send_packets(qpn);
	poll_queue(main_queue);
	poll_queue(new_queue);
	assert_int_equal(main_queue->stats.rcvd_pkts, PACKETS);
	assert_int_equal(new_queue->stats.rcvd_pkts, PACKETS);
}

static char dir[64];

struct other {
	struct host *host;
	struct wire *wire;
	uint32_t qpn;
};

/* Another process, whose socket is at that position of IPv4, the last. */
static void other_open(struct other *o, int32_t at)
{
	const struct host_steer steer = { .at = { { at, at } } };

	assert_int_equal(host_join(dir, &o->host), 0);
	assert_int_equal(udp_open(vrb.wire->port, host_group(o->host), &o->wire), 0);
	assert_int_equal(host_qpn_alloc(o->host, 0, &o->qpn), 0);
	host_publish_wire(o->host, o->wire->port, &steer);
}

static void other_close(struct other *o)
{
	wire_close(o->wire);
	host_leave(o->host);
}

static void assert_gets_its_packets(struct other *o)
{
	static struct wire_pkt pkts[WIRE_BURST];

	send_packets(o->qpn);
	assert_int_equal(wire_recv(o->wire, pkts, WIRE_BURST), PACKETS);
}

static void assert_has_moved(struct other *o, int32_t from, int32_t to)
{
	static uint8_t buf[HOST_PACKET_MAX];
	struct host_move move;
	struct host_peer peer;
	struct net_path path;
	size_t len;

	assert_int_equal(host_inbox_recv(o->host, &path, buf, &len), HOST_MOVE);
	memcpy(&move, buf, sizeof(move));
	assert_int_equal(move.family, 0);
	assert_int_equal(move.from, from);
	assert_int_equal(move.to, to);
	assert_true(host_peer(vrb.host, host_slot(o->host), &peer));
	assert_int_equal(peer.steer.at[0][0], to);
	assert_gets_its_packets(o);
}

/* The first program of a process that joins steers the packets of the others, too. */
static void one_that_joins_disturbs_nobody(void **state)
{
	static const struct host_steer nowhere = { .at = { { -1, -1 } } };
	struct other o;

	other_open(&o, 2);
	host_publish_wire(vrb.host, 0, &nowhere);
	lock_acquire(&vrb.poll_lock);
	vrb_steer_start();
	lock_release(&vrb.poll_lock);
	assert_gets_its_packets(&o);
	other_close(&o);
	find_positions();
	assert_int_equal(published_position(), 1);
}

/*
 * The socket of another process takes the place of a closed one: packets for it go there at once,
 * and the process is told.
 */
static void closed_sockets_disturb_nobody(void **state)
{
	struct other o;

	other_open(&o, 2);
	lock_acquire(new_queue->lock);
	vrb_steer_leave(new_queue);
	lock_release(new_queue->lock);
	assert_has_moved(&o, 2, 1);
	store_release(&vrb_extra_rx_queues, 0);
	wire_close(new_queue->wire);
	new_queue->wire = NULL;
	other_close(&o);
}

static void leave_at_exit(void)
{
	lock_acquire(main_queue->lock);
	vrb_steer_leave_at_exit(main_queue);
	lock_release(main_queue->lock);
}

/* The sockets of a copy of the process, as clone(2) makes it, are the process's own. */
static void a_clone_leaves_nothing(void)
{
	int fds[WIRE_FDS], status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		leave_at_exit();
		_exit(wire_fds(vrb.wire, fds) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void exit_closes_sockets_as_well(void **state)
{
	struct other o;

	other_open(&o, 1);
	a_clone_leaves_nothing();
	leave_at_exit();
	assert_has_moved(&o, 1, 0);
	other_close(&o);
}

static void a_process_believes_that_it_has_moved(void **state)
{
	static const struct host_move no_family = { .family = 2, .from = 1, .to = 0 };
	static const struct host_move elsewhere = { .family = 0, .from = 2, .to = 0 };
	static const struct host_move ours = { .family = 0, .from = 1, .to = 0 };

	assert_int_equal(published_position(), 1);
	vrb_steer_moved(&no_family);
	vrb_steer_moved(&elsewhere);
	assert_int_equal(published_position(), 1);
	vrb_steer_moved(&ours);
	assert_int_equal(published_position(), 0);
	udp_moved(new_queue->wire, 0, 1);
	poll_queue(new_queue);
	assert_int_equal(published_position(), 1);
}

/* One that has left may have moved a socket of this process without telling it. */
static void a_departure_is_a_reason_to_probe(void **state)
{
	static const struct host_move false_move = { .family = 0, .from = 1, .to = 0 };
	static const struct host_steer nowhere = { .at = { { -1, -1 } } };
	struct host *other;

	assert_int_equal(host_join(dir, &other), 0);
	host_publish_wire(other, vrb.wire->port, &nowhere);
	vrb_steer_settle();
	vrb_steer_moved(&false_move);
	vrb_steer_settle();
	poll_queue(new_queue);
	assert_int_equal(published_position(), 0);

	host_publish_wire(other, 0, &nowhere);
	host_leave(other);
	vrb_steer_settle();
	poll_queue(new_queue);
	assert_int_equal(published_position(), 1);
}

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	path_table_init(&vrb.paths);
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(host_qpn_alloc(vrb.host, SHARD, &qpn), 0);
	assert_int_equal(udp_open(place_free_port(), host_group(vrb.host), &vrb.wire), 0);
	assert_int_equal(vrb_progress_start(), 0);
	main_queue = vrb_main_rx_queue;

	new_queue = &vrb_rx_queues[1];
	assert_int_equal(udp_open_beside(vrb.wire, &new_queue->wire), 0);
	new_queue->lock = &new_queue->own_lock;
	lock_init(new_queue->lock);
	list_init(&new_queue->scheduled);
	list_init(&new_queue->delayed);
	new_queue->delayed_deadline = VRB_NEVER;
	store_release(&vrb_extra_rx_queues, 1);
	return 0;
}

static int tear_down(void **state)
{
	vrb_progress_stop();
	wire_close(vrb.wire);
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_queues_take_over_in_order),
		cmocka_unit_test(a_process_believes_that_it_has_moved),
		cmocka_unit_test(a_departure_is_a_reason_to_probe),
		cmocka_unit_test(one_that_joins_disturbs_nobody),
		cmocka_unit_test(closed_sockets_disturb_nobody),
		cmocka_unit_test(exit_closes_sockets_as_well),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
