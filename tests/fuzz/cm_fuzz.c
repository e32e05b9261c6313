/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feeds one communication manager with whatever hostile peers, a careless program and time can come
 * up with: messages that are nearly right, wrong or random, calls in any state, deadlines.  It must
 * not crash or hang, keeps its bounds and its tables in order, says no more than it was asked for,
 * and releases all that is destroyed.
 *
 * The input is a program of one-byte steps with operands, so that a fuzzer can learn it.
 */
#include "fuzz/fuzz.h"
#include "unit/cm_env.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	HALF_OPEN = 12,
	PER_SOURCE = 5,
	ANSWERS = 3, /* to one message: of a stale connection a REJ and a DREQ, and one for luck */
	ROUNDS = 40 * ENV_CONNS,
};

struct input {
	const uint8_t *p, *end;
};

static uint8_t byte(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

/* An id that may be in use. */
static uint32_t some_id(struct input *in, uint32_t first)
{
	uint8_t b = byte(in);

	return b == 0xff ? 0 : first + b % 8;
}

static struct cm_conn *some_conn(struct cm_env *e, struct input *in)
{
	unsigned int i = byte(in);

	if (!e->num_conns || e->released[i % e->num_conns])
		return NULL;
	return &e->conn[i % e->num_conns];
}

static void perturb(struct cm_msg *m, struct input *in)
{
	switch (m->type) {
	case CM_REQ:
		m->req.local_id = some_id(in, PEER_ID);
		m->req.qpn = PEER_QPN + byte(in) % 8;
		m->req.transport = byte(in) % 5 ? CM_RC : byte(in) % 4;
		m->req.ext_transport = byte(in) % 3;
		m->req.mtu = byte(in) % 7;
		m->req.max_cm_retries = byte(in) % 16;
		m->req.local_response_timeout = byte(in) % 32;
		break;
	case CM_SIDR_REQ:
		m->sidr_req.request_id = some_id(in, PEER_ID);
		break;
	case CM_SIDR_REP:
		m->sidr_rep.request_id = some_id(in, OUR_ID);
		break;
	default:
		m->rtu.local_id = some_id(in, PEER_ID);
		m->rtu.remote_id = some_id(in, OUR_ID);
	}
	if (m->type == CM_REP) {
		m->rep.qpn = PEER_QPN + byte(in) % 8;
		m->rep.target_ack_delay = byte(in) % 32;
	}
	if (m->type == CM_REJ) {
		m->rej.reason = byte(in) % 40;
		m->rej.about = byte(in) % 4;
		m->rej.info_len = byte(in) % 128;
		put_be64(m->rej.info, PEER_GUID);
	}
	if (m->type == CM_MRA) {
		m->mra.about = byte(in) % 4;
		m->mra.service_timeout = byte(in) % 32;
	}
}

static void hear(struct cm_env *e, struct input *in)
{
	struct cm_msg m = env_msg(CM_REQ + byte(in) % (CM_APR - CM_REQ + 1));
	unsigned int host = 2 + byte(in) % 3;

	perturb(&m, in);
	if (m.type == CM_REQ && byte(in) % 8)
		m.req.primary.local_gid = env_address(host);
	env_receive_from(e, host, &m);
}

static void hear_noise(struct cm_env *e, struct input *in)
{
	struct net_path path = env_path();
	uint8_t mad[CM_MAD_LEN] = { 1, 7, 2, 3 };
	size_t len = byte(in) % 4 ? CM_MAD_LEN : byte(in);

	mad[17] = byte(in);
	for (size_t i = 24; i < sizeof(mad); i++)
		mad[i] = byte(in);
	cm_input(&e->cm, &path, mad, len, e->now);
}

static void connect_one(struct cm_env *e, struct input *in)
{
	struct cm_conn *c = env_conn(e);
	struct cm_req req = env_req();
	struct net_path path = env_path();

	if (!c)
		return;
	path.dst = env_address(2 + byte(in) % 3);
	req.max_cm_retries = byte(in) % 16;
	req.qpn = OUR_QPN + byte(in) % 4;
	if (byte(in) % 4)
		cm_connect(&e->cm, c, &req, 0, &path, byte(in) % 32, e->now);
	else
		cm_sidr_connect(&e->cm, c, &(struct cm_sidr_req){ .service_id = SERVICE }, &path,
				e->now);
}

static void call_one(struct cm_env *e, struct input *in)
{
	struct cm_conn *c = some_conn(e, in);
	struct ibv_qp_attr attr = { .qp_state = byte(in) % 8 };
	struct cm_rep rep = env_rep();
	int mask;

	if (!c || c->destroyed)
		return;
	cm_qp_attr(c, &attr, &mask);
	switch (byte(in) % 8) {
	case 0:
		cm_establish(&e->cm, c, NULL, 0);
		break;
	case 1:
		cm_accept(&e->cm, c, &rep, 0, e->now);
		break;
	case 2:
		cm_notify(&e->cm, c);
		break;
	case 3:
		cm_reject(&e->cm, c, byte(in), NULL, 0, "no", 2, e->now);
		break;
	case 4:
		cm_disconnect(&e->cm, c, NULL, 0, e->now);
		break;
	case 5:
		cm_sidr_answer(&e->cm, c, &(struct cm_sidr_rep){ .qpn = OUR_QPN }, 0);
		break;
	case 6:
		cm_acknowledge(&e->cm, c, byte(in) % 32);
		break;
	default:
		cm_destroy(&e->cm, c, e->now);
	}
}

static bool expects_deadline(const struct cm_conn *c)
{
	switch (c->state) {
	case CM_IDLE:
	case CM_REP_RCVD:
	case CM_REQ_RCVD:
	case CM_ESTABLISHED:
	case CM_DREQ_RCVD:
	case CM_SIDR_REQ_RCVD:
		return false;
	default:
		return true;
	}
}

/* What state.c says of the states. */
static void check(struct cm_env *e)
{
	uint64_t earliest = VRB_NEVER;
	unsigned int waiting = 0;

	for (unsigned int i = 0; i < e->num_conns; i++) {
		struct cm_conn *c = &e->conn[i];

		if (e->released[i])
			continue;
		FUZZ_CHECK((cm_find(&e->cm, c->local_id) == c) == (c->state != CM_IDLE));
		FUZZ_CHECK((c->deadline != VRB_NEVER) == expects_deadline(c));
		FUZZ_CHECK((c->by_remote.at != NULL) <= (c->state != CM_IDLE));
		FUZZ_CHECK(c->state != CM_ESTABLISHED ||
			   (c->by_remote.at && (c->by_qpn.at || !c->peer_qpn)));
		FUZZ_CHECK(c->state != CM_TIMEWAIT || !c->by_qpn.at);
		FUZZ_CHECK(!c->destroyed || c->state == CM_TIMEWAIT);
		waiting += c->state == CM_REQ_RCVD || c->state == CM_SIDR_REQ_RCVD;
		earliest = min(earliest, c->deadline);
	}
	FUZZ_CHECK(waiting == e->cm.num_half_open && waiting <= HALF_OPEN);
	FUZZ_CHECK(cm_next_timeout(&e->cm) == earliest);
}

static void step(struct cm_env *e, struct input *in)
{
	env_clear(e);
	switch (byte(in) % 8) {
	case 0:
	case 1:
	case 2:
		hear(e, in);
		FUZZ_CHECK(e->num_sent <= ANSWERS && e->num_raised <= 3);
		break;
	case 3:
		hear_noise(e, in);
		FUZZ_CHECK(e->num_sent <= ANSWERS && e->num_raised <= 3);
		break;
	case 4:
		connect_one(e, in);
		break;
	case 5:
		call_one(e, in);
		FUZZ_CHECK(e->num_sent <= 1);
		break;
	case 6:
		env_wait(e);
		break;
	default:
		e->verdict = byte(in) % 4 ? CM_TAKE : byte(in) % 3;
		e->now += byte(in) * VRB_MSEC;
	}
	check(e);
}

static void end(struct cm_env *e)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < e->num_conns; i++)
		if (!e->released[i] && !e->conn[i].destroyed)
			cm_destroy(&e->cm, &e->conn[i], e->now);
	while (env_wait(e))
		FUZZ_CHECK(++n < ROUNDS);
	for (unsigned int i = 0; i < e->num_conns; i++)
		FUZZ_CHECK(e->released[i]);
	for (unsigned int i = 0; i < CM_BUCKETS; i++)
		FUZZ_CHECK(!e->cm.by_local[i] && !e->cm.by_remote[i] && !e->cm.by_qpn[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cm_env e;
	struct input in = { data, data + size };

	env_init(&e);
	cm_set_limits(&e.cm, HALF_OPEN, PER_SOURCE);
	while (in.p < in.end)
		step(&e, &in);
	end(&e);
	return 0;
}
