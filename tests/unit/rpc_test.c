/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls to another process that is alive, but stopped or itself waiting. The test plays that
 * process and the clock: each reading takes a millisecond, or `jump` once.
 */
#include "core/xrc/rpc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/progress/poll_loop.h"
#include "host/host.h"
#include "run/clock.h"
#include "util/time.h"

enum { MANY = 1000000 };

struct vrb_process vrb;
static uint64_t now, jump;
static uint64_t replies_at;	/* it is stopped until then; 0: it is not */
static uint32_t asked;
static bool full, died, frees_when_polled, replies;
static unsigned int sends, polls;

uint64_t clock_now(void)
{
	now += now && jump ? jump : VRB_MSEC;
	jump = now == VRB_MSEC ? jump : 0;
	return now;
}

bool xrc_peer_find(struct xrc_peer *p, int slot)
{
	*p = (struct xrc_peer){ .slot = slot };
	return true;
}

void xrc_peer_drop(struct xrc_peer *p)
{
}

/* A call that has not ended by then would never end. */
bool xrc_peer_alive(struct xrc_peer *p, uint64_t at)
{
	return !died && sends < MANY;
}

bool host_is_stopped(struct host *h, int slot)
{
	return now < replies_at;
}

int xrc_send(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
	     const void *state, size_t state_len, const void *packet, size_t packet_len)
{
	struct xrc_msg m = { .head = { .seq = head->seq } };

	sends++;
	asked = head->seq;
	if (full)
		return EAGAIN;
	if (replies)
		xrc_take_reply(&m);
	return 0;
}

bool vrb_poll_messages(void)
{
	polls++;
	full &= !frees_when_polled;
	if (replies_at && now >= replies_at)
		xrc_take_reply(&(struct xrc_msg){ .head = { .seq = asked } });
	return true;
}

static int make(enum xrc_call what)
{
	return xrc_rpc(1, what, 0x123456, NULL, 0, NULL, 0, NULL, 0);
}

static int call(void)
{
	return make(XRC_CALL_CLOSE);
}

static int set_up(void **state)
{
	now = jump = replies_at = sends = polls = 0;
	full = died = frees_when_polled = replies = false;
	return 0;
}

static void a_stopped_process_without_room_times_out(void **state)
{
	full = true;
	assert_int_equal(call(), ETIMEDOUT);
	assert_in_range(now, 5 * VRB_SECOND, 6 * VRB_SECOND);
}

static void a_process_that_does_not_reply_times_out(void **state)
{
	assert_int_equal(call(), ETIMEDOUT);
	assert_in_range(now, 5 * VRB_SECOND, 6 * VRB_SECOND);
	assert_int_equal(sends, 1);
}

/* Two processes that call each other wait for room in each other's inbox. */
static void the_caller_takes_messages_while_it_waits_for_room(void **state)
{
	full = frees_when_polled = replies = true;
	assert_int_equal(call(), 0);
	assert_int_equal(polls, 1);
}

static void a_dead_process_ends_the_wait(void **state)
{
	full = died = true;
	assert_int_equal(call(), ESRCH);
}

/* As if it had been stopped between two looks, perhaps along with the other. */
static void a_stop_of_the_caller_does_not_count(void **state)
{
	jump = 60 * VRB_SECOND;
	replies_at = 61 * VRB_SECOND;
	assert_int_equal(call(), 0);
}

/* Without its answer the QP would be lost. */
static void a_stopped_successor_is_waited_for(void **state)
{
	replies_at = 600 * VRB_SECOND;
	assert_int_equal(make(XRC_CALL_IMPORT), 0);
}

static void a_successor_that_runs_is_waited_for_longer(void **state)
{
	assert_int_equal(make(XRC_CALL_IMPORT), ETIMEDOUT);
	assert_in_range(now, 60 * VRB_SECOND, 61 * VRB_SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_stopped_process_without_room_times_out, set_up),
		cmocka_unit_test_setup(a_process_that_does_not_reply_times_out, set_up),
		cmocka_unit_test_setup(the_caller_takes_messages_while_it_waits_for_room, set_up),
		cmocka_unit_test_setup(a_dead_process_ends_the_wait, set_up),
		cmocka_unit_test_setup(a_stop_of_the_caller_does_not_count, set_up),
		cmocka_unit_test_setup(a_stopped_successor_is_waited_for, set_up),
		cmocka_unit_test_setup(a_successor_that_runs_is_waited_for_longer, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
