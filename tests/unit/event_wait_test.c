/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Getting a completion event from a nonblocking channel: EAGAIN if none is pending, without
 * polling, even if waits have been so short that a blocking call would poll. If several threads get
 * events, each event is returned once.
 */
#include "core/fastpath/event_wait.h"

#include "core_env.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include "core/cq/comp_channel.h"
#include "core/cq/cq.h"
#include "core/fastpath/poll.h"
#include "core/progress/poll_loop.h"
#include "run/clock.h"
#include "util/atomic.h"

enum {
	EVENTS = 2000,
	TAKERS = 3,
};

static struct vrb_context *ctx;
static struct vrb_channel *channel;
static struct vrb_cq *cq;

static void complete(void)
{
	static const struct wq_cqe wc;

	vrb_cq_add(cq, NULL, NULL, 0, &wc, 0);
}

/* A completion that only polling finds, like a packet in a socket. */
static struct object_timer arrival;

static void arrives(struct object_timer *t, struct expiry *e)
{
	complete();
}

static void expect_success(void)
{
	struct ibv_wc wc;

	assert_int_equal(vrb_cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* As if the last waits had been short: the next one starts by polling. */
static void expect_short_waits(void)
{
	struct busy_poll *p = &channel->busy_poll;

	store_relaxed(&p->step, 0);
	store_relaxed(&p->sleeps, 0);
}

static int take(void)
{
	struct vrb_cq *from;
	int ret = vrb_channel_take(channel, &from);

	if (ret)
		return ret;
	assert_ptr_equal(from, cq);
	vrb_event_acked(&cq->comp_acks, 1);
	return 0;
}

static void set_flags(int flags)
{
	assert_int_equal(fcntl(channel->ibv.fd, F_SETFL, flags), 0);
}

/* The progress thread is needed for a wait that is long enough to end the polling. */
static void only_a_blocking_call_waits(void **state)
{
	expect_short_waits();
	vrb_cq_arm(cq, false);
	vrb_timer_set(&arrival, clock_now());
	assert_int_equal(take(), EAGAIN);
	assert_true(vrb_cq_looks_empty(cq));
	assert_int_equal(progress_start(vrb.progress), 0);
	expect_short_waits();
	set_flags(0);
	assert_int_equal(take(), 0);
	set_flags(O_NONBLOCK);
	progress_stop(vrb.progress);
	expect_success();
	assert_int_equal(take(), EAGAIN);
}

/* poll(2) reports an event, and another thread takes it. */
static void *take_one(void *result)
{
	*(int *)result = take();
	return NULL;
}

static void another_thread_gets_it_between_poll_and_read(void **state)
{
	struct pollfd p = { .fd = channel->ibv.fd, .events = POLLIN };
	pthread_t other;
	int result;

	expect_short_waits();
	vrb_cq_arm(cq, false);
	complete();
	expect_success();
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(pthread_create(&other, NULL, take_one, &result), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(result, 0);
	assert_int_equal(take(), EAGAIN);
	assert_int_equal(poll(&p, 1, 0), 0);
}

static unsigned int taken;	/* atomic */

static void *take_all(void *arg)
{
	while (load_relaxed(&taken) < EVENTS) {
		int ret = take();

		if (!ret)
			fetch_add_relaxed(&taken, 1);
		else if (ret == EAGAIN)
			sched_yield();
		else
			return (void *)"an unexpected errno";
	}
	return NULL;
}

static void several_threads_get_each_event_once(void **state)
{
	pthread_t taker[TAKERS];
	void *result;

	taken = 0;
	for (int i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&taker[i], NULL, take_all, NULL), 0);
	for (unsigned int i = 0; i < EVENTS; i++) {
		expect_short_waits();
		vrb_cq_arm(cq, false);
		complete();
		expect_success();
	}
	for (int i = 0; i < TAKERS; i++) {
		assert_int_equal(pthread_join(taker[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(load_relaxed(&taken), EVENTS);
	assert_int_equal(take(), EAGAIN);
}

static int set_up(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };

	ctx = core_env_open();
	progress_free(vrb.progress);
	assert_int_equal(progress_new(&vrb_progress_ops, NULL, &vrb.progress), 0);
	assert_int_equal(vrb_channel_create(ctx, &channel), 0);
	attr.channel = &channel->ibv;
	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	assert_int_equal(vrb_timer_add(&arrival, arrives), 0);
	set_flags(O_NONBLOCK);
	return 0;
}

static int tear_down(void **state)
{
	vrb_timer_remove(&arrival);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_channel_destroy(channel), 0);
	core_env_close(ctx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_blocking_call_waits),
		cmocka_unit_test(another_thread_gets_it_between_poll_and_read),
		cmocka_unit_test(several_threads_get_each_event_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
