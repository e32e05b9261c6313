/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dispatch of messages other than REQ and SIDR_REQ by state and type.  A message without an entry
 * in the table is a duplicate or late, and is ignored.
 */
#include "cm/parts.h"
#include "cm/stateless.h"
#include "util/be.h"
#include "util/compiler.h"

typedef void (*take_fn)(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now);

static bool is_xrc(const struct cm_conn *c)
{
	return c->transport == CM_EXTENDED;
}

/* Active side: the peer accepted. */
static void take_rep(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	const struct cm_rep *r = &m->rep;
	uint32_t qpn = is_xrc(c) ? r->eecn : r->qpn;
	struct cm_conn *old = cm_table_find_qpn(cm, &c->path.dst, r->ca_guid, qpn);

	if (old) {
		struct cm_msg rej = cm_msg_start(c, CM_REJ);

		rej.rej.local_id = c->local_id;
		rej.rej.remote_id = r->local_id;
		rej.rej.about = CM_ABOUT_REP;
		rej.rej.reason = CM_REJ_STALE_CONN;
		cm_send(cm, c, &rej);
		cm_call_drop_stale(cm, old, now);
		return;
	}
	c->remote_id = r->local_id;
	c->peer_guid = r->ca_guid;
	c->peer_qpn = qpn;
	c->sq_psn = r->psn;
	c->rnr_retry = r->rnr_retry;
	c->responder_resources = r->initiator_depth;
	c->initiator_depth = r->responder_resources;
	c->ack_timeout = cm_ack_timeout(r->target_ack_delay, c->life_time);
	cm_enter_state(cm, c, CM_REP_RCVD);
	cm_table_add_remote(cm, c);
	cm_table_add_qpn(cm, c);
	cm_raise_event(cm, c, CM_EV_REP, 0, m);
}

static void wait_for_program(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm->stats.duplicates++;
	cm_send_mra(cm, c, CM_ABOUT_REP, CM_SERVICE_TIMEOUT);
}

/* The peer repeats its REP: our RTU was lost. */
static void repeat_rtu(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm->stats.duplicates++;
	if (c->active)
		cm_send(cm, c,
			&(struct cm_msg){
				.type = CM_RTU,
				.tid = c->tid,
				.rtu = { .local_id = c->local_id, .remote_id = c->remote_id } });
}

static void take_rtu(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_enter_state(cm, c, CM_ESTABLISHED);
	cm_raise_event(cm, c, CM_EV_ESTABLISHED, 0, m);
}

/* MRA: extends the current try, and uses up no retry. */
static void wait_longer(struct cm *cm, struct cm_conn *c, enum cm_state state,
			const struct cm_msg *m, uint64_t now)
{
	uint64_t extension = cm_wire_time(m->mra.service_timeout) + cm_wire_time(c->ack_timeout);

	cm_enter_state(cm, c, state);
	c->early_left = 0;
	cm_deadline_set(cm, c, time_after(now, extension));
}

static void take_mra_of_req(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	if (m->mra.about == CM_ABOUT_REQ)
		wait_longer(cm, c, CM_MRA_REQ_RCVD, m, now);
}

static void take_mra_of_rep(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	if (m->mra.about == CM_ABOUT_REP)
		wait_longer(cm, c, CM_MRA_REP_RCVD, m, now);
}

/*
 * Rejected before it was established.  After REJ 10 (stale connection) an earlier connection of the
 * QP may still have packets on the way: hence timewait.
 */
static void take_rej(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	if (m->rej.reason == CM_REJ_STALE_CONN)
		cm_enter_timewait(cm, c, now);
	else
		cm_enter_state(cm, c, CM_IDLE);
	cm_raise_event(cm, c, CM_EV_REJECTED, m->rej.reason, m);
}

static void take_rej_late(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_enter_timewait(cm, c, now);
	cm_raise_event(cm, c, CM_EV_REJECTED, m->rej.reason, m);
}

/* The peer gave up before the program answered. */
static void take_rej_early(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_enter_state(cm, c, CM_IDLE);
	cm_raise_event(cm, c, CM_EV_GONE, m->rej.reason, m);
}

static void take_dreq(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	c->tid = m->tid;
	cm_enter_state(cm, c, CM_DREQ_RCVD);
	cm_raise_disconnected(cm, c, 0, m);
}

/*
 * Only a peer that has established the connection ends it by a DREQ. If that overtakes the RTU, or
 * the RTU was lost with its process, the program still sees the connection before its end.
 */
static void take_dreq_for_rtu(struct cm *cm, struct cm_conn *c, const struct cm_msg *m,
			      uint64_t now)
{
	cm_raise_event(cm, c, CM_EV_ESTABLISHED, 0, NULL);
	take_dreq(cm, c, m, now);
}

/* The peer repeats its DREQ: our DREP was lost. */
static void repeat_drep(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm->stats.duplicates++;
	c->tid = m->tid;
	cm_send_drep(cm, c, NULL, 0);
}

static void take_drep(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_enter_timewait(cm, c, now);
	cm_raise_disconnected(cm, c, 0, m);
}

static void take_sidr_rep(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_enter_state(cm, c, CM_IDLE);
	cm_raise_event(cm, c, CM_EV_SIDR_REP, m->sidr_rep.status, m);
}

/* Alternate paths are not supported. */
static void refuse_lap(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	struct cm_msg apr = { .type = CM_APR, .tid = m->tid };

	apr.apr.local_id = c->local_id;
	apr.apr.remote_id = c->remote_id;
	apr.apr.status = CM_APR_UNSUPPORTED;
	cm_send(cm, c, &apr);
}

/* request.c handles REQ and SIDR_REQ.  No LAP is ever sent, so an APR is never expected. */
static const take_fn take[CM_NUM_STATES][CM_APR + 1] = {
	[CM_REQ_SENT] = { [CM_REP] = take_rep, [CM_MRA] = take_mra_of_req, [CM_REJ] = take_rej },
	[CM_MRA_REQ_RCVD] = { [CM_REP] = take_rep, [CM_REJ] = take_rej },
	[CM_REP_RCVD] = { [CM_REP] = wait_for_program, [CM_REJ] = take_rej_late },
	[CM_REQ_RCVD] = { [CM_REJ] = take_rej_early },
	[CM_REP_SENT] = { [CM_RTU] = take_rtu,
			  [CM_MRA] = take_mra_of_rep,
			  [CM_REJ] = take_rej,
			  [CM_DREQ] = take_dreq_for_rtu },
	[CM_MRA_REP_RCVD] = { [CM_RTU] = take_rtu,
			      [CM_REJ] = take_rej,
			      [CM_DREQ] = take_dreq_for_rtu },
	[CM_ESTABLISHED] = { [CM_REP] = repeat_rtu,
			     [CM_REJ] = take_rej_late,
			     [CM_DREQ] = take_dreq,
			     [CM_LAP] = refuse_lap },
	[CM_DREQ_SENT] = { [CM_REJ] = take_rej_late, [CM_DREQ] = take_dreq, [CM_DREP] = take_drep },
	[CM_DREQ_RCVD] = { [CM_DREP] = take_drep },
	[CM_TIMEWAIT] = { [CM_DREQ] = repeat_drep },
	[CM_SIDR_REQ_SENT] = { [CM_SIDR_REP] = take_sidr_rep },
};

/* The communication ids of a message: ours and the sender's. */
struct ids {
	uint32_t ours, peers;
	bool first;		/* may be the first message from a peer whose id is unknown */
};

static struct ids ids_of(const struct cm_msg *m)
{
	switch (m->type) {
	case CM_MRA:
		return (struct ids){ m->mra.remote_id, m->mra.local_id, true };
	case CM_REJ:
		return (struct ids){ m->rej.remote_id, m->rej.local_id, true };
	case CM_REP:
		return (struct ids){ m->rep.remote_id, m->rep.local_id, true };
	case CM_RTU:
		return (struct ids){ m->rtu.remote_id, m->rtu.local_id };
	case CM_DREQ:
		return (struct ids){ m->dreq.remote_id, m->dreq.local_id };
	case CM_DREP:
		return (struct ids){ m->drep.remote_id, m->drep.local_id };
	case CM_LAP:
		return (struct ids){ m->lap.remote_id, m->lap.local_id };
	case CM_SIDR_REP:
		return (struct ids){ m->sidr_rep.request_id, 0, true };
	default:
		return (struct ids){ 0 };
	}
}

static struct cm_conn *find(struct cm *cm, const struct net_path *from, const struct cm_msg *m)
{
	struct ids ids = ids_of(m);
	struct cm_conn *c;

	/* REJ after a timeout: if its sender has not received our id, it gives its CA GUID. */
	if (m->type == CM_REJ && m->rej.reason == CM_REJ_TIMEOUT &&
	    m->rej.info_len >= sizeof(uint64_t))
		return cm_table_find_remote(cm, &from->src, get_be64(m->rej.info), m->rej.local_id);
	c = cm_table_find_local(cm, ids.ours);
	if (!c || (c->remote_id ? c->remote_id != ids.peers : !ids.first))
		return NULL;
	return c;
}

/* True if the message comes from the conn's peer, and a DREQ names the conn's QP. */
static bool is_genuine(const struct cm_conn *c, const struct net_path *from, const struct cm_msg *m)
{
	if (!net_addr_equal(&from->src, &c->path.dst) || !net_addr_equal(&from->dst, &c->path.src))
		return false;
	return m->type != CM_DREQ || m->dreq.remote_qpn == c->qpn;
}

static void input_answer(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
			 uint64_t now)
{
	struct cm_conn *c = find(cm, from, m);
	struct cm_msg answer;
	take_fn fn;

	if (!c) {
		cm->stats.unknown++;
		if (cm_stateless_reply(&answer, m))
			cm_send_reply(cm, from, &answer);
		return;
	}
	if (!is_genuine(c, from, m)) {
		cm->stats.forged++;
		return;
	}
	fn = take[c->state][m->type];
	if (fn)
		fn(cm, c, m, now);
	else
		cm->stats.duplicates++;
}

/* Communication ids are not 0, so such a request could not be answered. */
static bool has_sender(const struct cm_msg *m)
{
	switch (m->type) {
	case CM_REQ:
		return m->req.local_id;
	case CM_REP:
		return m->rep.local_id;
	case CM_SIDR_REQ:
		return m->sidr_req.request_id;
	default:
		return true;
	}
}

void cm_input(struct cm *cm, const struct net_path *path, const uint8_t *mad, size_t len,
	      uint64_t now)
{
	struct cm_msg m;

	cm->stats.received++;
	if (cm_decode(&m, mad, len) != CM_DECODED || !has_sender(&m))
		cm->stats.garbage++;
	else if (m.type == CM_REQ || m.type == CM_SIDR_REQ)
		cm_request_input(cm, path, &m, now);
	else
		input_answer(cm, path, &m, now);
}
