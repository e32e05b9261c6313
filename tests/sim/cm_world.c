/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/stateless.h"
#include "rand.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	HOSTS = 4,
	SERVICE = 0x01061c06,
	ACTIONS_MAX = 1 << 20, /* of one run: with more it would not end */
	TAG_AT = CM_IP_HEADER_LEN,
};

#define REACTION_MAX (200 * VRB_MSEC) /* of a program that is not slow */
#define ORPHANS_AT (2 * VRB_SECOND)

/* The state of a conn, as its program sees it. */
enum phase {
	CONNECTING, /* active: sent a REQ */
	ACCEPTED,   /* active: got the REP; the program has to answer */
	WAITING,    /* passive: the program has to answer */
	ANSWERED,   /* passive: accepted */
	UP,
	DOWN, /* got CM_EV_DISCONNECTED */
	OVER, /* rejected, unreachable or gone */
	EXIT,
	NUM_PHASES
};

static const char *const phase_names[NUM_PHASES] = { "CONNECTING", "ACCEPTED", "WAITING",
						     "ANSWERED",   "UP",       "DOWN",
						     "OVER",       "EXIT" };

/*
 * The oracle: the phase after an event, plus one; 0: not allowed in this phase.
 */
static const uint8_t transitions[NUM_PHASES][CM_EV_GONE + 1] = {
	[CONNECTING] = { [CM_EV_REP] = ACCEPTED + 1,
			 [CM_EV_REJECTED] = OVER + 1,
			 [CM_EV_UNREACHABLE] = OVER + 1,
			 [CM_EV_SIDR_REP] = OVER + 1 },
	[ACCEPTED] = { [CM_EV_REJECTED] = OVER + 1 },
	[WAITING] = { [CM_EV_GONE] = OVER + 1 },
	[ANSWERED] = { [CM_EV_ESTABLISHED] = UP + 1,
		       [CM_EV_REJECTED] = OVER + 1,
		       [CM_EV_UNREACHABLE] = OVER + 1 },
	[UP] = { [CM_EV_DISCONNECTED] = DOWN + 1, [CM_EV_REJECTED] = OVER + 1 },
	[DOWN] = { [CM_EV_TIMEWAIT_EXIT] = EXIT + 1 },
	[OVER] = { [CM_EV_TIMEWAIT_EXIT] = EXIT + 1 },
};

struct attempt {
	struct end *active;
	struct end *up;		/* the passive end that was established */
	bool refused;           /* a passive program has rejected it */
	bool datagram;
	bool answered;
};

/* A conn and its program's state. Freed at the end of the run. */
struct end {
	struct cm_conn conn;
	struct end *next;
	unsigned int host;
	unsigned int life;	/* of the host's process */
	unsigned int attempt;
	enum phase phase;
	bool was_up, destroyed, released, dead;
	bool has_exit_mad;
	struct net_path exit_mad_path;
	uint8_t exit_mad[CM_MAD_LEN];
};

struct host {
	struct cm cm;
	bool alive;
	unsigned int life;
	unsigned int waiting;		/* requests without an answer */
	uint32_t next_id, next_qpn;
};

enum action_kind {
	DELIVER,
	CONNECT,
	REACT, /* the program reacts to the last event */
	HANG_UP,
	DESTROY,
	KILL,
	RESTART,
	COUNT_ORPHANS,
};

struct action {
	uint64_t at, order;
	enum action_kind kind;
	unsigned int host;	/* or attempt */
	struct end *end;
	struct net_path path;
	uint8_t mad[CM_MAD_LEN];
};

struct world {
	uint64_t seed, now, order;
	struct rng rng;
	const struct cm_world_config *cfg;
	struct host host[HOSTS];
	struct attempt *attempt;
	struct end *ends;
	struct action **heap;
	size_t actions, capacity;
	struct cm_world_result result;
};

static struct world *w; /* for the callbacks */

#define REQUIRE(cond, ...)                                                                         \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("\n*** at %" PRIu64 " us: %s: ", w->now / 1000, #cond);             \
			printf(__VA_ARGS__);                                                       \
			printf("\n*** reproduce: VERBENA_SEED=%" PRIu64 "\n", w->seed);            \
			fflush(stdout);                                                            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* ---- scheduled actions ---- */

static bool earlier(const struct action *a, const struct action *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static struct action *schedule(enum action_kind kind, uint64_t delay)
{
	struct action *m = calloc(1, sizeof(*m));
	size_t i = w->actions++;

	m->kind = kind;
	m->at = w->now + delay;
	m->order = w->order++;
	REQUIRE(m->order < ACTIONS_MAX, "the run does not end");
	if (w->actions > w->capacity) {
		w->capacity = w->capacity ? 2 * w->capacity : 64;
		w->heap = realloc(w->heap, w->capacity * sizeof(*w->heap));
	}
	for (; i && earlier(m, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = m;
	return m;
}

static struct action *next_action(void)
{
	struct action *first = w->heap[0], *last = w->heap[--w->actions];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < w->actions; i = child) {
		if (child + 1 < w->actions && earlier(w->heap[child + 1], w->heap[child]))
			child++;
		if (!earlier(w->heap[child], last))
			break;
		w->heap[i] = w->heap[child];
	}
	w->heap[i] = last;
	return first;
}

static uint64_t reaction_time(void)
{
	if (rng_percent(&w->rng, w->cfg->slow))
		return rng_range(&w->rng, 1, 12 * VRB_SECOND);
	return rng_range(&w->rng, 1, REACTION_MAX);
}

static void schedule_for(enum action_kind kind, struct end *e, uint64_t delay)
{
	schedule(kind, delay)->end = e;
}

/* ---- the network ---- */

static struct net_addr address(unsigned int host)
{
	return (struct net_addr){ { 0xfd, [15] = (uint8_t)(1 + host) } };
}

static unsigned int host_at(const struct net_addr *a)
{
	return a->raw[15] - 1u;
}

static void transmit(const struct net_path *path, const uint8_t *mad)
{
	unsigned int copies = 1 + rng_ppm(&w->rng, w->cfg->duplication);

	REQUIRE(host_at(&path->dst) < w->cfg->hosts, "to nowhere");
	w->result.sent++;
	while (copies--) {
		struct action *m;

		if (rng_ppm(&w->rng, w->cfg->loss))
			continue;
		m = schedule(DELIVER, rng_range(&w->rng, w->cfg->delay_min, w->cfg->delay_max));
		m->path = *path;
		memcpy(m->mad, mad, sizeof(m->mad));
	}
}

/* A host whose process was killed: another process answers MADs without a connection. */
static void reply_stateless(const struct net_path *path, const uint8_t *mad)
{
	struct net_path back = { .src = path->dst, .dst = path->src };
	uint8_t out[CM_MAD_LEN];
	struct cm_msg m, answer;

	if (cm_decode(&m, mad, CM_MAD_LEN) != CM_DECODED || !cm_stateless_reply(&answer, &m))
		return;
	cm_encode(out, &answer);
	transmit(&back, out);
}

/* ---- callbacks of the engine; arg: the host ---- */

static void on_send(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN])
{
	transmit(path, mad);
}

static struct end *end_new(unsigned int host, unsigned int attempt, enum phase phase)
{
	struct end *e = calloc(1, sizeof(*e));
	struct host *h = &w->host[host];

	cm_conn_init(&e->conn, ++h->next_id | (host + 1) << 24);
	e->host = host;
	e->life = h->life;
	e->attempt = attempt;
	e->phase = phase;
	e->next = w->ends;
	w->ends = e;
	return e;
}

static enum cm_verdict on_request(void *arg, const struct cm_msg *m, const struct net_path *path,
				  struct cm_conn **conn, unsigned int *reason)
{
	struct host *h = arg;
	const uint8_t *data = m->type == CM_REQ ? m->req.private_data : m->sidr_req.private_data;

	if (w->cfg->backlog && h->waiting >= w->cfg->backlog)
		return CM_IGNORE;
	h->waiting++;
	*conn = &end_new((unsigned int)(h - w->host), get_be32(data + TAG_AT), WAITING)->conn;
	return CM_TAKE;
}

static void on_release(void *arg, struct cm_conn *c)
{
	struct end *e = container_of(c, struct end, conn);

	REQUIRE(e->destroyed && !e->released, "host %u", e->host);
	e->released = true;
}

static void on_exit_mad(void *arg, struct cm_conn *c, const struct net_path *path,
			const uint8_t *mad)
{
	struct end *e = container_of(c, struct end, conn);

	e->has_exit_mad = mad != NULL;
	if (mad) {
		e->exit_mad_path = *path;
		memcpy(e->exit_mad, mad, sizeof(e->exit_mad));
	}
}

/* Both ends are established: they must agree on the connection's parameters. */
static void check_agreement(const struct end *a, const struct end *p)
{
	const struct cm_conn *x = &a->conn, *y = &p->conn;

	REQUIRE(x->remote_id == y->local_id && y->remote_id == x->local_id, "attempt %u: ids",
		a->attempt);
	REQUIRE(x->peer_qpn == y->qpn && y->peer_qpn == x->qpn, "attempt %u: QP numbers",
		a->attempt);
	REQUIRE(x->sq_psn == y->rq_psn && y->sq_psn == x->rq_psn, "attempt %u: PSNs", a->attempt);
	REQUIRE(x->mtu == y->mtu && x->responder_resources == y->initiator_depth &&
			y->responder_resources == x->initiator_depth,
		"attempt %u: resources", a->attempt);
}

static void note_up(struct end *e)
{
	struct attempt *t = &w->attempt[e->attempt];

	e->was_up = true;
	if (e->conn.active)
		return;
	REQUIRE(!t->up, "attempt %u is established twice", e->attempt);
	REQUIRE(t->active->was_up || t->active->dead,
		"attempt %u: the active end is not established", e->attempt);
	t->up = e;
	if (!t->active->dead)
		check_agreement(t->active, e);
	w->result.connected++;
}

static void note_refusal(struct end *e, const struct cm_event *ev)
{
	const struct attempt *t = &w->attempt[e->attempt];

	if (ev->status == CM_REJ_CONSUMER && !w->cfg->kills && e->conn.active)
		REQUIRE(t->refused, "attempt %u: no program has rejected it", e->attempt);
	w->result.refused += e->conn.active;
}

static void on_event(void *arg, struct cm_conn *c, const struct cm_event *ev)
{
	struct host *h = arg;
	struct end *e = container_of(c, struct end, conn);
	struct attempt *t = &w->attempt[e->attempt];
	uint8_t to;

	REQUIRE(!e->destroyed && !e->dead, "event %d after the end", ev->type);
	if (ev->type == CM_EV_REQUEST) {
		schedule_for(REACT, e, reaction_time());
		return;
	}
	to = transitions[e->phase][ev->type];
	REQUIRE(to, "event %d in phase %s of attempt %u (%s)", ev->type, phase_names[e->phase],
		e->attempt, c->active ? "active" : "passive");
	if (e->phase == WAITING)
		h->waiting--;
	e->phase = to - 1;
	if (ev->type == CM_EV_ESTABLISHED)
		note_up(e);
	if (ev->type == CM_EV_REJECTED)
		note_refusal(e, ev);
	if (ev->type == CM_EV_UNREACHABLE)
		w->result.unreachable += c->active;
	if (ev->type == CM_EV_SIDR_REP) {
		REQUIRE(ev->status == CM_SIDR_OK ? t->answered : true,
			"attempt %u: no program has answered it", e->attempt);
		w->result.connected += ev->status == CM_SIDR_OK;
	}
	if (e->phase != EXIT)
		schedule_for(REACT, e, reaction_time());
}

static const struct cm_ops ops = { on_send, on_event, on_request, on_release, on_exit_mad };

/* ---- programs ---- */

static struct cm_req make_req(unsigned int from, unsigned int to, unsigned int attempt)
{
	struct host *h = &w->host[from];
	struct cm_req req = {
		.service_id = SERVICE,
		.ca_guid = from + 1,
		.qpn = ++h->next_qpn,
		.responder_resources = (uint8_t)rng_below(&w->rng, 16),
		.initiator_depth = (uint8_t)rng_below(&w->rng, 16),
		.remote_response_timeout = 20,
		.local_response_timeout = 20,
		.retry_count = 7,
		.rnr_retry = 7,
		.pkey = 0xffff,
		.mtu = (uint8_t)rng_range(&w->rng, 1, 5),
		.max_cm_retries = 15,
		.primary = { .local_gid = address(from),
			     .remote_gid = address(to),
			     .hop_limit = 64,
			     .ack_timeout = 17 },
	};

	put_be32(req.private_data + TAG_AT, attempt);
	return req;
}

static void start_attempt(unsigned int attempt)
{
	unsigned int from = (unsigned int)rng_below(&w->rng, w->cfg->hosts);
	unsigned int to =
		(from + 1 + (unsigned int)rng_below(&w->rng, w->cfg->hosts - 1)) % w->cfg->hosts;
	struct net_path path = { .src = address(from), .dst = address(to) };
	struct attempt *t = &w->attempt[attempt];
	struct end *e = end_new(from, attempt, CONNECTING);

	t->active = e;
	if (!w->host[from].alive) {
		e->dead = true;
		return;
	}
	t->datagram = rng_percent(&w->rng, w->cfg->datagrams);
	if (t->datagram) {
		struct cm_sidr_req req = { .pkey = 0xffff, .service_id = SERVICE };

		put_be32(req.private_data + TAG_AT, attempt);
		REQUIRE(!cm_sidr_connect(&w->host[from].cm, &e->conn, &req, &path, w->now), "sidr");
	} else {
		struct cm_req req = make_req(from, to, attempt);

		REQUIRE(!cm_connect(&w->host[from].cm, &e->conn, &req, 0, &path, 16, w->now),
			"connect");
	}
}

static void destroy_end(struct end *e)
{
	struct host *h = &w->host[e->host];

	if (e->destroyed)
		return;
	if (e->phase == WAITING)
		h->waiting--;
	if (!e->conn.active)
		w->attempt[e->attempt].refused = true;
	e->destroyed = true;
	cm_destroy(&h->cm, &e->conn, w->now);
}

static void schedule_end(struct end *e)
{
	if (!rng_percent(&w->rng, 20))
		schedule_for(HANG_UP, e, rng_range(&w->rng, 1, 5 * VRB_SECOND));
	/* With `destroy` it may come before the DREQ, which is sent once only, has arrived. */
	schedule_for(DESTROY, e,
		     rng_range(&w->rng, w->cfg->destroy ? 1 : 120 * VRB_SECOND, 400 * VRB_SECOND));
}

/* The peer has accepted: the program confirms, rejects, or destroys the conn. */
static void answer_rep(struct end *e)
{
	struct host *h = &w->host[e->host];

	if (rng_percent(&w->rng, w->cfg->destroy)) {
		destroy_end(e);
	} else if (rng_percent(&w->rng, w->cfg->refuse)) {
		REQUIRE(!cm_reject(&h->cm, &e->conn, CM_REJ_CONSUMER, NULL, 0, NULL, 0, w->now),
			"reject");
		e->phase = OVER;
		schedule_for(DESTROY, e, reaction_time());
	} else {
		REQUIRE(!cm_establish(&h->cm, &e->conn, NULL, 0), "establish");
		e->phase = UP;
		note_up(e);
		schedule_end(e);
	}
}

static void accept_datagram(struct end *e)
{
	w->attempt[e->attempt].answered = true;
	REQUIRE(!cm_sidr_answer(&w->host[e->host].cm, &e->conn, &(struct cm_sidr_rep){ .qpn = 9 },
				0),
		"answer");
	e->phase = OVER;
	schedule_for(DESTROY, e, reaction_time());
}

static void answer_request(struct end *e)
{
	struct host *h = &w->host[e->host];
	struct cm_rep rep = {
		.ca_guid = e->host + 1,
		.qpn = ++h->next_qpn,
		.responder_resources = e->conn.responder_resources,
		.initiator_depth = e->conn.initiator_depth,
		.target_ack_delay = 15,
		.rnr_retry = 7,
	};

	if (rng_percent(&w->rng, w->cfg->destroy)) {
		destroy_end(e);
		return;
	}
	h->waiting--;
	if (rng_percent(&w->rng, w->cfg->refuse)) {
		w->attempt[e->attempt].refused = true;
		REQUIRE(!cm_reject(&h->cm, &e->conn, CM_REJ_CONSUMER, NULL, 0, NULL, 0, w->now),
			"reject");
		e->phase = OVER;
		schedule_for(DESTROY, e, reaction_time());
	} else if (e->conn.datagram) {
		accept_datagram(e);
	} else {
		REQUIRE(!cm_accept(&h->cm, &e->conn, &rep, 0, w->now), "accept");
		e->phase = ANSWERED;
		schedule_for(DESTROY, e, rng_range(&w->rng, 120 * VRB_SECOND, 400 * VRB_SECOND));
	}
}

static void react(struct end *e)
{
	struct host *h = &w->host[e->host];

	switch (e->phase) {
	case ACCEPTED:
		answer_rep(e);
		break;
	case WAITING:
		answer_request(e);
		break;
	case UP:
		if (!rng_percent(&w->rng, 20))
			schedule_for(HANG_UP, e, rng_range(&w->rng, 1, 5 * VRB_SECOND));
		break;
	case DOWN:
		cm_disconnect(&h->cm, &e->conn, NULL, 0, w->now);
		schedule_for(DESTROY, e, rng_range(&w->rng, 1, 3 * VRB_SECOND));
		break;
	case OVER:
		destroy_end(e);
		break;
	default:
		break;
	}
}

/* ---- killed processes ---- */

static void kill_host(unsigned int host)
{
	struct host *h = &w->host[host];

	if (!h->alive)
		return;
	h->alive = false;
	for (struct end *e = w->ends; e; e = e->next) {
		if (e->host != host || e->dead || e->released)
			continue;
		e->dead = true;
		if (w->cfg->exit_mads && e->has_exit_mad)
			transmit(&e->exit_mad_path, e->exit_mad);
	}
	schedule(RESTART, rng_range(&w->rng, 10 * VRB_MSEC, 60 * VRB_SECOND))->host = host;
	if (w->cfg->exit_mads)
		schedule(COUNT_ORPHANS, ORPHANS_AT)->host = host;
}

/* A restarted process may reuse QP numbers, but not communication ids. */
static void restart_host(unsigned int host)
{
	struct host *h = &w->host[host];

	h->alive = true;
	h->life++;
	h->waiting = 0;
	h->next_qpn = 1 + (uint32_t)rng_below(&w->rng, 8);
	cm_init(&h->cm, &ops, h, w->seed + host);
}

/* Counts the ends that are still connected to a process of the host that was killed. */
static void count_orphans(unsigned int host)
{
	const struct net_addr dead = address(host);

	for (struct end *e = w->ends; e; e = e->next) {
		struct attempt *t = &w->attempt[e->attempt];
		struct end *other = e->conn.active ? t->up : t->active;

		if (e->phase == UP && !e->dead && !e->destroyed && other && other->dead &&
		    net_addr_equal(&e->conn.path.dst, &dead))
			w->result.orphans++;
	}
}

/* ---- the run ---- */

static void run_action(const struct action *m)
{
	struct end *e = m->end;

	if (e && (e->dead || e->destroyed))
		return;
	switch (m->kind) {
	case DELIVER: {
		struct host *h = &w->host[host_at(&m->path.dst)];

		if (h->alive)
			cm_input(&h->cm, &m->path, m->mad, CM_MAD_LEN, w->now);
		else
			reply_stateless(&m->path, m->mad);
		break;
	}
	case CONNECT:
		start_attempt(m->host);
		break;
	case REACT:
		react(e);
		break;
	case HANG_UP:
		cm_disconnect(&w->host[e->host].cm, &e->conn, NULL, 0, w->now);
		break;
	case DESTROY:
		destroy_end(e);
		break;
	case KILL:
		kill_host(m->host);
		break;
	case RESTART:
		restart_host(m->host);
		break;
	case COUNT_ORPHANS:
		count_orphans(m->host);
		break;
	}
}

static struct host *next_deadline(uint64_t *at)
{
	struct host *first = NULL;

	*at = VRB_NEVER;
	for (unsigned int i = 0; i < w->cfg->hosts; i++) {
		uint64_t t = w->host[i].alive ? cm_next_timeout(&w->host[i].cm) : VRB_NEVER;

		if (t < *at) {
			*at = t;
			first = &w->host[i];
		}
	}
	return first;
}

static bool advance(void)
{
	uint64_t at;
	struct host *h = next_deadline(&at);

	if (w->actions && w->heap[0]->at <= at) {
		struct action *m = next_action();

		w->now = m->at;
		run_action(m);
		free(m);
		return true;
	}
	if (!h)
		return false;
	REQUIRE(at >= w->now, "a deadline in the past");
	w->now = at;
	cm_timeout(&h->cm, at);
	return true;
}

/* Programs that got no final event destroy their conns. */
static bool close_all(void)
{
	bool any = false;

	for (struct end *e = w->ends; e; e = e->next)
		if (!e->dead && !e->destroyed) {
			destroy_end(e);
			any = true;
		}
	return any;
}

static void check_end(void)
{
	for (struct end *e = w->ends; e; e = e->next)
		REQUIRE(e->released || e->dead, "attempt %u: a conn in %s is not released",
			e->attempt, cm_state_name(e->conn.state));
	for (unsigned int i = 0; i < w->cfg->hosts; i++) {
		const struct cm *cm = &w->host[i].cm;

		REQUIRE(!cm->num_half_open && !cm->deadlines, "host %u is not idle", i);
		w->result.retried += cm->stats.retried;
		w->result.duplicates += cm->stats.duplicates;
		REQUIRE(!cm->stats.garbage && !cm->stats.forged, "host %u counted a MAD as forged",
			i);
	}
}

static void world_free(void)
{
	while (w->ends) {
		struct end *e = w->ends;

		w->ends = e->next;
		free(e);
	}
	free(w->attempt);
	free(w->heap);
	free(w);
}

struct cm_world_config cm_world_random_config(uint64_t seed)
{
	struct rng r;
	struct cm_world_config c = { 0 };

	rng_seed(&r, seed ^ 0xc0ffee);
	c.hosts = (unsigned int)rng_range(&r, 2, HOSTS);
	c.attempts = (unsigned int)rng_range(&r, 1, 12);
	c.loss = rng_percent(&r, 70)   ? (uint32_t)rng_below(&r, 400000)
		 : rng_percent(&r, 30) ? 900000
				       : 0;
	c.duplication = rng_percent(&r, 50) ? (uint32_t)rng_below(&r, 300000) : 0;
	c.delay_min = rng_range(&r, 1000, VRB_MSEC);
	c.delay_max = c.delay_min + rng_below(&r, 250 * VRB_MSEC);
	c.refuse = rng_percent(&r, 50) ? 15 : 0;
	c.destroy = rng_percent(&r, 50) ? 10 : 0;
	c.slow = rng_percent(&r, 50) ? 30 : 0;
	c.datagrams = rng_percent(&r, 50) ? 30 : 0;
	c.kills = rng_percent(&r, 40) ? (unsigned int)rng_range(&r, 1, 3) : 0;
	c.exit_mads = rng_percent(&r, 50);
	c.backlog = rng_percent(&r, 20) ? 2 : 0;
	return c;
}

struct cm_world_result cm_world_run(uint64_t seed, const struct cm_world_config *cfg)
{
	struct cm_world_result result;

	w = calloc(1, sizeof(*w));
	w->seed = seed;
	w->cfg = cfg;
	w->now = VRB_SECOND;
	rng_seed(&w->rng, seed);
	w->attempt = calloc(cfg->attempts, sizeof(*w->attempt));
	for (unsigned int i = 0; i < cfg->hosts; i++)
		restart_host(i);
	for (unsigned int i = 0; i < cfg->attempts; i++)
		schedule(CONNECT, rng_below(&w->rng, 20 * VRB_SECOND))->host = i;
	for (unsigned int i = 0; i < cfg->kills; i++)
		schedule(KILL, rng_below(&w->rng, 40 * VRB_SECOND))->host =
			(unsigned int)rng_below(&w->rng, cfg->hosts);
	do
		while (advance())
			;
	while (close_all());
	check_end();
	result = w->result;
	world_free();
	return result;
}
