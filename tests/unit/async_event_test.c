/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues: the descriptor is readable exactly while the queue is not empty, threads may take
 * and remove events at the same time, and acknowledgements are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "core/cq/async_event.h"
#include "util/atomic.h"

struct item {
	struct list node;
	int number;
};

static struct vrb_event_queue q;

static int setup(void **state)
{
	return vrb_event_queue_init(&q);
}

static int teardown(void **state)
{
	vrb_event_queue_destroy(&q);
	return 0;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void nonblocking(void)
{
	assert_int_equal(fcntl(q.fd, F_SETFL, fcntl(q.fd, F_GETFL) | O_NONBLOCK), 0);
}

static int take(void)
{
	struct list *node;

	assert_int_equal(vrb_event_queue_take(&q, &node), 0);
	lock_release(&q.lock);
	return list_entry(node, struct item, node)->number;
}

static void order_and_readiness(void **state)
{
	struct item items[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };

	assert_false(readable(q.fd));
	for (int i = 0; i < 3; i++)
		assert_true(vrb_event_queue_push(&q, &items[i].node));
	for (int i = 0; i < 3; i++) {
		assert_true(readable(q.fd));
		assert_int_equal(take(), i);
	}
	assert_false(readable(q.fd));
}

static void an_empty_queue_is_eagain(void **state)
{
	struct list *node;

	nonblocking();
	assert_int_equal(vrb_event_queue_take(&q, &node), EAGAIN);
}

static void removed_events_are_not_delivered(void **state)
{
	struct item items[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };

	nonblocking();
	for (int i = 0; i < 3; i++)
		vrb_event_queue_push(&q, &items[i].node);
	lock_acquire(&q.lock);
	vrb_event_queue_remove_locked(&q, &items[1].node);
	lock_release(&q.lock);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), 2);
	assert_false(readable(q.fd));
}

static void a_closed_queue_accepts_no_event(void **state)
{
	struct vrb_event_queue other;
	struct item item;

	assert_int_equal(vrb_event_queue_init(&other), 0);
	vrb_event_queue_close(&other);
	assert_false(vrb_event_queue_push(&other, &item.node));
	lock_destroy(&other.lock);
}

/*
 * Threads take events while another one removes them: each event is handled by exactly one of them,
 * and no thread hangs.
 */
enum { ITEMS = 4000, TAKERS = 2 };

static struct item many[ITEMS];
static uint32_t taken[ITEMS];

static void *taker(void *arg)
{
	for (;;) {
		struct list *node;
		int number;

		if (vrb_event_queue_take(&q, &node))
			return NULL;
		number = list_entry(node, struct item, node)->number;
		lock_release(&q.lock);
		if (number < 0)
			return NULL;
		fetch_add_relaxed(&taken[number], 1);
	}
}

static void takers_and_removers(void **state)
{
	struct item last[TAKERS] = { { .number = -1 }, { .number = -1 } };
	pthread_t threads[TAKERS];

	for (int i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, taker, NULL), 0);
	for (int i = 0; i < ITEMS; i++) {
		many[i].number = i;
		list_init(&many[i].node);
		vrb_event_queue_push(&q, &many[i].node);
		if (i % 3)
			continue;
		lock_acquire(&q.lock);
		/* Remove it if it is still queued. */
		if (!list_empty(&many[i].node)) {
			vrb_event_queue_remove_locked(&q, &many[i].node);
			fetch_add_relaxed(&taken[i], 1);
		}
		lock_release(&q.lock);
	}
	for (int i = 0; i < TAKERS; i++)
		vrb_event_queue_push(&q, &last[i].node);
	for (int i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < ITEMS; i++)
		assert_int_equal(taken[i], 1);
}

/* ---- Events of a context ---- */

static struct vrb_context ctx;
static struct ibv_cq cq;
static struct vrb_event_acks acks;

static int setup_context(void **state)
{
	ctx = (struct vrb_context){ 0 };
	cq = (struct ibv_cq){ .context = &ctx.vctx.context };
	pthread_mutex_init(&cq.mutex, NULL);
	pthread_cond_init(&cq.cond, NULL);
	vrb_event_acks_init(&acks, &cq.mutex, &cq.cond, &cq.async_events_completed);
	return vrb_event_queue_init(&ctx.events);
}

static int teardown_context(void **state)
{
	vrb_event_forget(&ctx, NULL);
	vrb_event_queue_destroy(&ctx.events);
	return 0;
}

static void events_carry_their_object(void **state)
{
	struct ibv_async_event ev;

	vrb_event_cq(&cq, &acks, IBV_EVENT_CQ_ERR);
	vrb_event_port(&ctx, IBV_EVENT_GID_CHANGE);
	assert_int_equal(vrb_event_get(&ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, &cq);
	assert_int_equal(acks.missing, 1);
	assert_int_equal(cq.async_events_completed, 0);
	vrb_event_acked(&acks, 1);
	assert_int_equal(acks.missing, 0);
	assert_int_equal(cq.async_events_completed, 1);
	/* Acknowledging an event that was never delivered has no effect. */
	vrb_event_acked(&acks, 1);
	assert_int_equal(acks.missing, 0);
	assert_int_equal(cq.async_events_completed, 1);
	assert_int_equal(vrb_event_get(&ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ev.element.port_num, 1);
}

static void events_of_a_destroyed_object_are_dropped(void **state)
{
	struct ibv_async_event ev;

	vrb_event_cq(&cq, &acks, IBV_EVENT_CQ_ERR);
	vrb_event_port(&ctx, IBV_EVENT_PORT_ERR);
	vrb_event_forget(&ctx, &cq);
	assert_int_equal(vrb_event_get(&ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ERR);
	assert_false(readable(ctx.events.fd));
}

static void *acknowledge(void *arg)
{
	vrb_event_acked(arg, 1);
	return NULL;
}

static void destruction_waits_for_the_acknowledgement(void **state)
{
	struct ibv_async_event ev;
	pthread_t thread;

	vrb_event_cq(&cq, &acks, IBV_EVENT_CQ_ERR);
	assert_int_equal(vrb_event_get(&ctx, &ev), 0);
	vrb_event_forget(&ctx, &cq);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge, &acks), 0);
	vrb_event_wait_acked(&acks);
	assert_int_equal(cq.async_events_completed, 1);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(order_and_readiness, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_queue_is_eagain, setup, teardown),
		cmocka_unit_test_setup_teardown(removed_events_are_not_delivered, setup, teardown),
		cmocka_unit_test(a_closed_queue_accepts_no_event),
		cmocka_unit_test_setup_teardown(takers_and_removers, setup, teardown),
		cmocka_unit_test_setup_teardown(events_carry_their_object, setup_context,
						teardown_context),
		cmocka_unit_test_setup_teardown(events_of_a_destroyed_object_are_dropped,
						setup_context, teardown_context),
		cmocka_unit_test_setup_teardown(destruction_waits_for_the_acknowledgement,
						setup_context, teardown_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
