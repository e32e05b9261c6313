/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs to another process of the host whose inbox is full.  The other one is a second member of the
 * host in this process, whose inbox is read by hand; the progress thread is stopped, and timers
 * expire at times that the test chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include "core/base/state.h"
#include "core/mad/gsi.h"
#include "core/progress/poll_loop.h"
#include "host/host.h"
#include "place.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/be.h"
#include "util/time.h"

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
static struct ibv_context *ctx;
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

static void a_full_inbox_is_refilled_as_often_as_it_is_emptied(void **state)
{
	unsigned int room, n;
	uint64_t now;

	while (sent < MADS)
		send_next();
	now = clock_now();
	for (int i = 0; i < IN_VAIN; i++)
		vrb_progress_ops.expire(NULL, now += LATE);
	room = receive_all();
	assert_in_range(room, 1, MADS / 4);
	vrb_progress_ops.expire(NULL, now += LATE);
	while ((n = receive_all())) {
		assert_true(n >= room || received == MADS);
		vrb_progress_ops.expire(NULL, now += SOON);
	}
	assert_int_equal(received, MADS);
	/* And what comes now finds an inbox with room, and nothing before it. */
	send_next();
	assert_int_equal(receive_all(), 1);
}

static char dir[64];

static int set_up(void **state)
{
	struct ibv_device **list;
	char port[8];
	int n = 0;

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_TRANSPORT", "auto", 1);
	setenv("VERBENA_LOG", "off", 0);
	list = ibv_get_device_list(&n);
	ctx = n ? ibv_open_device(list[n - 1]) : NULL;
	ibv_free_device_list(list);
	assert_non_null(ctx);
	progress_stop(vrb.progress);
	return host_join(dir, &other);
}

static int tear_down(void **state)
{
	host_leave(other);
	assert_int_equal(ibv_close_device(ctx), 0);
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
