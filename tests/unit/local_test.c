/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a process with local peers may sleep. Two members of a host in this process: one sends
 * messages, the other receives them.
 */
#include "local/local.h"

#include "host_env.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "local/message.h"
#include "local/parts.h"
#include "local/peer.h"
#include "local/segment.h"
#include "run/clock.h"
#include "util/time.h"
#include "util/tuning.h"

enum { NETNS = 42, SENDER = 0, RECEIVER, MEMBERS, SUCCESSORS = 20 };

#define LONG_ACCESS (VRB_SECOND / 2)

/* How often the clock was read, and the seconds for which this process was stopped; atomic. */
static unsigned int clock_reads, stopped_s;

int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	t->tv_sec += load_acquire(&stopped_s);
	fetch_add_relaxed(&clock_reads, 1);
	return ret;
}

static struct host *host[MEMBERS];
static struct local *local[MEMBERS];
static struct local_peer *to;		/* the receiver, as the sender sees it */
static struct message_sender sender;

static void ignore_packet(void *arg, const struct local_pkt *pkt)
{
}

static bool ignore_message(void *arg, struct lane_rx *rx, int32_t slot,
			 const struct lane_head *head, const uint8_t *data, bool more)
{
	return false;
}

static const struct local_input ignore_input = { ignore_packet, ignore_message };

static int set_up(void **state)
{
	make_run_dir(state);
	for (int i = 0; i < MEMBERS; i++) {
		host[i] = join();
		assert_int_equal(local_start(host[i], NETNS, &local[i]), 0);
	}
	to = local_peer_in(local[SENDER], host_slot(host[RECEIVER]));
	assert_non_null(to);
	message_sender_init(&sender);
	local_recv(local[RECEIVER], 1, &ignore_input, NULL);	/* announcement of the lane */
	return 0;
}

static int tear_down(void **state)
{
	local_peer_put(local[SENDER], to);
	for (int i = 0; i < MEMBERS; i++) {
		local_stop(local[i]);
		host_leave(host[i]);
	}
	return remove_run_dir(state);
}

static void send_message(void)
{
	struct lane_head head = { .where = LANE_INLINE };
	struct lane_tx *tx = local_tx_begin(to);

	assert_true(lane_tx_room(tx, MESSAGE_HEADER));
	message_sent(&to->senders, &sender, tx->head);
	message_put(tx, &head, &(struct message){ .op = MESSAGE_SEND });
	local_tx_end(local[SENDER], to, true);
}

static bool sleeps(int i)
{
	bool asleep = local_sleep(local[i]);

	assert_int_equal(local_sleeps(local[i]), asleep);
	return asleep;
}

static void a_slot_keeps_its_receiver_awake(void **state)
{
	assert_true(sleeps(RECEIVER));
	send_message();
	assert_false(sleeps(RECEIVER));
	assert_int_equal(local_recv(local[RECEIVER], 1, &ignore_input, NULL), 1);
	assert_true(sleeps(RECEIVER));
	local_forget_sender(to, &sender);
}

/* The receiver sees that the sender is awake and rings no doorbell. */
static void an_awaited_tail_keeps_its_sender_awake(void **state)
{
	assert_true(sleeps(SENDER));
	send_message();
	assert_true(sleeps(SENDER));
	assert_int_equal(local_recv(local[RECEIVER], 1, &ignore_input, NULL), 1);
	assert_false(sleeps(SENDER));
	assert_ptr_equal(local_next_sender(local[SENDER]), &sender);
	assert_null(local_next_sender(local[SENDER]));
	assert_true(sleeps(SENDER));
}

static void an_unchanged_tail_lets_its_sender_sleep(void **state)
{
	send_message();
	local_forget_sender(to, &sender);
	assert_int_equal(local_recv(local[RECEIVER], 1, &ignore_input, NULL), 1);
	assert_true(sleeps(SENDER));
	assert_null(local_next_sender(local[SENDER]));
}

static bool polled(int i)
{
	return load_relaxed(&segment_header(local_segment(local[i]))->polled);
}

static void poll_steadily(int i)
{
	for (int n = 0; n < TUNE_POLL_HANDOFF; n++) {
		local_polled(local[i]);
		assert_false(polled(i));
	}
	local_polled(local[i]);
	assert_int_equal(polled(i), segment_header(local_segment(local[i]))->heavy);
}

/* Senders have full fences again while it sleeps, until the program polls steadily again. */
static void a_sleep_ends_steady_polls(void **state)
{
	poll_steadily(RECEIVER);
	assert_true(sleeps(RECEIVER));
	assert_false(polled(RECEIVER));
	local_wake(local[RECEIVER]);
	poll_steadily(RECEIVER);
	send_message();
	assert_false(sleeps(RECEIVER));
	assert_false(polled(RECEIVER));
	local_forget_sender(to, &sender);
}

static bool over, left;	/* atomic: the access, the wait for it */

static void *look_at_hazards(void *arg)
{
	while (!load_relaxed(&over)) {
		local_wait_quiet(local[RECEIVER]);
		local_region_ended(local[RECEIVER]);
	}
	return NULL;
}

/* The sender's process leaves; another one in its slot gets its lane once that is clear. */
static void replace_sender(void)
{
	local_peer_put(local[SENDER], to);
	local_stop(local[SENDER]);
	host_leave(host[SENDER]);
	host[SENDER] = join();
	assert_int_equal(local_start(host[SENDER], NETNS, &local[SENDER]), 0);
	while (!(to = local_peer_in(local[SENDER], host_slot(host[RECEIVER]))))
		local_recv(local[RECEIVER], 1, &ignore_input, NULL);
}

/* No lock excludes the two threads, so each word must be atomic; ThreadSanitizer sees that. */
static void a_lane_is_cleared_while_another_thread_looks_at_its_hazards(void **state)
{
	pthread_t looker;

	store_relaxed(&over, false);
	assert_int_equal(pthread_create(&looker, NULL, look_at_hazards, NULL), 0);
	for (int i = 0; i < SUCCESSORS; i++) {
		uint64_t gone = host_incarnation(host[SENDER]);

		assert_non_null(local_lane_from(local[RECEIVER], gone));
		replace_sender();
		while (!local_lane_from(local[RECEIVER], host_incarnation(host[SENDER])))
			local_recv(local[RECEIVER], 1, &ignore_input, NULL);
		assert_null(local_lane_from(local[RECEIVER], gone));
	}
	store_relaxed(&over, true);
	assert_int_equal(pthread_join(looker, NULL), 0);
}

static void *wait_quiet(void *arg)
{
	bool *waited = arg;

	local_wait_quiet(local[RECEIVER]);
	*waited = load_acquire(&over);
	return NULL;
}

/* As after a long copy, or one whose process gets little of a CPU. */
static void an_access_is_waited_for_while_its_process_runs(void **state)
{
	uint32_t *hazard = to->map.lane->hazard;
	uint64_t start = clock_now();
	pthread_t waiter;
	bool waited;

	store_relaxed(&over, false);
	store_release(hazard, 1);
	assert_int_equal(pthread_create(&waiter, NULL, wait_quiet, &waited), 0);
	while (clock_now() - start < LONG_ACCESS)
		sched_yield();
	store_release(&over, true);
	store_release(hazard, 0);
	assert_int_equal(pthread_join(waiter, NULL), 0);
	assert_true(waited);
}

static void await_reads(unsigned int n)
{
	for (unsigned int begin = load_relaxed(&clock_reads);
	     load_relaxed(&clock_reads) - begin < n && !load_relaxed(&left);)
		sched_yield();
}

static void *wait_unused(void *arg)
{
	bool *waited = arg;

	local_wait_unused(local[RECEIVER], 1);
	*waited = load_acquire(&over);
	store_relaxed(&left, true);
	return NULL;
}

/* The process that waits was stopped, perhaps along with the other one. */
static void a_stop_of_the_waiting_process_ends_no_access(void **state)
{
	uint32_t *hazard = to->map.lane->hazard;
	pthread_t waiter;
	bool waited;

	store_relaxed(&over, false);
	store_relaxed(&left, false);
	store_release(hazard, 1);
	assert_int_equal(pthread_create(&waiter, NULL, wait_unused, &waited), 0);
	await_reads(10);
	store_release(&stopped_s, 60);
	await_reads(10);
	store_release(&over, true);
	store_release(hazard, 0);
	assert_int_equal(pthread_join(waiter, NULL), 0);
	assert_true(waited);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_slot_keeps_its_receiver_awake),
		CASE(an_awaited_tail_keeps_its_sender_awake),
		CASE(an_unchanged_tail_lets_its_sender_sleep),
		CASE(a_sleep_ends_steady_polls),
		CASE(a_lane_is_cleared_while_another_thread_looks_at_its_hazards),
		CASE(an_access_is_waited_for_while_its_process_runs),
		CASE(a_stop_of_the_waiting_process_ends_no_access),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
