/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that waits for an eventfd and serves the sockets meanwhile: MADs for this process write
 * it. The progress thread does not run; the test asks in its place whether to park.
 */
#include "core/progress/stand_in.h"

#include "core_env.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/path_flows.h"
#include "core/mad/gsi.h"
#include "core/progress/poll_loop.h"
#include "host/host.h"
#include "place.h"
#include "util/be.h"
#include "wire/udp.h"

enum {
	DREQ = 0x15,
	ATTRIBUTE_AT = 17,
	DATA_AT = 24,
	ID_BITS = 22,
	PARKS_MAX = 8,
};

#define SELF { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } }
static const struct net_path path = { .src = SELF, .dst = SELF };
static struct vrb_context *ctx;
static struct host *other;
static int event;

/* A MAD for this process. */
static const uint8_t *mad_for_us(void)
{
	static uint8_t mad[HOST_MAD_LEN] = { 1, 7, 2, 3, [ATTRIBUTE_AT] = DREQ };

	put_be32(mad + DATA_AT + 4, (uint32_t)host_slot(vrb.host) << ID_BITS | 1);
	return mad;
}

static void from_another_process(void)
{
	assert_int_equal(host_hand_mad(other, host_slot(vrb.host), 0, &path, mad_for_us()), 0);
}

static void by_wire(void)
{
	assert_int_equal(vrb_gsi_send(&path, mad_for_us()), 0);
}

static bool tried;	/* to stand in while this thread does */

static void receive(void *arg, const struct net_path *from, const uint8_t *mad, uint64_t now)
{
	const uint64_t one = 1;
	uint64_t count;

	assert_int_equal(vrb_stand_in_read(event, &count), EAGAIN);
	tried = true;
	assert_int_equal(write(event, &one, sizeof(one)), sizeof(one));
}

static void nothing_to_do(void *arg, uint64_t now)
{
}

/* Waits for the MAD; a thread without a CPU may have to stand in again. */
static void await_event(void)
{
	uint64_t count = 0;
	int ret;

	while ((ret = vrb_stand_in_read(event, &count)) == EAGAIN)
		;
	assert_int_equal(ret, 0);
	assert_int_equal(count, 1);
}

static void what_arrives_is_served(void **state)
{
	from_another_process();
	await_event();
	by_wire();
	await_event();
	assert_true(tried);
}

static void a_long_wait_ends(void **state)
{
	uint64_t count;

	assert_int_equal(vrb_stand_in_read(event, &count), EAGAIN);
	/* The progress thread is wanted at once. */
	assert_false(vrb_stand_in_park());
}

static void the_progress_thread_parks_and_looks_now_and_then(void **state)
{
	unsigned int parks;

	do {
		from_another_process();
		await_event();
		for (parks = 0; vrb_stand_in_park(); parks++)
			;
		assert_in_range(parks, 0, PARKS_MAX);
	} while (!parks);	/* this thread had no CPU for a while */

	from_another_process();
	await_event();
	vrb_stand_in_end();
	assert_false(vrb_stand_in_park());
}

static char dir[64];

static int set_up(void **state)
{
	static const struct vrb_gsi_ops ops = { .receive = receive, .timeout = nothing_to_do };

	setenv("VERBENA_TRANSPORT", "udp", 1);
	place_make_dir(dir);
	ctx = core_env_open();
	path_table_init(&vrb.paths);
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(host_join(dir, &other), 0);
	assert_int_equal(udp_open(place_free_port(), host_group(vrb.host), &vrb.wire), 0);
	assert_int_equal(vrb_progress_start(), 0);
	assert_int_equal(vrb_gsi_open(&ops, NULL), 0);
	event = eventfd(0, EFD_SEMAPHORE);
	return 0;
}

static int tear_down(void **state)
{
	close(event);
	vrb_gsi_close();
	vrb_progress_stop();
	wire_close(vrb.wire);
	host_leave(other);
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_arrives_is_served),
		cmocka_unit_test(a_long_wait_ends),
		cmocka_unit_test(the_progress_thread_parks_and_looks_now_and_then),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
