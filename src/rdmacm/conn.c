/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Callbacks of the engine: turns its events into events of ids, and makes ids for requests.  No
 * verb is called here, under the cma lock; deliver.c does that when the program fetches the event.
 */
#include "rdmacm/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/event.h"
#include "rdmacm/id.h"

/* ---- Listeners ---- */

/* The criteria for matching a listener. */
struct wanted {
	uint64_t service_id;
	struct cm_ip_header ip;
	uint8_t family; /* 4, 6; 0: no IP header */
	uint16_t pkey;
	struct net_addr src, dst; /* of the packet, which are also the GIDs of a REQ */
	bool datagram;
};

static struct wanted wanted_of(const struct cm_msg *m, const struct net_path *path)
{
	struct wanted w = { .datagram = m->type == CM_SIDR_REQ };

	w.service_id = w.datagram ? m->sidr_req.service_id : m->req.service_id;
	w.pkey = w.datagram ? m->sidr_req.pkey : m->req.pkey;
	w.family = cm_ip_header_of(&w.ip, m);
	w.src = path->src;
	w.dst = path->dst;
	return w;
}

/* A listener bound to a GID gets the IP header as part of the private data. */
static bool by_gid(const struct cma_id *listener)
{
	return listener->service.family == 0;
}

/*
 * Checks the IP header of Annex A11.  A program shows its addresses as the peer's and its own, and
 * may grant access by them: they must be the packet's.
 */
static bool header_ok(const struct wanted *w)
{
	return w->family && net_addr_equal(&w->ip.src, &w->src) &&
	       net_addr_equal(&w->ip.dst, &w->dst) && !net_is_multicast(&w->src) &&
	       !net_is_multicast(&w->dst);
}

/* Match of a listener: 0 none, 1 by wildcard, 2 by its address. */
static int fits(const struct cma_id *id, const struct wanted *w)
{
	const struct vrb_service *s = &id->service;

	if (s->service_id != w->service_id)
		return 0;
	if (!net_addr_is_zero(&s->addr))
		return net_addr_equal(&s->addr, &w->dst) ? 2 : 0;
	return s->family == w->family || !s->only_family;
}

static struct cma_id *find_listener(const struct wanted *w)
{
	struct cma_id *best = NULL;
	struct list *pos;
	int quality = 0;

	list_for_each (pos, &cma.listeners) {
		struct cma_id *id = list_entry(pos, struct cma_id, on_listen);
		int now = fits(id, w);

		if (now > quality) {
			quality = now;
			best = id;
		}
	}
	return best;
}

/* ---- The id of a request ---- */

static enum ibv_qp_type qp_type_of(const struct cm_msg *m)
{
	if (m->type == CM_SIDR_REQ)
		return IBV_QPT_UD;
	if (m->req.transport == CM_UC)
		return IBV_QPT_UC;
	if (m->req.transport == CM_EXTENDED)
		return IBV_QPT_XRC_RECV;
	return IBV_QPT_RC;
}

static void set_addresses(struct cma_id *id, const struct wanted *w, bool gids)
{
	struct rdma_addr *addr = &id->pub.route.addr;

	if (gids) {
		addr_ib(&addr->src_storage, &id->path.src, w->pkey, w->service_id);
		addr_ib(&addr->dst_storage, &id->path.dst, w->pkey, 0);
		return;
	}
	addr_from_gid(&addr->src_storage, &w->dst, (uint16_t)w->service_id, 0);
	addr_from_gid(&addr->dst_storage, &w->src, w->ip.src_port, 0);
}

static struct cma_id *new_child(struct cma_id *listener, const struct cm_msg *m,
				const struct wanted *w)
{
	enum ibv_qp_type type = qp_type_of(m);
	struct cma_id *id =
		id_new(id_channel(listener), listener->pub.context, listener->pub.ps, type);

	if (!id)
		return NULL;
	if (id_new_conn(id)) {
		free(id);
		return NULL;
	}
	id->state = ID_CONNECT;
	id->child = true;
	id->qkey = listener->qkey;
	id->opt.tos = listener->opt.tos;
	id->opt.tos_set = listener->opt.tos_set;
	id->path.src = w->dst;
	id->path.dst = w->src;
	set_addresses(id, w, by_gid(listener));
	id_add(id);
	return id;
}

static void set_conn_request(struct event *e, const struct cm_req *req, uint8_t header)
{
	struct rdma_conn_param *p = &e->pub.param.conn;

	event_set_conn_data(e, req->private_data + header, CM_REQ_PRIVATE - header);
	/* The peer's initiator depth is our responder depth, and vice versa. */
	p->responder_resources = req->initiator_depth;
	p->initiator_depth = req->responder_resources;
	p->flow_control = req->flow_control;
	p->retry_count = req->retry_count;
	p->rnr_retry_count = req->rnr_retry;
	p->srq = req->srq;
	p->qp_num = req->qpn;
}

static struct event *new_request_event(struct cma_id *listener, struct cma_id *id,
				       const struct cm_msg *m)
{
	struct event *e = event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	uint8_t header = by_gid(listener) ? 0 : CM_IP_HEADER_LEN;

	if (!e)
		return NULL;
	e->pub.listen_id = &listener->pub;
	e->counts_on = listener;
	if (m->type == CM_REQ)
		set_conn_request(e, &m->req, header);
	else
		event_set_ud_data(e, m->sidr_req.private_data + header,
				  CM_SIDR_REQ_PRIVATE - header);
	return e;
}

/* Does the request wait for the listener's program to fetch it? */
static bool is_queued_for(const struct cm_conn *c, void *listener)
{
	const struct cma_id *id = container_of(c, struct conn, cm)->id;

	return id && id->request && id->request->counts_on == listener;
}

/* Makes an id and its event, which conn_event() queues once the engine has set up the conn. */
static enum cm_verdict take(struct cma_id *listener, const struct cm_msg *m, const struct wanted *w,
			    struct cm_conn **out)
{
	struct cma_id *id;

	if (listener->waiting >= listener->backlog &&
	    !cm_make_way(&cma.engine, &w->src, is_queued_for, listener))
		return CM_IGNORE;
	id = new_child(listener, m, w);
	if (!id)
		return CM_IGNORE;
	if (m->type == CM_REQ)
		id->peer_ece =
			(struct ibv_ece){ .vendor_id = m->req.vendor_id, .options = m->modifier };
	id->request = new_request_event(listener, id, m);
	if (!id->request) {
		/* The engine has not taken the conn yet. */
		list_del(&id->node);
		free(id->conn);
		free(id);
		return CM_IGNORE;
	}
	*out = &id->conn->cm;
	return CM_TAKE;
}

enum cm_verdict conn_request(void *arg, const struct cm_msg *m, const struct net_path *path,
			     struct cm_conn **conn, unsigned int *reason)
{
	struct wanted w = wanted_of(m, path);
	struct cma_id *listener = find_listener(&w);

	*reason = w.datagram ? CM_SIDR_NO_SERVICE : CM_REJ_INVALID_SERVICE_ID;
	if (!listener)
		return CM_REFUSE;
	*reason = w.datagram ? CM_SIDR_REJECTED : CM_REJ_CONSUMER;
	if ((!by_gid(listener) && !header_ok(&w)) || listener->pub.qp_type != qp_type_of(m))
		return CM_REFUSE;
	return take(listener, m, &w, conn);
}

/* ---- Events ---- */

static void on_request(struct cma_id *id, const struct cm_event *ev)
{
	id->request->counts_on->waiting++;
	id->request->rank = cm_requests_before(&cma.engine, &id->conn->cm);
	event_post(id->request);
}

static void on_rep(struct cma_id *id, const struct cm_event *ev)
{
	const struct cm_rep *rep = &ev->msg->rep;
	struct event *e = event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	struct rdma_conn_param *p;

	if (!e)
		return;
	event_set_conn_data(e, rep->private_data, CM_REP_PRIVATE);
	p = &e->pub.param.conn;
	p->responder_resources = rep->initiator_depth;
	p->initiator_depth = rep->responder_resources;
	p->flow_control = rep->flow_control;
	p->rnr_retry_count = rep->rnr_retry;
	p->srq = rep->srq;
	p->qp_num = id->conn->cm.peer_qpn;
	id->peer_ece =
		(struct ibv_ece){ .vendor_id = rep->vendor_id, .options = ev->msg->modifier };
	event_post(e);
}

static void on_established(struct cma_id *id, const struct cm_event *ev)
{
	event_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void on_rejected(struct cma_id *id, const struct cm_event *ev)
{
	struct event *e = event_new(id, RDMA_CM_EVENT_REJECTED, ev->status);

	if (!id->child)
		diagnose_rejected(id, (unsigned int)ev->status);
	if (!e)
		return;
	if (ev->msg)
		event_set_conn_data(e, ev->msg->rej.private_data, CM_REJ_PRIVATE);
	event_post(e);
}

static void on_unreachable(struct cma_id *id, const struct cm_event *ev)
{
	if (!id->child)
		diagnose_silence(id, true);
	event_raise(id, RDMA_CM_EVENT_UNREACHABLE, ev->status);
}

/* The private data of a DREQ is for rsockets only: as on Linux, the program does not get it. */
static void on_disconnected(struct cma_id *id, const struct cm_event *ev)
{
	struct event *e = event_new(id, RDMA_CM_EVENT_DISCONNECTED, ev->status);

	if (!e)
		return;
	if (ev->msg && ev->msg->type == CM_DREQ)
		memcpy(e->data, ev->msg->dreq.private_data, CM_DREQ_PRIVATE);
	event_post(e);
}

/* As Linux: what was rejected never was a connection of the program's that could leave timewait. */
static void on_timewait_exit(struct cma_id *id, const struct cm_event *ev)
{
	if (id->conn->cm.disconnected)
		event_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* The peer's UD QP, from a SIDR_REP. */
static void set_service(struct cma_id *id, struct event *e, const struct cm_sidr_rep *rep)
{
	struct rdma_ud_param *p = &e->pub.param.ud;
	const struct ibv_sa_path_rec *rec = &id->path_rec;

	p->qp_num = rep->qpn;
	p->qkey = rep->qkey;
	p->ah_attr.is_global = 1;
	p->ah_attr.port_num = id->path.place.port_num;
	memcpy(p->ah_attr.grh.dgid.raw, id->path.dst.raw, sizeof(id->path.dst.raw));
	p->ah_attr.grh.sgid_index = id->path.place.gid_index;
	p->ah_attr.grh.hop_limit = rec->hop_limit;
	p->ah_attr.grh.traffic_class = rec->traffic_class;
	p->ah_attr.grh.flow_label = be32toh(rec->flow_label);
	id->qkey = rep->qkey;
}

static void on_sidr_rep(struct cma_id *id, const struct cm_event *ev)
{
	const struct cm_sidr_rep *rep = &ev->msg->sidr_rep;
	bool good = ev->status == CM_SIDR_OK;
	/* A QP has one Q_Key: the id cannot send to a service with another one. */
	bool same_key = rep->qkey && (!id->qkey || rep->qkey == id->qkey);
	struct event *e;

	if (ev->status == CM_SIDR_NO_SERVICE)
		diagnose_rejected(id, CM_REJ_INVALID_SERVICE_ID);
	if (good && !same_key) {
		event_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -EINVAL);
		return;
	}
	e = event_new(id, good ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE, ev->status);
	if (!e)
		return;
	event_set_ud_data(e, rep->private_data, CM_SIDR_REP_PRIVATE);
	if (good)
		set_service(id, e, rep);
	event_post(e);
}

/*
 * The peer gave up, or the engine dropped the request for lack of room.  If the program has not
 * seen the request, it is discarded.
 */
static void on_gone(struct cma_id *id, const struct cm_event *ev)
{
	struct event *e = id->request;

	if (!e)
		return;
	event_unqueue(id_channel(e->counts_on), e);
	free(e);
	cma_discard_later(id);
}

typedef void (*event_fn)(struct cma_id *id, const struct cm_event *ev);

static const event_fn event_fns[] = {
	[CM_EV_REQUEST] = on_request,
	[CM_EV_REP] = on_rep,
	[CM_EV_ESTABLISHED] = on_established,
	[CM_EV_REJECTED] = on_rejected,
	[CM_EV_UNREACHABLE] = on_unreachable,
	[CM_EV_DISCONNECTED] = on_disconnected,
	[CM_EV_TIMEWAIT_EXIT] = on_timewait_exit,
	[CM_EV_SIDR_REP] = on_sidr_rep,
	[CM_EV_GONE] = on_gone,
};

void conn_event(void *arg, struct cm_conn *c, const struct cm_event *ev)
{
	struct cma_id *id = container_of(c, struct conn, cm)->id;

	if (id)
		event_fns[ev->type](id, ev);
}

/* The processes of this host answer, or will. */
static bool gives_up(const struct cma_id *id, const struct cm_conn *c)
{
	if (!id->hasty || net_addr_equal(&id->path.src, &id->path.dst))
		return false;
	return !c->early_left || qp1.trouble(cma.mad, &id->path.dst);
}

bool conn_late(void *arg, struct cm_conn *c)
{
	const struct cma_id *id = container_of(c, struct conn, cm)->id;

	if (id && gives_up(id, c))
		return false;
	if (id && !c->early_left)
		diagnose_silence(id, false);
	return true;
}
