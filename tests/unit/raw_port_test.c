/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many frames are read from an interface, and when: a QP that has run out of receives is waited
 * for, but not for long, and others hardly notice. The clock is virtual.
 */
#include "core/raw/raw_port.h"

#include "core_env.h"

#include "core/device/device.h"
#include "core/qp/qp.h"
#include "core/raw/raw_tx.h"

enum {
	ALL = 64,	/* frames that are read at a time */
	QPS = 2,
	LOOKS = 100000,
};

#define TICK (10 * VRB_USEC)

static struct vrb_context *ctx;
static struct vrb_device dev;
static struct vrb_raw_port raw;
static struct vrb_qp *qp[QPS];
static unsigned int asked;	/* frames that the last call asked for; 0: there was none */
static uint64_t now;

static bool ready(const struct raw_port *p)
{
	return true;
}

static unsigned int receive(struct raw_port *p, unsigned int most, uint64_t at, raw_frame_fn fn,
			    void *arg)
{
	asked = most;
	return 0;
}

static const struct raw_ops ops = { .ready = ready, .recv = receive };
static struct raw_port port = { .ops = &ops };

static int set_up(void **state)
{
	ctx = core_env_open();
	now = VRB_SECOND;
	raw = (struct vrb_raw_port){ .dev = &dev, .port = &port };
	list_init(&raw.receivers);
	list_add_tail(&vrb_raw_open_ports, &raw.node);
	for (int i = 0; i < QPS; i++) {
		qp[i] = calloc(1, sizeof(*qp[i]));
		assert_non_null(qp[i]);
		vrb_qp_init(qp[i], IBV_QPT_RAW_PACKET, &vrb_raw_ops);
		qp[i]->config.ctx = ctx;
		qp[i]->wq.state = IBV_QPS_RTS;
		qp[i]->dispatch.raw_receiving = true;
		list_add_tail(&raw.receivers, &qp[i]->dispatch.raw_node);
	}
	return 0;
}

static int tear_down(void **state)
{
	list_del(&raw.node);
	for (int i = 0; i < QPS; i++) {
		vrb_qp_fini(qp[i]);
		free(qp[i]);
	}
	core_env_close(ctx);
	return 0;
}

static void post(int i, unsigned int n)
{
	qp[i]->wq.rq.head = qp[i]->wq.rq.next + n;
}

/* Returns how many frames are read now. */
static unsigned int look(void)
{
	asked = 0;
	assert_false(vrb_raw_take(now));
	return asked;
}

/* Returns how long no frames are read from now on. */
static uint64_t hold(void)
{
	uint64_t since = now;

	while (!look())
		now += TICK;
	return now - since;
}

static void as_many_as_every_receiver_can_take(void **state)
{
	post(0, 5);
	post(1, 200);
	assert_int_equal(look(), 5);
	post(0, 200);
	assert_int_equal(look(), ALL);
	qp[0]->dispatch.raw_receiving = false;
	post(0, 0);
	assert_int_equal(look(), ALL);
}

static void frames_wait_for_a_receive_but_once(void **state)
{
	assert_int_equal(look(), 0);
	assert_int_equal(hold(), 50 * VRB_MSEC);
	now += TICK;
	assert_int_equal(hold(), 0);
	/* A repost ends the wait. */
	qp[0]->dispatch.raw_receiving = true;
	assert_int_equal(look(), 0);
	post(0, 3);
	assert_int_equal(look(), 3);
}

static void others_wait_a_shorter_time(void **state)
{
	post(1, 7);
	assert_int_equal(hold(), 4 * VRB_MSEC);
	assert_int_equal(asked, 7);
	/* also one that has had no frame yet */
	now += VRB_SECOND;
	qp[0]->dispatch.raw_receiving = true;
	qp[1]->dispatch.raw_receiving = false;
	assert_int_equal(hold(), 4 * VRB_MSEC);
}

/* It posts one receive each millisecond, and a frame takes it at once. */
static void a_slow_receiver_does_not_slow_others_down(void **state)
{
	unsigned int served = 0;

	post(1, 200);
	for (unsigned int i = 0; i < LOOKS; i++, now += TICK) {
		if (i % (VRB_MSEC / TICK) == 0)
			post(0, 1);
		if (!look())
			continue;
		served++;
		if (qp[0]->wq.rq.head != qp[0]->wq.rq.next) {
			post(0, 0);
			qp[0]->dispatch.raw_receiving = true;
		}
	}
	assert_true(served >= LOOKS / 2 - 4 * VRB_MSEC / TICK);
}

static void a_qp_that_cannot_receive_is_not_waited_for(void **state)
{
	post(1, 7);
	qp[0]->wq.state = IBV_QPS_ERR;
	assert_int_equal(look(), 7);
	qp[0]->wq.state = IBV_QPS_RESET;
	assert_int_equal(look(), 7);
	/* Nor does it shorten the wait for another. */
	post(1, 0);
	assert_int_equal(hold(), 50 * VRB_MSEC);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(as_many_as_every_receiver_can_take),
		TEST(frames_wait_for_a_receive_but_once),
		TEST(others_wait_a_shorter_time),
		TEST(a_slow_receiver_does_not_slow_others_down),
		TEST(a_qp_that_cannot_receive_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
