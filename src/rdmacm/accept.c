/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side: rdma_listen(), rdma_accept(), rdma_reject(). */
#include <errno.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "rdmacm/param.h"
#include "rdmacm/path.h"
#include "rdmacm/port.h"
#include "rdmacm/qp.h"

enum { MAX_BACKLOG = 1024 };

/* ---- Listening ---- */

/* An id without an address gets the wildcard address and any port. */
static int bind_any(struct cma_id *id)
{
	struct sockaddr_storage any;
	bool idle;

	cma_lock();
	idle = id->state == ID_IDLE;
	cma_unlock();
	if (!idle)
		return 0;
	addr_any(&any, AF_INET);
	return path_bind(id, (struct sockaddr *)&any);
}

static int listen_id(struct cma_id *id, int backlog)
{
	int err = bind_any(id);

	if (err)
		return err;
	cma_lock();
	if (id->state != ID_BOUND) {
		cma_unlock();
		return EINVAL;
	}
	/* Set before the host's table has the listener: requests may arrive from then on. */
	id->backlog = backlog > 0 && backlog <= MAX_BACKLOG ? (unsigned int)backlog : MAX_BACKLOG;
	list_add_tail(&cma.listeners, &id->on_listen);
	id->state = ID_LISTEN;
	cma_unlock();
	err = port_listen(id);
	if (!err)
		return 0;
	cma_lock();
	list_del(&id->on_listen);
	if (id->state == ID_LISTEN)
		id->state = ID_BOUND;
	cma_unlock();
	return err;
}

CMA_EXPORT int rdma_listen(struct rdma_cm_id *pub, int backlog)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	cma_unlock();
	return cma_result(listen_id(id, backlog));
}

/* ---- Accepting ---- */

static struct cm_rep rep_of(const struct cma_id *id, const struct param *p)
{
	bool xrc = id->pub.qp_type == IBV_QPT_XRC_RECV;
	struct cm_rep rep = {
		.vendor_id = id->ece.vendor_id ? id->ece.vendor_id : id->peer_ece.vendor_id,
		.ca_guid = id->path.place.dev->guid,
		.responder_resources = p->conn.responder_resources,
		.initiator_depth = xrc ? 0 : p->conn.initiator_depth,
		.target_ack_delay = id->path.place.dev->ack_delay,
		.flow_control = p->conn.flow_control,
		.srq = p->conn.srq,
		.rnr_retry = min(p->conn.rnr_retry_count, (uint8_t)7),
	};

	*(xrc ? &rep.eecn : &rep.qpn) = p->conn.qp_num;
	memcpy(rep.private_data, p->data, CM_REP_PRIVATE);
	return rep;
}

/* Under the lock. */
static int send_rep(struct cma_id *id, const struct param *p)
{
	struct cm_rep rep = rep_of(id, p);

	return cm_accept(&cma.engine, &id->conn->cm, &rep, id->ece.options, qp1.now());
}

static int send_sidr_rep(struct cma_id *id, const struct param *p)
{
	struct cm_sidr_rep rep = {
		.qpn = p->conn.qp_num,
		.qkey = id->qkey ? id->qkey : RDMA_UDP_QKEY,
	};

	memcpy(rep.private_data, p->data, CM_SIDR_REP_PRIVATE);
	return cm_sidr_answer(&cma.engine, &id->conn->cm, &rep, id->ece.options);
}

/* Checks that a request or REP waits for an answer, and fills *p.  Under the lock. */
static int prepare(struct cma_id *id, const struct rdma_conn_param *param, struct param *p)
{
	size_t room = id_is_datagram(id) ? CM_SIDR_REP_PRIVATE : CM_REP_PRIVATE;
	int err;

	if (!id->conn || !id->child ||
	    (id->conn->cm.state != CM_REQ_RCVD && id->conn->cm.state != CM_SIDR_REQ_RCVD))
		return diagnose_invalid("rdma_accept: no request waits for an answer at this id");
	err = param_of_accept(id, param, room, p);
	if (err)
		return err;
	id->responder_resources = p->conn.responder_resources;
	id->initiator_depth = p->conn.initiator_depth;
	id->accepted = true;
	id->qp_num = p->conn.qp_num;
	return 0;
}

static int answer(struct cma_id *id, const struct param *p)
{
	int err = id_enter(id);

	if (err)
		return err;
	if (!id->conn)
		err = EINVAL;
	else
		err = id_is_datagram(id) ? send_sidr_rep(id, p) : send_rep(id, p);
	cma_unlock();
	return err;
}

/* The QP is ready before REP is sent, because the peer may send as soon as it arrives. */
static int accept_id(struct cma_id *id, const struct rdma_conn_param *param)
{
	struct param p;
	int err = id_enter(id);

	if (err)
		return err;
	err = prepare(id, param, &p);
	cma_unlock();
	/* Up to here nothing has changed, and the program may try again. */
	if (err)
		return err;
	if (id->pub.qp && !id_is_datagram(id))
		err = qp_connect(id);
	if (!err)
		err = answer(id, &p);
	if (err)
		qp_fail(id);
	return err;
}

CMA_EXPORT int rdma_accept(struct rdma_cm_id *pub, struct rdma_conn_param *param)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	/* Once the peer has the answer, the thread that finds the end may destroy the id. */
	bool sync = id && id->sync, datagram = id && id_is_datagram(id);
	int err = accept_id(id, param);

	if (err || !sync)
		return cma_result(err);
	if (!datagram)
		return id_wait(id);
	/* A SIDR_REP is not acknowledged, so there is no event to wait for. */
	id_ack_last(id);
	return 0;
}

/* ---- Refusing ---- */

static int reject(struct rdma_cm_id *pub, unsigned int reason, const void *data, uint8_t len)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	if (!data)
		len = 0;
	if (!id->conn || len > (id_is_datagram(id) ? CM_SIDR_REP_PRIVATE : CM_REJ_PRIVATE))
		err = EINVAL;
	else
		err = cm_reject(&cma.engine, &id->conn->cm, reason, NULL, 0, data, len, qp1.now());
	cma_unlock();
	return cma_result(err);
}

CMA_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return reject(id, CM_REJ_CONSUMER, data, len);
}

CMA_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return reject(id, CM_REJ_VENDOR_OPTION, data, len);
}
