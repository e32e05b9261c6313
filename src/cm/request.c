/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Incoming REQ and SIDR_REQ: duplicates are recognized; new requests are checked here and then
 * offered to the caller.
 */
#include "cm/parts.h"
#include "cm/stateless.h"

#include <assert.h>

enum { MTU_MAX = IBV_MTU_4096 };

static void refuse(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		   unsigned int reason, const void *info, size_t info_len)
{
	struct cm_msg answer;

	cm->stats.refused++;
	cm_refuse(&answer, m, reason);
	if (info_len) {
		memcpy(answer.rej.info, info, info_len);
		answer.rej.info_len = (uint8_t)info_len;
	}
	cm_send_reply(cm, from, &answer);
}

static bool transport_makes_sense(const struct cm_req *r)
{
	return r->transport == CM_RC || r->transport == CM_UC ||
	       (r->transport == CM_EXTENDED && r->ext_transport == CM_EXT_XRC);
}

/*
 * Checks a REQ; refuses it and returns false if it is invalid.  The GIDs in it must be the
 * addresses of its packet: otherwise our replies could be aimed at any host.
 */
static bool check_req(struct cm *cm, const struct net_path *from, const struct cm_msg *m)
{
	const struct cm_req *r = &m->req;

	if (!transport_makes_sense(r)) {
		refuse(cm, from, m, CM_REJ_INVALID_TRANSPORT_TYPE, NULL, 0);
	} else if (!net_addr_equal(&r->primary.local_gid, &from->src) ||
		   !net_addr_equal(&r->primary.remote_gid, &from->dst)) {
		refuse(cm, from, m, CM_REJ_INVALID_GID, &from->dst, sizeof(from->dst));
	} else if (!r->mtu || r->mtu > MTU_MAX) {
		refuse(cm, from, m, CM_REJ_INVALID_MTU, &(uint8_t){ MTU_MAX }, 1);
	} else {
		return true;
	}
	return false;
}

/* The path back to the sender; take_req() adds what only the REQ contains. */
static struct net_path reversed(const struct net_path *from)
{
	struct net_path path = *from;

	path.src = from->dst;
	path.dst = from->src;
	return path;
}

static void take_req(struct cm *cm, struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	const struct cm_req *r = &m->req;

	c->first_sent = now;
	c->path.traffic_class = r->primary.traffic_class;
	c->path.flow_label = r->primary.flow_label;
	c->path.hop_limit = r->primary.hop_limit;
	c->path.sl = r->primary.sl;
	c->service_id = r->service_id;
	c->peer_guid = r->ca_guid;
	c->remote_id = r->local_id;
	c->peer_qpn = r->qpn;
	c->sq_psn = r->psn;
	c->rq_psn = cm_table_mix(cm, c->local_id, m->tid) & 0xffffff;
	c->transport = r->transport;
	c->ext_transport = r->ext_transport;
	c->mtu = r->mtu;
	c->retry_count = r->retry_count;
	c->rnr_retry = r->rnr_retry;
	c->responder_resources = r->initiator_depth;
	c->initiator_depth = r->responder_resources;
	c->ack_timeout = r->primary.ack_timeout;
	c->alternate_offered = r->alternate.local_lid != 0;
	c->interval = cm_wire_time(r->local_response_timeout);
	c->max_retries = r->max_cm_retries;
}

static void take_sidr_req(struct cm_conn *c, const struct cm_msg *m, uint64_t now)
{
	c->first_sent = now;
	c->datagram = true;
	c->service_id = m->sidr_req.service_id;
	c->remote_id = m->sidr_req.request_id;
}

static void drop(struct cm *cm, struct cm_conn *c)
{
	cm->stats.dropped++;
	cm_enter_state(cm, c, CM_IDLE);
	cm_raise_event(cm, c, CM_EV_GONE, 0, NULL);
}

static void make_room(struct cm *cm, const struct net_addr *source)
{
	struct cm_conn *oldest = cm_table_one_too_many(cm, source);

	if (oldest)
		drop(cm, oldest);
}

bool cm_make_way(struct cm *cm, const struct net_addr *source,
		 bool (*may_go)(const struct cm_conn *c, void *arg), void *arg)
{
	int heaviest = cm_table_heaviest(cm, source);
	struct list *pos;

	if (heaviest < 0)
		return false;
	list_for_each (pos, &cm->source[heaviest].conns) {
		struct cm_conn *c = list_entry(pos, struct cm_conn, of_source);

		if (!may_go(c, arg))
			continue;
		drop(cm, c);
		return true;
	}
	return false;
}

unsigned int cm_requests_before(const struct cm *cm, const struct cm_conn *c)
{
	return cm->num_half_open > CM_FEW_REQUESTS ? cm->source[c->source].n - 1 : 0;
}

static void offer(struct cm *cm, const struct net_path *from, const struct cm_msg *m, uint64_t now)
{
	struct cm_conn *c = NULL;
	unsigned int reason = 0;

	switch (cm->ops->request(cm->arg, m, from, &c, &reason)) {
	case CM_IGNORE:
		cm->stats.ignored++;
		return;
	case CM_REFUSE:
		refuse(cm, from, m, reason, NULL, 0);
		return;
	case CM_TAKE:
		break;
	}
	make_room(cm, &from->src);
	c->tid = m->tid;
	c->path = reversed(from);
	if (m->type == CM_REQ)
		take_req(cm, c, m, now);
	else
		take_sidr_req(c, m, now);
	cm_enter_state(cm, c, m->type == CM_REQ ? CM_REQ_RCVD : CM_SIDR_REQ_RCVD);
	cm_table_add_remote(cm, c);
	if (m->type == CM_REQ)
		cm_table_add_qpn(cm, c);
	cm_raise_event(cm, c, CM_EV_REQUEST, 0, m);
}

/* A duplicate REQ: our reply was lost, or the program has not answered yet. */
static void repeat(struct cm *cm, struct cm_conn *c, const struct net_path *from,
		   const struct cm_msg *m)
{
	cm->stats.duplicates++;
	if (c->state == CM_REQ_RCVD)
		cm_send_mra(cm, c, CM_ABOUT_REQ, CM_SERVICE_TIMEOUT);
	else if (c->state == CM_TIMEWAIT)
		refuse(cm, from, m, CM_REJ_STALE_CONN, NULL, 0);
}

static void input_req(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		      uint64_t now)
{
	struct cm_conn *c = cm_table_find_remote(cm, &from->src, m->req.ca_guid, m->req.local_id);

	if (c) {
		repeat(cm, c, from, m);
		return;
	}
	if (cm_answer_again(cm, from, m, now)) {
		cm->stats.duplicates++;
		return;
	}
	if (!check_req(cm, from, m))
		return;
	c = cm_table_find_qpn(cm, &from->src, m->req.ca_guid, m->req.qpn);
	if (c && c->state != CM_REQ_RCVD) {
		/* The tables have a connection of the same peer QP: the peer has restarted. */
		refuse(cm, from, m, CM_REJ_STALE_CONN, NULL, 0);
		cm_call_drop_stale(cm, c, now);
		return;
	}
	/* A second REQ for the QP replaces the first, which the peer has given up. */
	if (c)
		drop(cm, c);
	offer(cm, from, m, now);
}

static void input_sidr_req(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
			   uint64_t now)
{
	if (cm_table_find_remote(cm, &from->src, 0, m->sidr_req.request_id) ||
	    cm_answer_again(cm, from, m, now))
		cm->stats.duplicates++;
	else
		offer(cm, from, m, now);
}

void cm_request_input(struct cm *cm, const struct net_path *from, const struct cm_msg *m,
		      uint64_t now)
{
	if (m->type == CM_REQ)
		input_req(cm, from, m, now);
	else
		input_sidr_req(cm, from, m, now);
}
