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
#include <unistd.h>

#include "core/base/path_flows.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_queue.h"
#include "host/host.h"
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
static int sender = -1;

static int32_t published_position(void)
{
	struct net_steer map[BLOCKS_MAX];
	size_t n = host_steer_map(vrb.host, map, BLOCKS_MAX);

	for (size_t i = 0; i < n; i++)
		if (map[i].number == qpn >> 8)
			return map[i].index[0];
	return -1;
}

/* They carry no ICRC: queues count them, and drop them. */
static void send_packets(uint32_t dest)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(vrb.wire->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	uint8_t packet[PACKET_LEN] = { 0 };

	put_be24(packet + DEST_QPN_AT, dest);
	for (int i = 0; i < PACKETS; i++)
		assert_int_equal(sendto(sender, packet, sizeof(packet), 0,
					(const struct sockaddr *)&to, sizeof(to)), sizeof(packet));
}

static void poll_queue(struct vrb_rx_queue *r)
{
	lock_acquire(r->lock);
	vrb_rx_queue_poll(r, 1, false);
	lock_release(r->lock);
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

/*
 * The socket of another process takes the place of a closed one: packets for it go there at once,
 * and the process is told.
 */
static void closed_sockets_disturb_nobody(void **state)
{
	static const struct host_steer at = { .at = { { 2, 2 } } };
	static struct wire_pkt pkts[WIRE_BURST];
	static uint8_t buf[HOST_PACKET_MAX];
	struct host_move move;
	struct net_path path;
	struct host *other;
	struct wire *wire;
	uint32_t dest;
	size_t len;

	assert_int_equal(host_join(dir, &other), 0);
	assert_int_equal(udp_open(vrb.wire->port, host_group(other), &wire), 0);
	assert_int_equal(host_qpn_alloc(other, 0, &dest), 0);
	host_publish_wire(other, wire->port, &at);

	lock_acquire(&vrb.poll_lock);
	vrb_steer_leave(new_queue);
	lock_release(&vrb.poll_lock);
	assert_int_equal(host_inbox_recv(other, &path, buf, &len), HOST_MOVE);
	memcpy(&move, buf, sizeof(move));
	assert_int_equal(move.family, 0);
	assert_int_equal(move.from, 2);
	assert_int_equal(move.to, 1);
	store_release(&vrb_extra_rx_queues, 0);
	wire_close(new_queue->wire);
	new_queue->wire = NULL;
	send_packets(dest);
	assert_int_equal(wire_recv(wire, pkts, WIRE_BURST), PACKETS);
	wire_close(wire);
	host_leave(other);
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
	struct host *other;

	vrb_steer_settle();
	vrb_steer_moved(&false_move);
	vrb_steer_settle();
	poll_queue(new_queue);
	assert_int_equal(published_position(), 0);

	assert_int_equal(host_join(dir, &other), 0);
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
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(sender >= 0);
	return 0;
}

static int tear_down(void **state)
{
	close(sender);
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
		cmocka_unit_test(closed_sockets_disturb_nobody),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
