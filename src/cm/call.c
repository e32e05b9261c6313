/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls by the program, and retries.  Each call checks the state first and changes nothing if it
 * fails.
 */
#include "cm/parts.h"
#include "cm/stateless.h"

#include <errno.h>

#include "util/tuning.h"

static bool too_long(const void *data, size_t len, size_t cap)
{
	return len > cap || (len && !data);
}

int cm_connect(struct cm *cm, struct cm_conn *c, const struct cm_req *req, uint32_t modifier,
	       const struct net_path *path, uint8_t life_time, uint64_t now)
{
	struct cm_msg m = { .type = CM_REQ, .modifier = modifier, .req = *req };

	if (c->state != CM_IDLE || c->remote_id || c->active)
		return EINVAL;
	c->active = true;
	c->path = *path;
	c->tid = c->local_id;
	c->service_id = req->service_id;
	c->ca_guid = req->ca_guid;
	c->qpn = req->qpn;
	c->rq_psn = cm_table_mix(cm, c->local_id, now) & 0xffffff;
	c->transport = req->transport;
	c->ext_transport = req->ext_transport;
	c->mtu = req->mtu;
	c->retry_count = req->retry_count;
	c->responder_resources = req->responder_resources;
	c->initiator_depth = req->initiator_depth;
	c->ack_timeout = req->primary.ack_timeout;
	c->life_time = life_time;
	c->interval = 2 * cm_wire_time(life_time) + cm_wire_time(req->remote_response_timeout);
	c->max_retries = req->max_cm_retries;

	m.tid = c->tid;
	m.req.local_id = c->local_id;
	m.req.psn = c->rq_psn;
	cm_enter_state(cm, c, CM_REQ_SENT);
	cm_send_with_retries(cm, c, &m, now);
	return 0;
}

int cm_establish(struct cm *cm, struct cm_conn *c, const void *data, size_t len)
{
	if (c->state != CM_REP_RCVD || too_long(data, len, CM_RTU_PRIVATE))
		return EINVAL;
	cm_enter_state(cm, c, CM_ESTABLISHED);
	cm_send_rtu(cm, c, data, len);
	return 0;
}

int cm_accept(struct cm *cm, struct cm_conn *c, const struct cm_rep *rep, uint32_t modifier,
	      uint64_t now)
{
	bool xrc = c->transport == CM_EXTENDED;
	struct cm_msg m = { .type = CM_REP, .tid = c->tid, .modifier = modifier, .rep = *rep };

	if (c->state != CM_REQ_RCVD)
		return EINVAL;
	c->ca_guid = rep->ca_guid;
	c->qpn = xrc ? rep->eecn : rep->qpn;
	c->responder_resources = rep->responder_resources;
	c->initiator_depth = rep->initiator_depth;

	m.rep.local_id = c->local_id;
	m.rep.remote_id = c->remote_id;
	m.rep.psn = c->rq_psn;
	m.rep.failover = c->alternate_offered;	/* not supported */
	cm_enter_state(cm, c, CM_REP_SENT);
	cm_send_with_retries(cm, c, &m, now);
	return 0;
}

int cm_notify(struct cm *cm, struct cm_conn *c)
{
	if (c->state == CM_ESTABLISHED)
		return EISCONN;
	if (c->state != CM_REP_SENT && c->state != CM_MRA_REP_RCVD)
		return EINVAL;
	cm_enter_state(cm, c, CM_ESTABLISHED);
	cm_raise_event(cm, c, CM_EV_ESTABLISHED, 0, NULL);
	return 0;
}

static int reject_datagram(struct cm *cm, struct cm_conn *c, const void *data, size_t len)
{
	struct cm_msg m;

	if (too_long(data, len, CM_SIDR_REP_PRIVATE))
		return EINVAL;
	cm_format_final(c, &m);
	if (len)
		memcpy(m.sidr_rep.private_data, data, len);
	cm_answer_send(cm, c, &m);
	cm_enter_state(cm, c, CM_IDLE);
	return 0;
}

static bool may_reject(enum cm_state state)
{
	switch (state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		return true;
	default:
		return false;
	}
}

/* The exit MAD is needed until the REJ has left: an established peer would wait for ever. */
int cm_reject(struct cm *cm, struct cm_conn *c, unsigned int reason, const void *info,
	      size_t info_len, const void *data, size_t len, uint64_t now)
{
	bool agreed = c->state == CM_REP_SENT || c->state == CM_MRA_REP_RCVD;
	bool asked = c->state == CM_REQ_RCVD;
	struct cm_msg m;

	if (c->state == CM_SIDR_REQ_RCVD)
		return reject_datagram(cm, c, data, len);
	if (!may_reject(c->state) || too_long(info, info_len, CM_REJ_INFO) ||
	    too_long(data, len, CM_REJ_PRIVATE))
		return EINVAL;
	m = cm_format_rej(c, reason);
	m.rej.info_len = (uint8_t)info_len;
	if (info_len)
		memcpy(m.rej.info, info, info_len);
	if (len)
		memcpy(m.rej.private_data, data, len);
	if (asked)
		cm_answer_send(cm, c, &m);
	else
		cm_send(cm, c, &m);
	if (agreed)
		cm_enter_timewait(cm, c, now);
	else
		cm_enter_state(cm, c, CM_IDLE);
	return 0;
}

static void send_dreq(struct cm *cm, struct cm_conn *c, const void *data, size_t len, uint64_t now)
{
	struct cm_msg m = cm_format_dreq(c, data, len);

	cm_enter_state(cm, c, CM_DREQ_SENT);
	cm_send_with_retries(cm, c, &m, now);
}

int cm_disconnect(struct cm *cm, struct cm_conn *c, const void *data, size_t len, uint64_t now)
{
	if (c->state == CM_ESTABLISHED && !too_long(data, len, CM_DREQ_PRIVATE)) {
		send_dreq(cm, c, data, len, now);
		return 0;
	}
	if (c->state == CM_DREQ_RCVD && !too_long(data, len, CM_DREP_PRIVATE)) {
		cm_send_drep(cm, c, data, len);
		cm_enter_timewait(cm, c, now);
		return 0;
	}
	return EINVAL;
}

void cm_call_drop_stale(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	if (c->state == CM_ESTABLISHED)
		send_dreq(cm, c, NULL, 0, now);
}

int cm_acknowledge(struct cm *cm, struct cm_conn *c, uint8_t service_timeout)
{
	if (c->state != CM_REQ_RCVD && c->state != CM_REP_SENT && c->state != CM_REP_RCVD)
		return EINVAL;
	cm_send_mra(cm, c, c->state == CM_REP_RCVD ? CM_ABOUT_REP : CM_ABOUT_REQ, service_timeout);
	return 0;
}

int cm_sidr_connect(struct cm *cm, struct cm_conn *c, const struct cm_sidr_req *req,
		    const struct net_path *path, uint64_t now)
{
	struct cm_msg m = { .type = CM_SIDR_REQ, .tid = c->local_id, .sidr_req = *req };

	if (c->state != CM_IDLE || c->remote_id || c->active)
		return EINVAL;
	c->active = c->datagram = true;
	c->path = *path;
	c->tid = c->local_id;
	c->service_id = req->service_id;
	c->interval = cm_wire_time(CM_SIDR_TIMEOUT);
	c->max_retries = CM_SIDR_RETRIES;
	m.sidr_req.request_id = c->local_id;
	cm_enter_state(cm, c, CM_SIDR_REQ_SENT);
	cm_send_with_retries(cm, c, &m, now);
	return 0;
}

int cm_sidr_answer(struct cm *cm, struct cm_conn *c, const struct cm_sidr_rep *rep,
		   uint32_t modifier)
{
	struct cm_msg m = {
		.type = CM_SIDR_REP, .tid = c->tid, .modifier = modifier, .sidr_rep = *rep
	};

	if (c->state != CM_SIDR_REQ_RCVD)
		return EINVAL;
	m.sidr_rep.request_id = c->remote_id;
	m.sidr_rep.service_id = c->service_id;
	cm_answer_send(cm, c, &m);
	cm_enter_state(cm, c, CM_IDLE);
	return 0;
}

static void give_up(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	if (c->state == CM_DREQ_SENT) {
		cm_enter_timewait(cm, c, now);
		cm_raise_disconnected(cm, c, -ETIMEDOUT, NULL);
	} else {
		cm_enter_state(cm, c, CM_IDLE);
		cm_raise_event(cm, c, CM_EV_UNREACHABLE, -ETIMEDOUT, NULL);
	}
}

/* No late packet can arrive any more. */
static void leave_timewait(struct cm *cm, struct cm_conn *c)
{
	cm_enter_state(cm, c, CM_IDLE);
	if (c->destroyed)
		cm->ops->release(cm->arg, c);
	else
		cm_raise_event(cm, c, CM_EV_TIMEWAIT_EXIT, 0, NULL);
}

/* The caller may want no repetition of a request. */
static bool goes_on(struct cm *cm, struct cm_conn *c)
{
	bool asked = c->state == CM_REQ_SENT || c->state == CM_SIDR_REQ_SENT;

	return !asked || !cm->ops->late || cm->ops->late(cm->arg, c);
}

static void expire(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	bool repeats = c->early_left || c->retries_left;

	if (c->state == CM_TIMEWAIT)
		leave_timewait(cm, c);
	else if (!repeats || !goes_on(cm, c))
		give_up(cm, c, now);
	else if (c->early_left)
		cm_resend_early(cm, c);
	else
		cm_resend(cm, c, now);
}

/*
 * A process that was stopped, or got no CPU, has not waited. The answer may be on its way still,
 * even on one host: in a full inbox there was no room for it. Not if the message was sent in vain:
 * then the deadline has passed from the start.
 */
static bool has_overslept(const struct cm_conn *c, uint64_t now)
{
	return c->state != CM_TIMEWAIT && c->deadline != c->first_sent &&
	       time_since(c->deadline, now) > LIMIT_CM_OVERSLEPT;
}

void cm_timeout(struct cm *cm, uint64_t now)
{
	while (time_reached(cm_next_timeout(cm), now)) {
		struct cm_conn *c = cm->deadlines;

		if (has_overslept(c, now))
			cm_deadline_set(cm, c, time_after(now, LIMIT_CM_OVERSLEPT));
		else
			expire(cm, c, now);
	}
}
