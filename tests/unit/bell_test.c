/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doorbells: which peers are woken when progress has been published, and when. The process is its
 * own peer and counts the doorbells in its inbox.
 */
#include "local/bell.h"

#include "host_env.h"

#include <stdlib.h>

#include "local/parts.h"
#include "local/peer.h"

static struct local *l;
static uint32_t asleep;
static struct seg_header header;
static struct local_peer peer;

static int set_up(void **state)
{
	make_run_dir(state);
	l = calloc(1, sizeof(*l));
	l->host = join();
	list_init(&l->bells);
	asleep = 1;
	peer = (struct local_peer){
		.slot = host_slot(l->host),
		.bell = -1,
		.map = { .asleep = &asleep,
			 .header = &header,
			 .incarnation = host_incarnation(l->host) },
	};
	list_init(&peer.bell_node);
	lock_init(&peer.lock);
	return 0;
}

static int tear_down(void **state)
{
	lock_destroy(&peer.lock);
	host_leave(l->host);
	free(l);
	return remove_run_dir(state);
}

static int doorbells(void)
{
	static uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	size_t len;
	int n = 0;

	while (host_inbox_recv(l->host, &path, buf, &len) == HOST_DOORBELL)
		n++;
	return n;
}

static void a_peer_that_sleeps_is_woken_once(void **state)
{
	local_queue_bell(l, &peer, false);
	local_queue_bell(l, &peer, true);
	assert_false(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	assert_int_equal(doorbells(), 1);
	assert_true(list_empty(&l->bells));
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 0);
}

static void a_polling_peer_gets_no_doorbell(void **state)
{
	asleep = 0;
	local_queue_bell(l, &peer, false);
	assert_false(local_ring_bells(l, BELLS_WAIT));
	assert_true(list_empty(&l->bells));
	assert_int_equal(doorbells(), 0);
}

static void a_doorbell_is_delayed_while_a_reply_is_expected(void **state)
{
	local_queue_bell(l, &peer, true);
	assert_true(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	assert_int_equal(doorbells(), 0);
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 1);
}

static void a_polling_thread_delays_all_doorbells(void **state)
{
	local_queue_bell(l, &peer, false);
	assert_true(local_ring_bells(l, BELLS_WAIT));
	assert_int_equal(doorbells(), 0);
	assert_false(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	assert_int_equal(doorbells(), 1);
}

/* Sends a message. */
static void send(void)
{
	lock_acquire(&peer.lock);
	local_tx_end(l, &peer, true);
}

/* The doorbell of a message also covers progress published before it. */
static void the_reply_rings_for_both(void **state)
{
	local_queue_bell(l, &peer, true);
	assert_true(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	send();
	assert_int_equal(doorbells(), 1);
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 0);
}

/* The peer reads all progress before it sleeps again. */
static void a_reply_to_an_awake_peer_needs_no_doorbell(void **state)
{
	local_queue_bell(l, &peer, true);
	assert_true(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	asleep = 0;
	send();
	asleep = 1;
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 0);
}

/*
 * Another thread sends after the progress word was published and before the lane's tail shows it:
 * the woken peer finds nothing and sleeps again, so it must be woken once more.
 */
static void a_send_before_the_tail_moves_rings_again(void **state)
{
	local_queue_bell(l, &peer, false);
	send();
	assert_int_equal(doorbells(), 1);
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 1);
}

/* The same while an older doorbell is delayed. */
static void a_reply_does_not_cover_later_progress(void **state)
{
	local_queue_bell(l, &peer, true);
	assert_true(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	send();
	assert_int_equal(doorbells(), 1);
	local_queue_bell(l, &peer, true);
	assert_true(local_ring_bells(l, BELLS_EXPECT_ANSWERS));
	assert_false(local_ring_bells(l, BELLS_NOW));
	assert_int_equal(doorbells(), 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_peer_that_sleeps_is_woken_once),
		CASE(a_polling_peer_gets_no_doorbell),
		CASE(a_doorbell_is_delayed_while_a_reply_is_expected),
		CASE(a_polling_thread_delays_all_doorbells),
		CASE(the_reply_rings_for_both),
		CASE(a_reply_to_an_awake_peer_needs_no_doorbell),
		CASE(a_send_before_the_tail_moves_rings_again),
		CASE(a_reply_does_not_cover_later_progress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
