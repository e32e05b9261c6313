/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of connections: every message in every state, every call in every state, and forged
 * messages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/cm_env.h"
#include "util/be.h"
#include "util/compiler.h"

static struct cm_env e;

enum { NOTHING = -1 };

static bool sent_to(unsigned int host)
{
	struct net_addr a = env_address(host);

	return net_addr_equal(&e.sent_by[0].dst, &a);
}

static void check(const char *what, enum cm_state state, const struct cm_conn *c,
		  enum cm_state want, int sent, int event)
{
	int did_send = e.num_sent ? (int)e.sent[0].type : NOTHING;
	int did_raise = e.num_raised ? (int)e.raised[0].type : NOTHING;

	if (c->state != want || did_send != sent || did_raise != event || e.num_sent > 1 ||
	    e.num_raised > 1)
		fail_msg("%s in %s: state %s (want %s), %u sent: %#x (want %#x), %u raised: %d "
			 "(want "
			 "%d)",
			 what, cm_state_name(state), cm_state_name(c->state), cm_state_name(want),
			 e.num_sent, did_send, sent, e.num_raised, did_raise, event);
}

/*
 * Messages without a row have no effect; for messages of a connection that no longer exists, see
 * `idle`.
 */
static const struct row {
	enum cm_state state;
	enum cm_type in;
	enum cm_state to;
	int sent, event;
} rows[] = {
	{ CM_REQ_SENT, CM_MRA, CM_MRA_REQ_RCVD, NOTHING, NOTHING },
	{ CM_REQ_SENT, CM_REJ, CM_IDLE, NOTHING, CM_EV_REJECTED },
	{ CM_REQ_SENT, CM_REP, CM_REP_RCVD, NOTHING, CM_EV_REP },
	{ CM_MRA_REQ_RCVD, CM_REJ, CM_IDLE, NOTHING, CM_EV_REJECTED },
	{ CM_MRA_REQ_RCVD, CM_REP, CM_REP_RCVD, NOTHING, CM_EV_REP },
	{ CM_REP_RCVD, CM_REP, CM_REP_RCVD, CM_MRA, NOTHING },
	{ CM_REP_RCVD, CM_REJ, CM_TIMEWAIT, NOTHING, CM_EV_REJECTED },
	{ CM_REQ_RCVD, CM_REQ, CM_REQ_RCVD, CM_MRA, NOTHING },
	{ CM_REQ_RCVD, CM_REJ, CM_IDLE, NOTHING, CM_EV_GONE },
	{ CM_REP_SENT, CM_MRA, CM_MRA_REP_RCVD, NOTHING, NOTHING },
	{ CM_REP_SENT, CM_RTU, CM_ESTABLISHED, NOTHING, CM_EV_ESTABLISHED },
	{ CM_REP_SENT, CM_REJ, CM_IDLE, NOTHING, CM_EV_REJECTED },
	{ CM_MRA_REP_RCVD, CM_RTU, CM_ESTABLISHED, NOTHING, CM_EV_ESTABLISHED },
	{ CM_MRA_REP_RCVD, CM_REJ, CM_IDLE, NOTHING, CM_EV_REJECTED },
	{ CM_ESTABLISHED, CM_REP, CM_ESTABLISHED, CM_RTU, NOTHING },
	{ CM_ESTABLISHED, CM_REJ, CM_TIMEWAIT, NOTHING, CM_EV_REJECTED },
	{ CM_ESTABLISHED, CM_DREQ, CM_DREQ_RCVD, NOTHING, CM_EV_DISCONNECTED },
	{ CM_ESTABLISHED, CM_LAP, CM_ESTABLISHED, CM_APR, NOTHING },
	{ CM_DREQ_SENT, CM_REJ, CM_TIMEWAIT, NOTHING, CM_EV_REJECTED },
	{ CM_DREQ_SENT, CM_DREQ, CM_DREQ_RCVD, NOTHING, CM_EV_DISCONNECTED },
	{ CM_DREQ_SENT, CM_DREP, CM_TIMEWAIT, NOTHING, CM_EV_DISCONNECTED },
	{ CM_DREQ_RCVD, CM_DREP, CM_TIMEWAIT, NOTHING, NOTHING },
	{ CM_TIMEWAIT, CM_DREQ, CM_TIMEWAIT, CM_DREP, NOTHING },
	{ CM_TIMEWAIT, CM_REQ, CM_TIMEWAIT, CM_REJ, NOTHING },
	{ CM_SIDR_REQ_SENT, CM_SIDR_REP, CM_IDLE, NOTHING, CM_EV_SIDR_REP },
};

static const struct row *row_of(enum cm_state state, enum cm_type in)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].state == state && rows[i].in == in)
			return &rows[i];
	return NULL;
}

/* A REQ or SIDR_REQ in a state without a request of the peer is a new request. */
static bool is_new(const struct cm_conn *c, enum cm_type in)
{
	return (in == CM_REQ && (!c->remote_id || c->datagram)) ||
	       (in == CM_SIDR_REQ && c->state != CM_SIDR_REQ_RCVD);
}

/* A DREQ says what the RTU would have said; see dreq_before_rtu(). */
static bool stands_for_rtu(const struct cm_conn *c, enum cm_type in)
{
	return in == CM_DREQ && (c->state == CM_REP_SENT || c->state == CM_MRA_REP_RCVD);
}

/* In CM_SIDR_REQ_SENT and before, a DREQ has no receiver. */
static bool has_no_receiver(const struct cm_conn *c, enum cm_type in)
{
	return in == CM_DREQ && (!c->remote_id || c->datagram);
}

static void messages_in_states(void **state)
{
	for (enum cm_state s = CM_REQ_SENT; s < CM_NUM_STATES; s++) {
		for (enum cm_type in = CM_REQ; in <= CM_APR; in++) {
			const struct row *r = row_of(s, in);
			struct cm_msg m = env_msg(in);
			struct cm_conn *c;

			env_init(&e);
			c = env_reach(&e, s);
			if (is_new(c, in) || has_no_receiver(c, in) || stands_for_rtu(c, in))
				continue;
			if (in == CM_MRA)
				m.mra.about = c->active ? CM_ABOUT_REQ : CM_ABOUT_REP;
			if (in == CM_REJ)
				m.rej.reason = CM_REJ_CONSUMER;
			env_receive(&e, &m);
			if (r)
				check(cm_type_name(in), s, c, r->to, r->sent, r->event);
			else
				check(cm_type_name(in), s, c, s, NOTHING, NOTHING);
		}
	}
}

/* The RTU is late or lost: the program sees the connection, then its end. */
static void dreq_before_rtu(void **state)
{
	for (enum cm_state s = CM_REP_SENT; s <= CM_MRA_REP_RCVD; s++) {
		struct cm_msg dreq = env_msg(CM_DREQ), rtu = env_msg(CM_RTU);
		struct cm_conn *c;

		env_init(&e);
		c = env_reach(&e, s);
		env_receive(&e, &dreq);
		env_receive(&e, &rtu);
		assert_int_equal(c->state, CM_DREQ_RCVD);
		assert_int_equal(e.num_sent, 0);
		assert_int_equal(e.num_raised, 2);
		assert_int_equal(e.raised[0].type, CM_EV_ESTABLISHED);
		assert_int_equal(e.raised[1].type, CM_EV_DISCONNECTED);
	}
}

/* Messages for a connection that never existed or has ended. */
static void messages_without_a_receiver(void **state)
{
	static const int answer[CM_APR + 1] = { [CM_REP] = CM_REJ, [CM_DREQ] = CM_DREP };

	for (enum cm_type in = CM_MRA; in <= CM_APR; in++) {
		struct cm_msg m = env_msg(in);
		struct cm_conn *c;

		if (in == CM_SIDR_REQ)
			continue;
		env_init(&e);
		c = env_reach(&e, CM_IDLE);
		env_receive_from(&e, 3, &m);
		check(cm_type_name(in), CM_IDLE, c, CM_IDLE, answer[in] ? answer[in] : NOTHING,
		      NOTHING);
	}
	env_init(&e);
	env_receive_from(&e, 3,
		      &(struct cm_msg){ .type = CM_DREQ,
					.tid = 9,
					.dreq = { .local_id = 1, .remote_id = 2 } });
	assert_true(e.sent[0].tid == 9 && e.sent[0].drep.local_id == 2 &&
		    e.sent[0].drep.remote_id == 1);
	assert_true(sent_to(3));
	env_init(&e);
	env_receive_from(&e, 3,
		      &(struct cm_msg){ .type = CM_REP,
					.tid = 9,
					.rep = { .local_id = 1, .remote_id = 2 } });
	assert_true(e.sent[0].tid == 9 && e.sent[0].rej.local_id == 2 &&
		    e.sent[0].rej.remote_id == 1);
	assert_int_equal(e.sent[0].rej.about, CM_ABOUT_REP);
	assert_int_equal(e.sent[0].rej.reason, CM_REJ_INVALID_COMM_ID);
	assert_true(sent_to(3));
}

/* The only effect that a message with a wrong id has is its refusal, where there is one. */
static bool is_refusal_of(enum cm_type type, const struct cm_msg *answer)
{
	return answer->type == CM_DREP ? type == CM_DREQ : type == CM_REP && answer->type == CM_REJ;
}

enum call {
	CONNECT,
	ESTABLISH,
	ACCEPT,
	NOTIFY,
	REJECT,
	DISCONNECT,
	ACKNOWLEDGE,
	SIDR_CONNECT,
	SIDR_ANSWER,
	DESTROY,
	NUM_CALLS
};

static const char *const call_names[NUM_CALLS] = { "connect",  "establish",    "accept",
						   "notify",   "reject",       "disconnect",
						   "acknowledge", "sidr_connect", "sidr_answer",
						   "destroy" };

static int call(struct cm_conn *c, enum call which)
{
	struct net_path path = env_path();
	struct cm_req req = env_req();
	struct cm_rep rep = env_rep();

	switch (which) {
	case CONNECT:
		return cm_connect(&e.cm, c, &req, 0, &path, LIFE_TIME, e.now);
	case ESTABLISH:
		return cm_establish(&e.cm, c, NULL, 0);
	case ACCEPT:
		return cm_accept(&e.cm, c, &rep, 0, e.now);
	case NOTIFY:
		return cm_notify(&e.cm, c);
	case REJECT:
		return cm_reject(&e.cm, c, CM_REJ_CONSUMER, NULL, 0, "no", 2, e.now);
	case DISCONNECT:
		return cm_disconnect(&e.cm, c, NULL, 0, e.now);
	case ACKNOWLEDGE:
		return cm_acknowledge(&e.cm, c, 10);
	case SIDR_CONNECT:
		return cm_sidr_connect(&e.cm, c, &(struct cm_sidr_req){ .service_id = SERVICE },
				       &path, e.now);
	case SIDR_ANSWER:
		return cm_sidr_answer(&e.cm, c, &(struct cm_sidr_rep){ .qpn = OUR_QPN }, 0);
	default:
		cm_destroy(&e.cm, c, e.now);
		return 0;
	}
}

/* Calls without a row fail with EINVAL and have no effect. */
static const struct call_row {
	enum cm_state state;
	enum call call;
	enum cm_state to;
	int sent, event;
} call_rows[] = {
	{ CM_IDLE, CONNECT, CM_REQ_SENT, CM_REQ, NOTHING },
	{ CM_IDLE, SIDR_CONNECT, CM_SIDR_REQ_SENT, CM_SIDR_REQ, NOTHING },
	{ CM_IDLE, DESTROY, CM_IDLE, NOTHING, NOTHING },
	{ CM_REQ_SENT, REJECT, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REQ_SENT, DESTROY, CM_IDLE, CM_REJ, NOTHING },
	{ CM_MRA_REQ_RCVD, REJECT, CM_IDLE, CM_REJ, NOTHING },
	{ CM_MRA_REQ_RCVD, DESTROY, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REP_RCVD, ESTABLISH, CM_ESTABLISHED, CM_RTU, NOTHING },
	{ CM_REP_RCVD, REJECT, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REP_RCVD, ACKNOWLEDGE, CM_REP_RCVD, CM_MRA, NOTHING },
	{ CM_REP_RCVD, DESTROY, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REQ_RCVD, ACCEPT, CM_REP_SENT, CM_REP, NOTHING },
	{ CM_REQ_RCVD, REJECT, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REQ_RCVD, ACKNOWLEDGE, CM_REQ_RCVD, CM_MRA, NOTHING },
	{ CM_REQ_RCVD, DESTROY, CM_IDLE, CM_REJ, NOTHING },
	{ CM_REP_SENT, NOTIFY, CM_ESTABLISHED, NOTHING, CM_EV_ESTABLISHED },
	{ CM_REP_SENT, REJECT, CM_TIMEWAIT, CM_REJ, NOTHING },
	{ CM_REP_SENT, ACKNOWLEDGE, CM_REP_SENT, CM_MRA, NOTHING },
	{ CM_REP_SENT, DESTROY, CM_TIMEWAIT, CM_REJ, NOTHING },
	{ CM_MRA_REP_RCVD, NOTIFY, CM_ESTABLISHED, NOTHING, CM_EV_ESTABLISHED },
	{ CM_MRA_REP_RCVD, REJECT, CM_TIMEWAIT, CM_REJ, NOTHING },
	{ CM_MRA_REP_RCVD, DESTROY, CM_TIMEWAIT, CM_REJ, NOTHING },
	{ CM_ESTABLISHED, DISCONNECT, CM_DREQ_SENT, CM_DREQ, NOTHING },
	{ CM_ESTABLISHED, DESTROY, CM_TIMEWAIT, CM_DREQ, NOTHING },
	{ CM_DREQ_SENT, DESTROY, CM_TIMEWAIT, NOTHING, NOTHING },
	{ CM_DREQ_RCVD, DISCONNECT, CM_TIMEWAIT, CM_DREP, NOTHING },
	{ CM_DREQ_RCVD, DESTROY, CM_TIMEWAIT, CM_DREP, NOTHING },
	{ CM_TIMEWAIT, DESTROY, CM_TIMEWAIT, NOTHING, NOTHING },
	{ CM_SIDR_REQ_SENT, DESTROY, CM_IDLE, NOTHING, NOTHING },
	{ CM_SIDR_REQ_RCVD, SIDR_ANSWER, CM_IDLE, CM_SIDR_REP, NOTHING },
	{ CM_SIDR_REQ_RCVD, REJECT, CM_IDLE, CM_SIDR_REP, NOTHING },
	{ CM_SIDR_REQ_RCVD, DESTROY, CM_IDLE, CM_SIDR_REP, NOTHING },
};

static const struct call_row *call_row_of(enum cm_state state, enum call which)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_rows); i++)
		if (call_rows[i].state == state && call_rows[i].call == which)
			return &call_rows[i];
	return NULL;
}

static void calls_in_states(void **state)
{
	for (enum cm_state s = CM_IDLE; s < CM_NUM_STATES; s++) {
		for (enum call which = 0; which < NUM_CALLS; which++) {
			const struct call_row *r = call_row_of(s, which);
			struct cm_conn *c;
			int ret;

			env_init(&e);
			c = env_reach(&e, s);
			ret = call(c, which);
			check(call_names[which], s, c, r ? r->to : s, r ? r->sent : NOTHING,
			      r ? r->event : NOTHING);
			assert_int_equal(ret, r                                        ? 0
					      : s == CM_ESTABLISHED && which == NOTIFY ? EISCONN
										       : EINVAL);
			if (which == DESTROY)
				assert_int_equal(e.num_released, r->to == CM_IDLE);
		}
	}
}

/* Every destroyed connection is eventually released, without an event, and no state remains. */
static void destruction_ends(void **state)
{
	for (enum cm_state s = CM_IDLE; s < CM_NUM_STATES; s++) {
		env_init(&e);
		cm_destroy(&e.cm, env_reach(&e, s), e.now);
		while (env_wait(&e))
			;
		assert_int_equal(e.num_released, 1);
		assert_int_equal(e.num_raised, 0);
		assert_null(cm_find(&e.cm, OUR_ID));
		assert_int_equal(e.cm.num_half_open, 0);
	}
}

/*
 * The exit MAD is the message that destroying the connection would send; after a DREQ, the same
 * again.
 */
static void exit_mads(void **state)
{
	for (enum cm_state s = CM_REQ_SENT; s < CM_NUM_STATES; s++) {
		bool has_will;
		struct cm_msg will;

		env_init(&e);
		env_reach(&e, s);
		has_will = e.has_will;
		will = e.exit_mad;
		cm_destroy(&e.cm, &e.conn[0], e.now);
		assert_int_equal(has_will, e.num_sent == 1 || s == CM_DREQ_SENT);
		if (s == CM_DREQ_SENT)
			assert_int_equal(will.type, CM_DREQ);
		else if (has_will)
			assert_memory_equal(&will, &e.sent[0], sizeof(will));
	}
}

/* A process killed before its last message leaves still has its exit MAD. */
static void exit_mads_until_sent(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(call_rows); i++) {
		const struct call_row *r = &call_rows[i];

		if (r->sent == NOTHING || r->sent == CM_MRA)
			continue;
		env_init(&e);
		assert_int_equal(call(env_reach(&e, r->state), r->call), 0);
		if (e.sent_with_will[0] != (r->sent != CM_SIDR_REQ))
			fail_msg("%s in %s", call_names[r->call], cm_state_name(r->state));
	}
}

/* The DREQ has the conn's data, whoever sends it. */
static void data_of_dreq(void **state)
{
	static const uint8_t data[] = "not all has arrived";
	struct cm_conn *c;

	for (enum call last = DISCONNECT; last <= DESTROY; last += DESTROY - DISCONNECT) {
		env_init(&e);
		c = env_reach(&e, CM_ESTABLISHED);
		assert_int_equal(cm_set_dreq_data(&e.cm, c, data, CM_DREQ_DATA + 1), EINVAL);
		assert_int_equal(cm_set_dreq_data(&e.cm, c, data, sizeof(data)), 0);
		assert_true(e.has_will);
		assert_memory_equal(e.exit_mad.dreq.private_data, data, sizeof(data));
		call(c, last);
		assert_int_equal(e.sent[0].type, CM_DREQ);
		assert_memory_equal(e.sent[0].dreq.private_data, data, sizeof(data));
	}
}

static void check_rej(enum cm_state s, unsigned int about, unsigned int reason, uint32_t local,
		      uint32_t remote)
{
	env_init(&e);
	cm_destroy(&e.cm, env_reach(&e, s), e.now);
	assert_int_equal(e.sent[0].type, CM_REJ);
	assert_int_equal(e.sent[0].rej.about, about);
	assert_int_equal(e.sent[0].rej.reason, reason);
	assert_int_equal(e.sent[0].rej.local_id, local);
	assert_int_equal(e.sent[0].rej.remote_id, remote);
}

static void contents_of_rejs(void **state)
{
	check_rej(CM_REQ_SENT, CM_ABOUT_OTHER, CM_REJ_TIMEOUT, OUR_ID, 0);
	assert_int_equal(e.sent[0].rej.info_len, 8);
	assert_true(get_be64(e.sent[0].rej.info) == OUR_GUID);
	check_rej(CM_REQ_RCVD, CM_ABOUT_REQ, CM_REJ_CONSUMER, OUR_ID, PEER_ID);
	check_rej(CM_REP_RCVD, CM_ABOUT_REP, CM_REJ_CONSUMER, OUR_ID, PEER_ID);
	check_rej(CM_REP_SENT, CM_ABOUT_OTHER, CM_REJ_CONSUMER, OUR_ID, PEER_ID);

	env_init(&e);
	env_reach(&e, CM_REQ_RCVD);
	cm_reject(&e.cm, &e.conn[0], CM_REJ_VENDOR_OPTION, "info", 4, "data", 4, e.now);
	assert_int_equal(e.sent[0].rej.reason, CM_REJ_VENDOR_OPTION);
	assert_int_equal(e.sent[0].rej.info_len, 4);
	assert_memory_equal(e.sent[0].rej.info, "info", 4);
	assert_memory_equal(e.sent[0].rej.private_data, "data", 4);
	assert_true(e.sent[0].tid == 0x77);
}

/* Every reason reaches the program, with the private data. */
static void every_reason(void **state)
{
	for (unsigned int reason = 0; reason <= 40; reason++) {
		struct cm_msg m = env_msg(CM_REJ);

		env_init(&e);
		env_reach(&e, CM_REQ_SENT);
		m.rej.reason = (uint16_t)reason;
		m.rej.private_data[147] = 5;
		env_receive(&e, &m);
		assert_int_equal(e.num_raised, 1);
		assert_int_equal(e.raised[0].status, reason);
		assert_int_equal(e.raised[0].msg.rej.private_data[147], 5);
		assert_int_equal(e.conn[0].state,
				 reason == CM_REJ_STALE_CONN ? CM_TIMEWAIT : CM_IDLE);
	}
}

/* The peer has timed out and never received the local id. */
static void rej_without_a_remote_id(void **state)
{
	struct cm_msg m = env_msg(CM_REJ);

	m.rej.reason = CM_REJ_TIMEOUT;
	m.rej.remote_id = 0;
	m.rej.info_len = 8;
	put_be64(m.rej.info, PEER_GUID);
	env_init(&e);
	env_reach(&e, CM_REQ_RCVD);
	put_be64(m.rej.info, PEER_GUID + 1);
	env_receive(&e, &m);
	assert_int_equal(e.conn[0].state, CM_REQ_RCVD);
	put_be64(m.rej.info, PEER_GUID);
	env_receive(&e, &m);
	assert_int_equal(e.conn[0].state, CM_IDLE);
	assert_int_equal(e.raised[0].type, CM_EV_GONE);
}

/* The same with a REP. */
static void stale_reply(void **state)
{
	struct cm_req req = env_req();
	struct net_path path = env_path();
	struct cm_msg m = env_msg(CM_REP);
	struct cm_conn *c;

	env_init(&e);
	env_reach(&e, CM_ESTABLISHED);
	c = env_conn(&e);
	cm_connect(&e.cm, c, &req, 0, &path, LIFE_TIME, e.now);
	env_clear(&e);
	m.rep.local_id = PEER_ID + 1;
	m.rep.remote_id = c->local_id;
	env_receive(&e, &m);
	assert_int_equal(e.num_sent, 2);
	assert_true(e.sent[0].type == CM_REJ && e.sent[0].rej.reason == CM_REJ_STALE_CONN);
	assert_true(e.sent[0].rej.about == CM_ABOUT_REP && e.sent[0].rej.remote_id == PEER_ID + 1);
	assert_int_equal(e.sent[1].type, CM_DREQ);
	assert_int_equal(c->state, CM_REQ_SENT);
	assert_int_equal(e.num_raised, 0);
}

/* Both ends disconnect at once: each raises one event and replies. */
static void crossing_dreqs(void **state)
{
	struct cm_msg dreq = env_msg(CM_DREQ), drep = env_msg(CM_DREP);

	env_init(&e);
	env_reach(&e, CM_DREQ_SENT);
	env_receive(&e, &dreq);
	assert_int_equal(e.conn[0].state, CM_DREQ_RCVD);
	assert_int_equal(e.num_raised, 1);
	assert_int_equal(cm_disconnect(&e.cm, &e.conn[0], NULL, 0, e.now), 0);
	assert_int_equal(e.sent[0].type, CM_DREP);
	assert_true(e.sent[0].tid == 0x77);
	env_receive(&e, &drep);
	assert_int_equal(e.num_raised, 1);
	assert_int_equal(e.conn[0].state, CM_TIMEWAIT);
}

/* With one wrong id, or from or to another address, a message has no effect. */
static void forged(void **state)
{
	static const enum cm_type types[] = { CM_REJ, CM_RTU, CM_DREQ, CM_DREP,
					      CM_MRA, CM_REP, CM_LAP };

	for (enum cm_state s = CM_REQ_SENT; s <= CM_TIMEWAIT; s++) {
		for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
			for (unsigned int wrong = 0; wrong < 4; wrong++) {
				struct cm_msg m = env_msg(types[i]);
				struct cm_conn *c;

				env_init(&e);
				c = env_reach(&e, s);
				m.rtu.local_id += wrong == 0;
				m.rtu.remote_id += wrong == 1;
				/* before the peer has sent its id, any id may be correct */
				if (wrong == 0 && !c->remote_id)
					continue;
				if (wrong == 3)
					c->path.src = env_address(4);
				env_receive_from(&e, wrong == 2 ? 3 : 2, &m);
				if (c->state != s || e.num_raised)
					fail_msg("%s with wrong number %u in %s",
						 cm_type_name(types[i]), wrong, cm_state_name(s));
				assert_true(e.num_sent == 0 ||
					    is_refusal_of(types[i], &e.sent[0]));
			}
		}
	}
	{
		struct cm_msg m = env_msg(CM_DREQ);

		env_init(&e);
		env_reach(&e, CM_ESTABLISHED);
		m.dreq.remote_qpn++;
		env_receive(&e, &m);
		assert_true(e.num_sent == 0 && e.num_raised == 0);
		assert_int_equal(e.cm.stats.forged, 1);
	}
}

static void no_conn_has_id_0(void **state)
{
	struct cm_msg req = env_msg(CM_REQ), sidr = env_msg(CM_SIDR_REQ);

	env_init(&e);
	req.req.local_id = sidr.sidr_req.request_id = 0;
	env_receive(&e, &req);
	env_receive(&e, &sidr);
	assert_int_equal(e.num_conns + e.num_sent, 0);
	assert_int_equal(e.cm.stats.garbage, 2);
}

static void datagrams(void **state)
{
	struct cm_msg m = env_msg(CM_SIDR_REQ);

	env_init(&e);
	env_receive(&e, &m);
	assert_true(e.conn[0].datagram && e.conn[0].service_id == SERVICE);
	env_receive(&e, &m);
	assert_int_equal(e.num_conns, 1);
	assert_int_equal(e.num_sent, 0);
	cm_sidr_answer(&e.cm, &e.conn[0],
		       &(struct cm_sidr_rep){ .qpn = 5, .qkey = 6, .private_data = "hi" }, 0);
	assert_true(e.sent[0].sidr_rep.request_id == PEER_ID &&
		    e.sent[0].sidr_rep.service_id == SERVICE && e.sent[0].tid == 0x77);
	assert_true(e.sent[0].sidr_rep.qpn == 5 && e.sent[0].sidr_rep.qkey == 6);
	/* A repetition that crossed the reply gets it once more. */
	env_receive(&e, &m);
	assert_int_equal(e.num_conns, 1);
	assert_int_equal(e.num_sent, 2);
	assert_memory_equal(&e.sent[1].sidr_rep, &e.sent[0].sidr_rep,
			    sizeof(e.sent[0].sidr_rep));
	/* Another transaction is a new request, and so is one that comes too late. */
	m.tid++;
	env_receive(&e, &m);
	assert_int_equal(e.num_conns, 2);
	cm_reject(&e.cm, &e.conn[1], CM_REJ_CONSUMER, NULL, 0, "no", 2, e.now);
	assert_true(e.sent[2].sidr_rep.status == CM_SIDR_REJECTED && e.sent[2].sidr_rep.qpn == 0);
	assert_memory_equal(e.sent[2].sidr_rep.private_data, "no", 2);
	e.now += 16 * 4096 * VRB_MSEC - 1;
	env_receive(&e, &m);
	assert_int_equal(e.num_conns, 2);
	assert_true(e.sent[3].sidr_rep.status == CM_SIDR_REJECTED);
	e.now++;
	env_receive(&e, &m);
	assert_int_equal(e.num_conns, 3);

	env_init(&e);
	env_reach(&e, CM_SIDR_REQ_SENT);
	m = env_msg(CM_SIDR_REP);
	m.sidr_rep.status = CM_SIDR_NO_SERVICE;
	env_receive(&e, &m);
	assert_int_equal(e.raised[0].status, CM_SIDR_NO_SERVICE);
}

/* A REQ that is repeated after its rejection gets that once more, and the program nothing. */
static void rejected_once(void **state)
{
	struct cm_msg m = env_msg(CM_REQ);
	uint64_t repeated;

	for (int destroyed = 0; destroyed < 2; destroyed++) {
		env_init(&e);
		env_receive(&e, &m);
		repeated = (e.conn[0].max_retries + 1) * e.conn[0].interval;
		if (destroyed)
			cm_destroy(&e.cm, &e.conn[0], e.now);
		else
			cm_reject(&e.cm, &e.conn[0], CM_REJ_CONSUMER, NULL, 0, "no", 2, e.now);
		e.now += repeated - 1;
		env_receive(&e, &m);
		assert_int_equal(e.num_raised, 1);
		assert_int_equal(e.cm.stats.duplicates, 1);
		assert_int_equal(e.num_sent, 2);
		assert_int_equal(e.sent[1].rej.reason, CM_REJ_CONSUMER);
		assert_memory_equal(&e.sent[1].rej, &e.sent[0].rej, sizeof(e.sent[0].rej));
		/* New requests: of another transaction; one that comes too late. */
		m.tid++;
		env_receive(&e, &m);
		assert_int_equal(e.num_raised, 2);
		cm_reject(&e.cm, e.raised[1].conn, CM_REJ_CONSUMER, NULL, 0, NULL, 0, e.now);
		m.tid--;
		e.now++;
		env_receive(&e, &m);
		assert_int_equal(e.num_raised, 3);
	}
}

static void private_data_limits(void **state)
{
	static const uint8_t data[CM_MAD_LEN];

	env_init(&e);
	env_reach(&e, CM_REQ_RCVD);
	assert_int_equal(cm_reject(&e.cm, &e.conn[0], 28, NULL, 0, data, CM_REJ_PRIVATE + 1, e.now),
			 EINVAL);
	assert_int_equal(cm_reject(&e.cm, &e.conn[0], 28, data, CM_REJ_INFO + 1, NULL, 0, e.now),
			 EINVAL);
	assert_int_equal(cm_reject(&e.cm, &e.conn[0], 28, NULL, 0, NULL, 1, e.now), EINVAL);
	assert_int_equal(cm_reject(&e.cm, &e.conn[0], 28, NULL, 0, data, CM_REJ_PRIVATE, e.now), 0);
	env_init(&e);
	env_reach(&e, CM_REP_RCVD);
	assert_int_equal(cm_establish(&e.cm, &e.conn[0], data, CM_RTU_PRIVATE + 1), EINVAL);
	assert_int_equal(cm_establish(&e.cm, &e.conn[0], data, CM_RTU_PRIVATE), 0);
	assert_int_equal(cm_disconnect(&e.cm, &e.conn[0], data, CM_DREQ_PRIVATE + 1, e.now),
			 EINVAL);
	assert_int_equal(cm_disconnect(&e.cm, &e.conn[0], data, CM_DREQ_PRIVATE, e.now), 0);
	env_init(&e);
	env_reach(&e, CM_SIDR_REQ_RCVD);
	assert_int_equal(cm_reject(&e.cm, &e.conn[0], 28, NULL, 0, data, CM_SIDR_REP_PRIVATE + 1,
				   e.now),
			 EINVAL);
	assert_int_equal(e.conn[0].state, CM_SIDR_REQ_RCVD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_in_states),
		cmocka_unit_test(dreq_before_rtu),
		cmocka_unit_test(messages_without_a_receiver),
		cmocka_unit_test(calls_in_states),
		cmocka_unit_test(destruction_ends),
		cmocka_unit_test(exit_mads),
		cmocka_unit_test(exit_mads_until_sent),
		cmocka_unit_test(data_of_dreq),
		cmocka_unit_test(contents_of_rejs),
		cmocka_unit_test(every_reason),
		cmocka_unit_test(rej_without_a_remote_id),
		cmocka_unit_test(stale_reply),
		cmocka_unit_test(crossing_dreqs),
		cmocka_unit_test(forged),
		cmocka_unit_test(no_conn_has_id_0),
		cmocka_unit_test(datagrams),
		cmocka_unit_test(rejected_once),
		cmocka_unit_test(private_data_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
