/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection requests: stale and repeated ones, rejections, and the limit of pending requests. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm_env.h"
#include "util/compiler.h"

static struct cm_env e;

static bool sent_to(unsigned int host)
{
	struct net_addr a = env_address(host);

	return net_addr_equal(&e.sent_by[0].dst, &a);
}

/*
 * A REQ whose QP is connected already: its host has restarted. The request is rejected, and the old
 * connection ends with a DREQ.
 */
static void stale_request(void **state)
{
	struct cm_msg m = env_msg(CM_REQ);

	env_init(&e);
	env_reach(&e, CM_ESTABLISHED);
	m.req.local_id = PEER_ID + 1;
	env_receive(&e, &m);
	assert_int_equal(e.num_sent, 2);
	assert_true(e.sent[0].type == CM_REJ && e.sent[0].rej.reason == CM_REJ_STALE_CONN);
	assert_true(e.sent[0].rej.local_id == 0 && e.sent[0].rej.remote_id == PEER_ID + 1);
	assert_true(e.sent[1].type == CM_DREQ && e.sent[1].dreq.remote_qpn == PEER_QPN);
	assert_int_equal(e.conn[0].state, CM_DREQ_SENT);
	assert_int_equal(e.num_conns, 1);
}

/* The same ids from another host belong to another connection. */
static void same_numbers_of_another_host(void **state)
{
	struct cm_msg m = env_msg(CM_REQ);

	env_init(&e);
	env_reach(&e, CM_REP_SENT);
	m.req.primary.local_gid = env_address(3);
	env_receive_from(&e, 3, &m);
	assert_int_equal(e.num_conns, 2);
	assert_int_equal(e.conn[1].state, CM_REQ_RCVD);
	assert_int_equal(e.conn[0].state, CM_REP_SENT);
}

/*
 * A QP sends a new request with a new id before the program has accepted the first one: the new
 * request counts.
 */
static void second_request_of_a_qp(void **state)
{
	struct cm_msg m = env_msg(CM_REQ);

	env_init(&e);
	env_reach(&e, CM_REQ_RCVD);
	m.req.local_id = PEER_ID + 1;
	env_receive(&e, &m);
	assert_int_equal(e.num_raised, 2);
	assert_true(e.raised[0].type == CM_EV_GONE && e.raised[0].conn == &e.conn[0]);
	assert_true(e.raised[1].type == CM_EV_REQUEST && e.raised[1].conn == &e.conn[1]);
	assert_int_equal(cm_accept(&e.cm, &e.conn[0], &(struct cm_rep){ 0 }, 0, e.now), EINVAL);
}

static void requests_that_are_refused(void **state)
{
	static const struct {
		const char *what;
		unsigned int reason;
		unsigned int info_len;
	} rows_[] = {
		{ "RD", CM_REJ_INVALID_TRANSPORT_TYPE, 0 },
		{ "extended 2", CM_REJ_INVALID_TRANSPORT_TYPE, 0 },
		{ "local GID", CM_REJ_INVALID_GID, 16 },
		{ "remote GID", CM_REJ_INVALID_GID, 16 },
		{ "MTU 0", CM_REJ_INVALID_MTU, 1 },
		{ "MTU 6", CM_REJ_INVALID_MTU, 1 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows_); i++) {
		struct cm_msg m = env_msg(CM_REQ);

		env_init(&e);
		m.req.transport = i == 0 ? CM_RD : i == 1 ? CM_EXTENDED : CM_RC;
		m.req.ext_transport = i == 1 ? 2 : 0;
		if (i == 2)
			m.req.primary.local_gid = env_address(9);
		if (i == 3)
			m.req.primary.remote_gid = env_address(9);
		m.req.mtu = i == 4 ? 0 : i == 5 ? 6 : 3;
		env_receive(&e, &m);
		if (e.num_sent != 1 || e.sent[0].rej.reason != rows_[i].reason ||
		    e.sent[0].rej.info_len != rows_[i].info_len)
			fail_msg("%s: reason %u", rows_[i].what, e.sent[0].rej.reason);
		/* the reply goes to the source address, whatever the message contains */
		assert_true(sent_to(2));
		assert_int_equal(e.num_conns, 0);
	}
}

static void verdicts(void **state)
{
	struct cm_msg req = env_msg(CM_REQ), sidr = env_msg(CM_SIDR_REQ);

	env_init(&e);
	e.verdict = CM_REFUSE;
	e.reason = CM_REJ_INVALID_SERVICE_ID;
	env_receive(&e, &req);
	assert_true(e.sent[0].type == CM_REJ && e.sent[0].rej.reason == 8 &&
		    e.sent[0].rej.local_id == 0);
	assert_true(e.sent[0].rej.about == CM_ABOUT_REQ && e.sent[0].rej.remote_id == PEER_ID &&
		    e.sent[0].tid == 0x77);
	e.reason = CM_SIDR_NO_SERVICE;
	env_receive(&e, &sidr);
	assert_true(e.sent[1].type == CM_SIDR_REP && e.sent[1].sidr_rep.status == 1);
	assert_true(e.sent[1].sidr_rep.request_id == PEER_ID &&
		    e.sent[1].sidr_rep.service_id == SERVICE);
	e.verdict = CM_IGNORE;
	env_receive(&e, &req);
	env_receive(&e, &sidr);
	assert_int_equal(e.num_sent, 2);
	assert_int_equal(e.cm.stats.ignored, 2);
	assert_int_equal(e.cm.stats.refused, 2);
}

static void receive_request(unsigned int host, uint32_t id)
{
	struct cm_msg m = env_msg(CM_REQ);

	m.req.local_id = id;
	m.req.qpn = id & 0xffffff;
	m.req.primary.local_gid = env_address(host);
	env_receive_from(&e, host, &m);
}

/*
 * A flood from one source drops that source's oldest requests, a flood from many sources the oldest
 * of all; accepted ones stay.
 */
static void limits(void **state)
{
	struct cm_rep rep = env_rep();

	env_init(&e);
	cm_set_limits(&e.cm, 8, 4);
	receive_request(2, 100);
	cm_accept(&e.cm, &e.conn[0], &rep, 0, e.now);
	receive_request(3, 200);
	for (uint32_t i = 0; i < 6; i++)
		receive_request(2, 101 + i);
	assert_int_equal(e.cm.num_half_open, 5);
	assert_int_equal(e.cm.stats.dropped, 2);
	assert_int_equal(e.conn[0].state, CM_REP_SENT);
	assert_int_equal(e.conn[1].state, CM_REQ_RCVD);
	assert_int_equal(e.conn[2].state, CM_IDLE);
	assert_int_equal(e.conn[3].state, CM_IDLE);
	assert_int_equal(e.conn[4].state, CM_REQ_RCVD);
	for (unsigned int host = 10; host < 13; host++)
		receive_request(host, 300);
	assert_int_equal(e.cm.num_half_open, 8);
	receive_request(13, 300);
	assert_int_equal(e.cm.num_half_open, 8);
	assert_int_equal(e.conn[1].state, CM_IDLE);
	assert_int_equal(e.conn[0].state, CM_REP_SENT);
	/* The dropped request is accepted when its peer retransmits it. */
	receive_request(3, 200);
	assert_int_equal(e.conn[e.num_conns - 1].state, CM_REQ_RCVD);
}

static bool any_but(const struct cm_conn *c, void *arg)
{
	return c != arg;
}

static bool none(const struct cm_conn *c, void *arg)
{
	return false;
}

/*
 * With a limit of the caller's: a source with more than twice as many requests as others must make
 * room for them.
 */
static void busy_sources_make_room(void **state)
{
	struct net_addr loud = env_address(2), quiet = env_address(3);

	env_init(&e);
	for (uint32_t i = 0; i < 4; i++)
		receive_request(2, 100 + i);
	receive_request(3, 200);
	assert_false(cm_make_way(&e.cm, &loud, any_but, NULL));
	/*
	 * With two requests the quiet source would have half as many as the other and would count
	 * as busy.
	 */
	assert_false(cm_make_way(&e.cm, &quiet, any_but, NULL));
	receive_request(2, 104);
	assert_true(cm_make_way(&e.cm, &quiet, any_but, &e.conn[0]));
	assert_int_equal(e.conn[0].state, CM_REQ_RCVD);
	assert_int_equal(e.conn[1].state, CM_IDLE);
	assert_int_equal(e.raised[e.num_raised - 1].type, CM_EV_GONE);
	assert_int_equal(e.cm.num_half_open, 5);
	assert_int_equal(e.cm.stats.dropped, 1);
	/* No request may be dropped. */
	receive_request(2, 105);
	assert_false(cm_make_way(&e.cm, &quiet, none, NULL));
	assert_int_equal(e.cm.num_half_open, 6);
}

/* Few requests are answered in order of arrival; with many, the sources take turns. */
static void sources_take_turns(void **state)
{
	env_init(&e);
	for (uint32_t i = 0; i < CM_FEW_REQUESTS; i++)
		receive_request(2, 100 + i);
	assert_int_equal(cm_requests_before(&e.cm, &e.conn[e.num_conns - 1]), 0);
	receive_request(2, 100 + CM_FEW_REQUESTS);
	assert_int_equal(cm_requests_before(&e.cm, &e.conn[e.num_conns - 1]), CM_FEW_REQUESTS);
	receive_request(3, 100);
	assert_int_equal(cm_requests_before(&e.cm, &e.conn[e.num_conns - 1]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stale_request),
		cmocka_unit_test(same_numbers_of_another_host),
		cmocka_unit_test(second_request_of_a_qp),
		cmocka_unit_test(requests_that_are_refused),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(limits),
		cmocka_unit_test(busy_sources_make_room),
		cmocka_unit_test(sources_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
