/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of the connection manager: when messages are retransmitted, how long timewait lasts, and
 * the effect of an MRA.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm_env.h"
#include "util/compiler.h"

static struct cm_env e;

/*
 * How often a message is sent, at which intervals, and the result. `early` retransmissions come
 * before the first interval is over, to recover from a loss sooner.
 */
static const struct retry_row {
	enum cm_state state;
	unsigned int early;
	uint64_t first_ms, next_ms;
	enum cm_type sent;
	enum cm_state to;
	int event;
} retry_rows[] = {
	{ CM_REQ_SENT, 2, 2 * 1024 + 4096, 2 * 1024 + 4096, CM_REQ, CM_IDLE, CM_EV_UNREACHABLE },
	{ CM_MRA_REQ_RCVD, 0, 65536 + 2048, 2 * 1024 + 4096, CM_REQ, CM_IDLE, CM_EV_UNREACHABLE },
	{ CM_REP_SENT, 2, 4096, 4096, CM_REP, CM_IDLE, CM_EV_UNREACHABLE },
	{ CM_MRA_REP_RCVD, 0, 65536 + 2048, 4096, CM_REP, CM_IDLE, CM_EV_UNREACHABLE },
	{ CM_DREQ_SENT, 2, 2 * 1024 + 4096, 2 * 1024 + 4096, CM_DREQ, CM_TIMEWAIT,
	  CM_EV_DISCONNECTED },
	{ CM_SIDR_REQ_SENT, 2, 4096, 4096, CM_SIDR_REQ, CM_IDLE, CM_EV_UNREACHABLE },
};

static void retries(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(retry_rows); i++) {
		const struct retry_row *r = &retry_rows[i];
		uint64_t since, expected;
		bool asks;

		env_init(&e);
		env_reach(&e, r->state);
		since = e.now;
		for (unsigned int n = 0; n < r->early; n++) {
			assert_true(env_wait(&e));
			assert_true(e.now - since == r->first_ms * VRB_MSEC / (n ? 4 : 16));
		}
		for (unsigned int n = r->early; n < r->early + 15; n++) {
			assert_true(env_wait(&e));
			expected = (n > r->early ? r->next_ms : r->first_ms) * VRB_MSEC;
			assert_true(e.now - since == expected);
			since = e.now;
			assert_int_equal(e.num_sent, n + 1);
			assert_int_equal(e.sent[n].type, r->sent);
			assert_memory_equal(&e.sent[n], &e.sent[0], sizeof(e.sent[0]));
		}
		assert_int_equal(e.num_raised, 0);
		asks = r->state == CM_REQ_SENT || r->state == CM_SIDR_REQ_SENT;
		assert_int_equal(e.num_late, asks ? r->early + 15 : 0);
		assert_true(env_wait(&e));
		assert_int_equal(e.num_sent, r->early + 15);
		assert_int_equal(e.conn[0].state, r->to);
		assert_int_equal(e.num_raised, 1);
		assert_int_equal(e.raised[0].type, r->event);
		assert_int_equal(e.raised[0].status, -ETIMEDOUT);
	}
}

/* The caller wants no repetition: the request is over, as after the last one. */
static void impatient(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(retry_rows); i++) {
		const struct retry_row *r = &retry_rows[i];
		bool asks = r->state == CM_REQ_SENT || r->state == CM_SIDR_REQ_SENT;

		env_init(&e);
		env_reach(&e, r->state);
		e.impatient = true;
		assert_true(env_wait(&e));
		assert_int_equal(e.num_sent, asks ? 0 : 1);
		assert_int_equal(e.conn[0].state, asks ? r->to : r->state);
		assert_int_equal(e.num_raised, asks);
	}
}

/* The first retransmission is known to fail: no other follows, and no time passes. */
static void unanswerable(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(retry_rows); i++) {
		const struct retry_row *r = &retry_rows[i];
		uint64_t since;

		env_init(&e);
		env_reach(&e, r->state);
		e.unanswerable = true;
		assert_true(env_wait(&e));
		since = e.now;
		while (!e.num_raised)
			assert_true(env_wait(&e));
		assert_true(e.now == since);
		assert_int_equal(e.num_sent, 1);
		assert_int_equal(e.conn[0].state, r->to);
		assert_int_equal(e.raised[0].type, r->event);
		assert_int_equal(e.raised[0].status, -ETIMEDOUT);
	}
}

/*
 * A process that was stopped beyond all repetitions has repeated nothing when it goes on: answers
 * may come first, for which its full inbox had no room.
 */
static void stopped(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(retry_rows); i++) {
		const struct retry_row *r = &retry_rows[i];

		env_init(&e);
		env_reach(&e, r->state);
		e.now += 1000 * VRB_SECOND;
		cm_timeout(&e.cm, e.now);
		assert_int_equal(e.num_sent, 0);
		assert_int_equal(e.num_raised, 0);
		assert_int_equal(cm_next_timeout(&e.cm) - e.now, 64 * VRB_MSEC);
		assert_true(env_wait(&e));
		assert_int_equal(e.num_sent, 1);
		assert_int_equal(e.sent[0].type, r->sent);
	}
}

static void timewait(void **state)
{
	struct cm_msg dreq = env_msg(CM_DREQ);
	uint64_t since;

	env_init(&e);
	env_reach(&e, CM_TIMEWAIT);
	since = e.now;
	env_receive(&e, &dreq);
	assert_int_equal(e.sent[0].type, CM_DREP);
	assert_true(env_wait(&e));
	/* rounded up, so that many connections end together */
	assert_true(e.now - since >= 2048 * VRB_MSEC);
	assert_true(e.now - since < (2048 + 2048 / 32) * VRB_MSEC);
	assert_true(e.now % (2048 / 32 * VRB_MSEC) == 0);
	assert_int_equal(e.raised[0].type, CM_EV_TIMEWAIT_EXIT);
	assert_false(env_wait(&e));
	/* The connection has ended, but its DREQ is answered. */
	env_receive(&e, &dreq);
	assert_int_equal(e.sent[1].type, CM_DREP);
}

/* A second MRA does not make the wait longer. */
static void second_mra_is_ignored(void **state)
{
	struct cm_msg m = env_msg(CM_MRA);
	uint64_t at;

	env_init(&e);
	env_reach(&e, CM_MRA_REQ_RCVD);
	at = cm_next_timeout(&e.cm);
	e.now += VRB_SECOND;
	m.mra.service_timeout = 31;
	env_receive(&e, &m);
	assert_true(cm_next_timeout(&e.cm) == at);
}

/* An MRA for another message than the outstanding one. */
static void mra_for_another_message(void **state)
{
	struct cm_msg m = env_msg(CM_MRA);

	env_init(&e);
	env_reach(&e, CM_REP_SENT);
	m.mra.about = CM_ABOUT_OTHER;
	env_receive(&e, &m);
	assert_int_equal(e.conn[0].state, CM_REP_SENT);
}

/* Many deadlines, compared with a plain search for the earliest. */
static void deadlines_in_order(void **state)
{
	uint64_t last = 0;

	env_init(&e);
	for (unsigned int i = 0; i < ENV_CONNS; i++) {
		struct cm_req req = env_req();
		struct net_path path = env_path();

		req.max_cm_retries = 3;
		e.now += i * 7919 % 13 * VRB_MSEC;
		cm_connect(&e.cm, env_conn(&e), &req, 0, &path, (uint8_t)(8 + i * 31 % 12), e.now);
	}
	for (unsigned int i = 0; i < ENV_CONNS; i += 3)
		cm_destroy(&e.cm, &e.conn[i], e.now);
	while (cm_next_timeout(&e.cm) != VRB_NEVER) {
		uint64_t earliest = VRB_NEVER;

		for (unsigned int i = 0; i < ENV_CONNS; i++)
			earliest = min(earliest, e.conn[i].deadline);
		assert_true(cm_next_timeout(&e.cm) == earliest && earliest >= last);
		last = earliest;
		env_wait(&e);
	}
	for (unsigned int i = 0; i < ENV_CONNS; i++)
		assert_int_equal(e.conn[i].state, CM_IDLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retries),
		cmocka_unit_test(impatient),
		cmocka_unit_test(unanswerable),
		cmocka_unit_test(stopped),
		cmocka_unit_test(timewait),
		cmocka_unit_test(second_mra_is_ignored),
		cmocka_unit_test(mra_for_another_message),
		cmocka_unit_test(deadlines_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
