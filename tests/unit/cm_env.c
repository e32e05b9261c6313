/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/cm_env.h"

#include <stdlib.h>

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond))                                                                       \
			abort();                                                                   \
	} while (0)

static void on_send(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct cm_env *e = arg;

	if (e->unanswerable)
		cm_give_up(&e->cm);
	if (e->num_sent == ENV_LOG)
		return;
	REQUIRE(cm_decode(&e->sent[e->num_sent], mad, CM_MAD_LEN) == CM_DECODED);
	e->sent_with_will[e->num_sent] = e->has_will;
	e->sent_by[e->num_sent++] = *path;
}

static void on_event(void *arg, struct cm_conn *c, const struct cm_event *ev)
{
	struct cm_env *e = arg;
	struct cm_raised *t = &e->raised[e->num_raised];

	REQUIRE(!c->destroyed);
	if (e->num_raised == ENV_LOG)
		return;
	e->num_raised++;
	*t = (struct cm_raised){
		.conn = c, .type = ev->type, .status = ev->status, .has_msg = ev->msg != NULL
	};
	if (ev->msg)
		t->msg = *ev->msg;
}

static enum cm_verdict on_request(void *arg, const struct cm_msg *m, const struct net_path *path,
				  struct cm_conn **conn, unsigned int *reason)
{
	struct cm_env *e = arg;

	*reason = e->reason;
	if (e->verdict == CM_TAKE)
		*conn = env_conn(e);
	return e->verdict == CM_TAKE && !*conn ? CM_IGNORE : e->verdict;
}

static void on_release(void *arg, struct cm_conn *c)
{
	struct cm_env *e = arg;

	REQUIRE(c->destroyed && c->state == CM_IDLE && !e->released[c - e->conn]);
	e->num_released++;
	e->released[c - e->conn] = true;
}

static void on_exit_mad(void *arg, struct cm_conn *c, const struct net_path *path,
			const uint8_t *mad)
{
	struct cm_env *e = arg;

	e->has_will = mad != NULL;
	if (mad)
		REQUIRE(cm_decode(&e->exit_mad, mad, CM_MAD_LEN) == CM_DECODED);
}

static bool on_late(void *arg, struct cm_conn *c)
{
	struct cm_env *e = arg;

	e->num_late++;
	return !e->impatient;
}

static const struct cm_ops ops = { on_send,    on_event,    on_request,
				   on_release, on_exit_mad, on_late };

struct net_addr env_address(unsigned int host)
{
	return (struct net_addr){ { [10] = 0xff,
				    [11] = 0xff,
				    [12] = 192,
				    [14] = (uint8_t)(2 + (host >> 8)),
				    [15] = (uint8_t)host } };
}

void env_init(struct cm_env *e)
{
	memset(e, 0, sizeof(*e));
	e->now = VRB_SECOND;
	cm_init(&e->cm, &ops, e, 0x123456789);
}

struct cm_conn *env_conn(struct cm_env *e)
{
	unsigned int i = 0;

	while (i < e->num_conns && !e->released[i])
		i++;
	if (i == ENV_CONNS)
		return NULL;
	if (i == e->num_conns)
		e->num_conns++;
	e->released[i] = false;
	cm_conn_init(&e->conn[i], OUR_ID + i);
	return &e->conn[i];
}

void env_clear(struct cm_env *e)
{
	e->num_sent = e->num_raised = e->num_released = 0;
}

struct net_path env_path(void)
{
	return (struct net_path){ .src = env_address(1), .dst = env_address(2), .hop_limit = 64 };
}

struct cm_req env_req(void)
{
	return (struct cm_req){
		.service_id = SERVICE,
		.ca_guid = OUR_GUID,
		.qpn = OUR_QPN,
		.responder_resources = 3,
		.initiator_depth = 2,
		.remote_response_timeout = 20,
		.local_response_timeout = 20,
		.retry_count = 7,
		.rnr_retry = 6,
		.pkey = 0xffff,
		.mtu = 3,
		.max_cm_retries = 15,
		.primary = { .local_gid = env_address(1),
			     .remote_gid = env_address(2),
			     .hop_limit = 64,
			     .ack_timeout = 19 },
	};
}

struct cm_rep env_rep(void)
{
	return (struct cm_rep){ .ca_guid = OUR_GUID,
				.qpn = OUR_QPN,
				.responder_resources = 2,
				.initiator_depth = 3,
				.target_ack_delay = 15,
				.rnr_retry = 5 };
}

struct cm_msg env_msg(enum cm_type type)
{
	struct cm_msg m = { .type = type, .tid = 0x77 };

	switch (type) {
	case CM_REQ:
		m.req = env_req();
		m.req.local_id = PEER_ID;
		m.req.ca_guid = PEER_GUID;
		m.req.qpn = PEER_QPN;
		m.req.psn = 0x654321;
		m.req.primary.local_gid = env_address(2);
		m.req.primary.remote_gid = env_address(1);
		break;
	case CM_REP:
		m.rep = env_rep();
		m.rep.local_id = PEER_ID;
		m.rep.remote_id = OUR_ID;
		m.rep.ca_guid = PEER_GUID;
		m.rep.qpn = PEER_QPN;
		m.rep.psn = 0x654321;
		break;
	case CM_SIDR_REQ:
		m.sidr_req = (struct cm_sidr_req){ .request_id = PEER_ID,
						   .pkey = 0xffff,
						   .service_id = SERVICE };
		break;
	case CM_SIDR_REP:
		m.sidr_rep = (struct cm_sidr_rep){ .request_id = OUR_ID,
						   .service_id = SERVICE,
						   .qpn = PEER_QPN };
		break;
	case CM_DREQ:
		m.dreq.remote_qpn = OUR_QPN;
		/* fall through */
	default:
		/* all others begin with the two ids */
		m.rtu.local_id = PEER_ID;
		m.rtu.remote_id = OUR_ID;
	}
	return m;
}

void env_receive_from(struct cm_env *e, unsigned int host, const struct cm_msg *m)
{
	struct net_path path = { .src = env_address(host), .dst = env_address(1), .hop_limit = 64 };
	uint8_t mad[CM_MAD_LEN];

	cm_encode(mad, m);
	cm_input(&e->cm, &path, mad, sizeof(mad), e->now);
}

void env_receive(struct cm_env *e, const struct cm_msg *m)
{
	env_receive_from(e, 2, m);
}

static void receive_type(struct cm_env *e, enum cm_type type)
{
	struct cm_msg m = env_msg(type);

	if (type == CM_MRA) {
		m.mra.service_timeout = CM_SERVICE_TIMEOUT;
		m.mra.about = e->conn[0].active ? CM_ABOUT_REQ : CM_ABOUT_REP;
	}
	env_receive(e, &m);
}

static void go_active(struct cm_env *e, struct cm_conn *c, enum cm_state state)
{
	struct cm_req req = env_req();
	struct net_path path = env_path();

	REQUIRE(cm_connect(&e->cm, c, &req, 0, &path, LIFE_TIME, e->now) == 0);
	if (state == CM_MRA_REQ_RCVD)
		receive_type(e, CM_MRA);
	if (state == CM_REQ_SENT || state == CM_MRA_REQ_RCVD)
		return;
	receive_type(e, CM_REP);
	if (state == CM_REP_RCVD)
		return;
	REQUIRE(cm_establish(&e->cm, c, NULL, 0) == 0);
}

static void go_passive(struct cm_env *e, enum cm_state state)
{
	struct cm_rep rep = env_rep();

	receive_type(e, CM_REQ);
	if (state == CM_REQ_RCVD)
		return;
	REQUIRE(cm_accept(&e->cm, &e->conn[0], &rep, 0, e->now) == 0);
	if (state == CM_MRA_REP_RCVD)
		receive_type(e, CM_MRA);
}

static void go_datagram(struct cm_env *e, struct cm_conn *c)
{
	struct cm_sidr_req req = { .service_id = SERVICE, .pkey = 0xffff };
	struct net_path path = env_path();

	REQUIRE(cm_sidr_connect(&e->cm, c, &req, &path, e->now) == 0);
}

struct cm_conn *env_reach(struct cm_env *e, enum cm_state state)
{
	struct cm_conn *c = &e->conn[0];

	REQUIRE(!e->num_conns);
	switch (state) {
	case CM_IDLE:
		env_conn(e);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		go_passive(e, state);
		break;
	case CM_SIDR_REQ_SENT:
		go_datagram(e, env_conn(e));
		break;
	case CM_SIDR_REQ_RCVD:
		receive_type(e, CM_SIDR_REQ);
		break;
	default:
		go_active(e, env_conn(e), state);
	}
	if (state == CM_DREQ_SENT)
		REQUIRE(cm_disconnect(&e->cm, c, NULL, 0, e->now) == 0);
	if (state == CM_DREQ_RCVD || state == CM_TIMEWAIT)
		receive_type(e, CM_DREQ);
	if (state == CM_TIMEWAIT)
		REQUIRE(cm_disconnect(&e->cm, c, NULL, 0, e->now) == 0);
	REQUIRE(c->state == state);
	env_clear(e);
	return c;
}

bool env_wait(struct cm_env *e)
{
	uint64_t at = cm_next_timeout(&e->cm);

	if (at == VRB_NEVER)
		return false;
	if (at > e->now)
		e->now = at;
	cm_timeout(&e->cm, e->now);
	return true;
}
