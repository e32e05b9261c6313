/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of ids. */
#include "rdmacm/qp.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"

/* ---- Completion queues ---- */

/* A CQ with its own channel, which rdma_get_send_comp() and rdma_get_recv_comp() need. */
static int make_cq(struct cma_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		   struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->pub.verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(id->pub.verbs, (int)entries, id, *channel, 0);
	return *cq ? 0 : errno;
}

/* In use, by an XRC SRQ or a QP that the program created itself, it stays. */
static void destroy_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq && ibv_destroy_cq(*cq))
		return;
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

void qp_destroy_recv_cq(struct cma_id *id)
{
	destroy_cq(&id->pub.recv_cq_channel, &id->pub.recv_cq);
}

static void destroy_send_cq(struct cma_id *id)
{
	destroy_cq(&id->pub.send_cq_channel, &id->pub.send_cq);
}

void qp_destroy_cqs(struct cma_id *id)
{
	/* Those that the program has put there may be one. */
	if (id->pub.send_cq == id->pub.recv_cq)
		id->pub.send_cq = NULL;
	if (id->pub.send_cq_channel == id->pub.recv_cq_channel)
		id->pub.send_cq_channel = NULL;
	qp_destroy_recv_cq(id);
	destroy_send_cq(id);
}

int qp_make_recv_cq(struct cma_id *id, uint32_t entries)
{
	return make_cq(id, entries, &id->pub.recv_cq_channel, &id->pub.recv_cq);
}

/* Creates the CQs that the program does not pass, unless the QP has no such requests. */
static int make_cqs(struct cma_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	int err = 0;

	if (!attr->recv_cq && !id->pub.recv_cq && attr->cap.max_recv_wr)
		err = qp_make_recv_cq(id, attr->cap.max_recv_wr);
	if (!err && !attr->send_cq && !id->pub.send_cq && attr->cap.max_send_wr)
		err = make_cq(id, attr->cap.max_send_wr, &id->pub.send_cq_channel,
			      &id->pub.send_cq);
	return err;
}

/* ---- Attributes ---- */

/* Attributes without a conn of the engine: before a connection, or for datagrams. */
static void init_attr(const struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->qp_access_flags = 0;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int datagram_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (!id->qkey)
			id->qkey = RDMA_UDP_QKEY;
		attr->pkey_index = 0;
		attr->qkey = id->qkey;
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
		return 0;
	case IBV_QPS_RTR:
		return 0;
	case IBV_QPS_RTS:
		attr->sq_psn = 0;
		*mask |= IBV_QP_SQ_PSN;
		return 0;
	default:
		return EINVAL;
	}
}

/* Adds the attributes that the engine does not have, and those that the program set on the id. */
static void own_attr(const struct cma_id *id, struct ibv_qp_attr *attr)
{
	attr->ah_attr.grh.sgid_index = id->path.place.gid_index;
	attr->ah_attr.port_num = id->path.place.port_num;
	if (id->opt.ack_timeout_set)
		attr->timeout = id->opt.ack_timeout;
	/* Arguments of rdma_accept() override the request's. */
	if (id->accepted) {
		attr->max_dest_rd_atomic = id->responder_resources;
		attr->max_rd_atomic = id->initiator_depth;
	}
}

static int conn_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;
	int err;

	if (!id->conn && state == IBV_QPS_INIT) {
		init_attr(id, attr, mask);
		return 0;
	}
	if (!id->conn)
		return EINVAL;
	err = cm_qp_attr(&id->conn->cm, attr, mask);
	if (err)
		return err;
	if (state == IBV_QPS_INIT)
		attr->pkey_index = 0;
	else
		own_attr(id, attr);
	return 0;
}

int qp_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int err = id_enter(id);

	if (err)
		return err;
	if (!id->pub.verbs)
		err = EINVAL;
	else
		err = id_is_datagram(id) ? datagram_attr(id, attr, mask)
					 : conn_attr(id, attr, mask);
	attr->port_num = id->pub.port_num;
	cma_unlock();
	return err;
}

CMA_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!id || !attr || !mask)
		return cma_result(EINVAL);
	return cma_result(qp_attr(to_id(id), attr, mask));
}

/* ---- States ---- */

static int move(struct cma_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, err = qp_attr(id, &attr, &mask);

	return err ? err : cma_verb(ibv_modify_qp(id->pub.qp, &attr, mask));
}

int qp_connect(struct cma_id *id)
{
	/* INIT again, because the access rights are only known now. */
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	size_t i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(way) && !err; i++)
		err = move(id, way[i]);
	return err;
}

int qp_fail(struct cma_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!id->pub.qp)
		return 0;
	return cma_verb(ibv_modify_qp(id->pub.qp, &attr, IBV_QP_STATE));
}

static int begin(struct cma_id *id)
{
	int err = move(id, IBV_QPS_INIT);

	if (!err && id_is_datagram(id))
		err = move(id, IBV_QPS_RTR);
	if (!err && id_is_datagram(id))
		err = move(id, IBV_QPS_RTS);
	return err;
}

/* ---- Creation and destruction ---- */

/* Fills in what the program left open: PD, CQs, SRQ, XRC domain. */
static int complete_attr(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int err = 0;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pub.pd;
	} else if (attr->pd->context != id->pub.verbs) {
		return EINVAL;
	}
	if ((id->pub.recv_cq && attr->recv_cq && id->pub.recv_cq != attr->recv_cq) ||
	    (id->pub.send_cq && attr->send_cq && id->pub.send_cq != attr->send_cq))
		return EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		err = device_xrcd(id->path.place.dev, &attr->xrcd);
	}
	if (!err)
		err = make_cqs(id, attr);
	if (err)
		return err;
	if (!attr->send_cq)
		attr->send_cq = id->pub.send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->pub.recv_cq;
	if (id->pub.srq && !attr->srq)
		attr->srq = id->pub.srq;
	return 0;
}

/* Stored for `verbena ps` and the rdma tool. */
static void note_number(struct cma_id *id, uint32_t qpn)
{
	cma_lock();
	id->qp_num = qpn;
	cma_unlock();
}

static bool listens(const struct cma_id *id)
{
	bool yes;

	cma_lock();
	yes = id->state == ID_LISTEN;
	cma_unlock();
	return yes;
}

int qp_create(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_init_attr_ex asked = *attr;
	const struct rdma_cm_id had = id->pub;
	int err;

	if (!id->pub.verbs || id->pub.qp)
		return diagnose_invalid("rdma_create_qp: the id %s",
					id->pub.qp ? "has a QP already" :
					listens(id) ?
					"listens: the QP is for that of "
					"RDMA_CM_EVENT_CONNECT_REQUEST" :
					"has no device: rdma_resolve_addr() comes first");
	if (id_is_datagram(id) != (attr->qp_type == IBV_QPT_UD))
		return diagnose_invalid("rdma_create_qp: qp_type does not fit the id's port space: "
					"UD with RDMA_PS_UDP and RDMA_PS_IPOIB, RC with "
					"RDMA_PS_TCP");
	err = complete_attr(id, attr);
	if (!err) {
		id->pub.qp = ibv_create_qp_ex(id->pub.verbs, attr);
		err = id->pub.qp ? begin(id) : errno;
	}
	if (!err) {
		id->pub.pd = attr->pd;
		note_number(id, id->pub.qp->qp_num);
		return 0;
	}
	if (id->pub.qp)
		ibv_destroy_qp(id->pub.qp);
	id->pub.qp = NULL;
	if (!had.recv_cq)
		qp_destroy_recv_cq(id);
	if (!had.send_cq)
		destroy_send_cq(id);
	/* The program may try again with these, and our CQs are gone. */
	*attr = asked;
	return err;
}

CMA_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *pub, struct ibv_qp_init_attr_ex *attr)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	cma_unlock();
	return cma_result(attr ? qp_create(id, attr) : EINVAL);
}

/* Up to here both kinds of attributes have the same members in the same order. */
enum { COMMON_ATTR = offsetof(struct ibv_qp_init_attr_ex, comp_mask) };

CMA_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	int ret;

	if (!attr)
		return cma_result(EINVAL);
	memcpy(&ex, attr, COMMON_ATTR);
	ret = rdma_create_qp_ex(id, &ex);
	memcpy(attr, &ex, COMMON_ATTR);
	return ret;
}

CMA_EXPORT void rdma_destroy_qp(struct rdma_cm_id *pub)
{
	struct cma_id *id = to_id(pub);

	ibv_destroy_qp(pub->qp);
	pub->qp = NULL;
	qp_destroy_cqs(id);
}
