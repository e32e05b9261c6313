/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_open_qp() of an XRC receive QP of another process: calls, events, and final ownership. */
#include "rnd.h"
#include "xrc_family.h"

/* Ask it, hear of its events, change it. */
static void test_open(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_order(&f, 1, OPEN);
	CHECK_EQ(family_call(&f, 1, STATE), IBV_QPS_RTS);
	family_send(&f, 2, 100);
	/* An SRQ number that is not in use. */
	xrc_send(&f.x, IBV_WR_SEND, f.facts[0].srqn ^ 0x10000, 0, 8, NULL, 1, 0);
	family_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(family_call(&f, i, EVENT), IBV_EVENT_QP_REQ_ERR);
		CHECK_EQ(family_call(&f, i, EVENT), IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK_EQ(family_call(&f, i, STATE), IBV_QPS_ERR);
	}
	family_order(&f, 1, CLOSE);
	family_part(&f);
}

/*
 * The first message of all is an event, which the process of the SRQ sees first and does not get.
 */
static void test_established(void)
{
	struct family f = { 0 };

	family_rtr = true;
	family_gather(&f);
	family_order(&f, 1, OPEN);
	CHECK_EQ(family_call(&f, 1, STATE), IBV_QPS_RTR);
	family_send(&f, 2, 100);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(family_call(&f, i, EVENT), IBV_EVENT_COMM_EST);
	family_send(&f, 1, 100);
	family_send(&f, 0, 100);
	family_order(&f, 1, CLOSE);
	family_part(&f);
}

static void test_open_modify(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_order(&f, 2, OPEN);
	family_send(&f, 1, 100);
	family_order(&f, 2, TO_ERROR);
	CHECK_EQ(family_call(&f, 0, STATE), IBV_QPS_ERR);
	family_order(&f, 2, CLOSE);
	CHECK_EQ(family_call(&f, 0, STATE), IBV_QPS_ERR);
	family_part(&f);
}

/* The QP lives until its last handle is closed, in whatever process that is. */
static void test_inherit(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_order(&f, 1, OPEN);
	family_order(&f, 2, OPEN);
	family_send(&f, 0, 10);
	family_send(&f, 1, 11);
	family_order(&f, 0, CLOSE);
	for (int i = 0; i < TARGETS; i++)
		family_send(&f, i, 20 + i);
	CHECK_EQ(family_call(&f, 2, STATE), IBV_QPS_RTS);
	family_command(f.child[0].sock, LEAVE);
	child_join(&f.child[0]);
	f.child[0].pid = 0;
	family_send(&f, 1, 30);
	family_send(&f, 2, 40);
	/* The next heir. */
	family_order(&f, 1, CLOSE);
	CHECK_EQ(family_call(&f, 2, STATE), IBV_QPS_RTS);
	family_send(&f, 1, 50);
	family_send(&f, 2, 60);
	family_order(&f, 2, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 8, NULL, 1, 0);
	family_sent(&f, IBV_WC_RETRY_EXC_ERR);
	family_part(&f);
}

/* A stream does not notice that the home moves under it. */
static void test_move(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = 100 + rnd(100);

	family_timeout = PATIENT;
	family_gather(&f);
	family_order(&f, 1, OPEN);
	family_order(&f, 1, RECEIVE);
	family_order(&f, 2, RECEIVE);
	while (s.n < MESSAGES) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
		if (s.n == move_at)
			family_command(f.child[0].sock, CLOSE);
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	rc_meet(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		CHECK_EQ(family_stop(&f, i), s.sent[i]);
	family_part(&f);
}

/* When the home is killed, its QP ends; processes that have it open get an event. */
static void test_orphan(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_order(&f, 1, OPEN);
	family_send(&f, 1, 100);
	child_kill(&f.child[0]);
	f.child[0].pid = 0;
	CHECK_EQ(family_call(&f, 1, EVENT), IBV_EVENT_QP_FATAL);
	CHECK_EQ(family_call(&f, 1, STATE), -1);
	family_order(&f, 1, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 8, NULL, 1, 0);
	family_sent(&f, IBV_WC_RETRY_EXC_ERR);
	family_part(&f);
}

int main(int argc, char **argv)
{
	static const struct family_case cases[] = {
		{ "OPEN", test_open },
		{ "ESTABLISHED", test_established },
		{ "MODIFY", test_open_modify },
		{ "INHERIT", test_inherit },
		{ "MOVE", test_move },
		{ "ORPHAN", test_orphan },
	};

	return family_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
