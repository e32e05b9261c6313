/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs to another process of the host whose inbox is full.  The other one is a second member of the
 * host in this process, whose inbox is read by hand; timers expire at times that the test chooses.
 */
#include "core/mad/gsi.h"

#include "core_env.h"

#include "core/base/object_timer.h"
#include "host/host.h"
#include "place.h"
#include "run/clock.h"
#include "util/be.h"

enum {
	MADS = 200,
	IN_VAIN = 10,
	DREQ = 0x15,
	ATTRIBUTE_AT = 17,
	DATA_AT = 24,
	ID_BITS = 22,
};

/* A full inbox is tried again so soon after it was found with room, */
#define SOON (100 * VRB_USEC)
/* and at the latest after */
#define LATE (64 * VRB_MSEC)

static const struct net_addr self = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };
static struct vrb_context *ctx;
static struct host *other;
static uint32_t sent, received;

/* The n-th to the other process, by an id of its slot. */
static void send_next(void)
{
	const struct net_path path = { .src = self, .dst = self };
	uint8_t mad[HOST_MAD_LEN] = { 1, 7, 2, 3 };

	mad[ATTRIBUTE_AT] = DREQ;
	put_be32(mad + DATA_AT, ++sent);
	put_be32(mad + DATA_AT + 4, (uint32_t)host_slot(other) << ID_BITS | 1);
	assert_int_equal(vrb_gsi_send(&path, mad), 0);
}

/* Empties the inbox; what comes is next in order. */
static unsigned int receive_all(void)
{
	uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	unsigned int n = 0;
	size_t len;

	for (; host_inbox_recv(other, &path, buf, &len) == HOST_MAD; n++) {
		assert_int_equal(len, HOST_MAD_LEN);
		assert_int_equal(get_be32(buf + DATA_AT), ++received);
	}
	return n;
}

static void expire(uint64_t now)
{
	struct expiry e = { .now = now };
	struct timer *t = timers_pop(vrb.timers, now);
	struct object_timer *d;

	if (!t)
		return;
	d = container_of(t, struct object_timer, timer);
	lock_acquire(&vrb.poll_lock);
	d->expire(d, &e);
	lock_release(&vrb.poll_lock);
}

static void a_full_inbox_is_refilled_as_often_as_it_is_emptied(void **state)
{
	unsigned int room, n;
	uint64_t now;

	while (sent < MADS)
		send_next();
	now = clock_now();
	for (int i = 0; i < IN_VAIN; i++)
		expire(now += LATE);
	room = receive_all();
	assert_in_range(room, 1, MADS / 4);
	expire(now += LATE);
	while ((n = receive_all())) {
		assert_true(n >= room || received == MADS);
		expire(now += SOON);
	}
	assert_int_equal(received, MADS);
	/* And what comes now finds an inbox with room, and nothing before it. */
	send_next();
	assert_int_equal(receive_all(), 1);
}

static char dir[64];

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_gsi_start(), 0);
	return host_join(dir, &other);
}

static int tear_down(void **state)
{
	host_leave(other);
	vrb_gsi_stop();
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_inbox_is_refilled_as_often_as_it_is_emptied),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
