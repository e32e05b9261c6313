/* SPDX-License-Identifier: BSD-2-Clause */
/* Outgoing messages. */
#include "cm/parts.h"
#include "util/be.h"
#include "util/compiler.h"

struct cm_msg cm_msg_start(const struct cm_conn *c, enum cm_type type)
{
	return (struct cm_msg){ .type = type, .tid = c->tid };
}

void cm_send_mad(struct cm *cm, const struct net_path *path, const uint8_t mad[CM_MAD_LEN])
{
	cm->stats.sent++;
	cm->in_vain = false;
	cm->ops->send(cm->arg, path, mad);
}

/* A message with retries; its deadline has been set. */
static void send_own(struct cm *cm, struct cm_conn *c)
{
	cm_send_mad(cm, &c->path, c->mad);
	if (!cm->in_vain)
		return;
	c->early_left = c->retries_left = 0;
	cm_deadline_set(cm, c, c->first_sent);
}

void cm_send(struct cm *cm, struct cm_conn *c, const struct cm_msg *m)
{
	uint8_t mad[CM_MAD_LEN];

	cm_encode(mad, m);
	cm_send_mad(cm, &c->path, mad);
}

/*
 * Intervals are seconds long, for a peer that is slow to answer.  A message that was lost must not
 * cost as much: it is sent again after these parts of the first interval, too, a sixteenth and a
 * fourth of it.  A peer that reacts within 256 ms gets each message once.
 */
static const unsigned int early[] = { 4, 16 };

static uint64_t next_repetition(const struct cm_conn *c)
{
	uint64_t part = c->early_left ? early[c->early_left - 1] : 1;

	return time_after(c->first_sent, c->interval / part);
}

void cm_send_with_retries(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	cm_encode(c->mad, m);
	c->retries_left = c->max_retries;
	c->early_left = c->max_retries ? ARRAY_SIZE(early) : 0;
	c->first_sent = now;
	cm_deadline_set(cm, c, next_repetition(c));
	send_own(cm, c);
}

static void resend(struct cm *cm, struct cm_conn *c)
{
	cm->stats.retried++;
	send_own(cm, c);
}

void cm_resend(struct cm *cm, struct cm_conn *c, uint64_t now)
{
	c->retries_left--;
	cm_deadline_set(cm, c, time_after(now, c->interval));
	resend(cm, c);
}

void cm_resend_early(struct cm *cm, struct cm_conn *c)
{
	c->early_left--;
	cm_deadline_set(cm, c, next_repetition(c));
	resend(cm, c);
}

void cm_send_mra(struct cm *cm, struct cm_conn *c, enum cm_about about, uint8_t service_timeout)
{
	struct cm_msg m = cm_msg_start(c, CM_MRA);

	m.mra.local_id = c->local_id;
	m.mra.remote_id = c->remote_id;
	m.mra.about = about;
	m.mra.service_timeout = service_timeout;
	cm_send(cm, c, &m);
}

void cm_send_rtu(struct cm *cm, struct cm_conn *c, const void *data, size_t len)
{
	struct cm_msg m = cm_msg_start(c, CM_RTU);

	m.rtu.local_id = c->local_id;
	m.rtu.remote_id = c->remote_id;
	if (len)
		memcpy(m.rtu.private_data, data, len);
	cm_send(cm, c, &m);
}

void cm_send_drep(struct cm *cm, struct cm_conn *c, const void *data, size_t len)
{
	struct cm_msg m = cm_msg_start(c, CM_DREP);

	m.drep.local_id = c->local_id;
	m.drep.remote_id = c->remote_id;
	if (len)
		memcpy(m.drep.private_data, data, len);
	cm_send(cm, c, &m);
}

/*
 * A DREQ starts a transaction of its own, on the passive side too.  len 0: with the conn's data.
 */
struct cm_msg cm_format_dreq(const struct cm_conn *c, const void *data, size_t len)
{
	struct cm_msg m = { .type = CM_DREQ, .tid = c->local_id };

	m.dreq.local_id = c->local_id;
	m.dreq.remote_id = c->remote_id;
	m.dreq.remote_qpn = c->peer_qpn;
	if (len)
		memcpy(m.dreq.private_data, data, len);
	else
		memcpy(m.dreq.private_data, c->dreq_data, sizeof(c->dreq_data));
	return m;
}

/* The message that a REJ in this state rejects. */
static enum cm_about rejected(const struct cm_conn *c)
{
	switch (c->state) {
	case CM_REQ_RCVD:
		return CM_ABOUT_REQ;
	case CM_REP_RCVD:
		return CM_ABOUT_REP;
	default:
		return CM_ABOUT_OTHER;
	}
}

struct cm_msg cm_format_rej(const struct cm_conn *c, unsigned int reason)
{
	struct cm_msg m = cm_msg_start(c, CM_REJ);

	m.rej.local_id = c->local_id;
	m.rej.remote_id = c->remote_id;
	m.rej.about = rejected(c);
	m.rej.reason = (uint16_t)reason;
	return m;
}

/* If the peer's id is still unknown, the peer finds the connection by our CA GUID. */
static struct cm_msg format_timeout_rej(const struct cm_conn *c)
{
	struct cm_msg m = cm_format_rej(c, CM_REJ_TIMEOUT);

	m.rej.info_len = sizeof(uint64_t);
	put_be64(m.rej.info, c->ca_guid);
	return m;
}

bool cm_format_final(const struct cm_conn *c, struct cm_msg *m)
{
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		*m = format_timeout_rej(c);
		return true;
	case CM_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		*m = cm_format_rej(c, CM_REJ_CONSUMER);
		return true;
	case CM_ESTABLISHED:
		*m = cm_format_dreq(c, NULL, 0);
		return true;
	case CM_DREQ_RCVD:
		*m = cm_msg_start(c, CM_DREP);
		m->drep.local_id = c->local_id;
		m->drep.remote_id = c->remote_id;
		return true;
	case CM_SIDR_REQ_RCVD:
		*m = cm_msg_start(c, CM_SIDR_REP);
		m->sidr_rep.request_id = c->remote_id;
		m->sidr_rep.service_id = c->service_id;
		m->sidr_rep.status = CM_SIDR_REJECTED;
		return true;
	default:
		return false;
	}
}

void cm_send_reply(struct cm *cm, const struct net_path *from, const struct cm_msg *m)
{
	struct net_path path = *from;
	uint8_t mad[CM_MAD_LEN];

	path.src = from->dst;
	path.dst = from->src;
	cm_encode(mad, m);
	cm_send_mad(cm, &path, mad);
}
