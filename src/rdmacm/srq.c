/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues of ids.  Calls verbs; no lock. */
#include <errno.h>
#include <rdma/rdma_verbs.h>

#include "rdmacm/cma.h"
#include "rdmacm/id.h"
#include "rdmacm/qp.h"

/* An XRC SRQ has its own CQ, and an XRC domain. */
static int complete_xrc(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		err = device_xrcd(id->path.place.dev, &attr->xrcd);
		if (err)
			return err;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		err = id->pub.recv_cq ? 0 : qp_make_recv_cq(id, attr->attr.max_wr);
		if (err)
			return err;
		attr->cq = id->pub.recv_cq;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	return 0;
}

/* Fills in what the program left open: PD, XRC domain, CQ. */
static int complete_attr(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pub.pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->pub.verbs)
		return EINVAL;
	return attr->srq_type == IBV_SRQT_XRC ? complete_xrc(id, attr) : 0;
}

static int create(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	const struct ibv_srq_init_attr_ex asked = *attr;
	const struct ibv_cq *had = id->pub.recv_cq;
	int err;

	if (!id->pub.verbs || id->pub.srq)
		return EINVAL;
	err = complete_attr(id, attr);
	if (!err) {
		id->pub.srq = ibv_create_srq_ex(id->pub.verbs, attr);
		err = id->pub.srq ? 0 : errno;
	}
	if (!err) {
		id->pub.pd = id->pub.pd ? id->pub.pd : attr->pd;
		return 0;
	}
	if (!had)
		qp_destroy_recv_cq(id);
	/* The program may try again with these, and our CQ is gone. */
	*attr = asked;
	return err;
}

CMA_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *pub, struct ibv_srq_init_attr_ex *attr)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	cma_unlock();
	return cma_result(attr ? create(id, attr) : EINVAL);
}

CMA_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			       struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .pd = pd,
					   .comp_mask =
						   IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE };
	int ret;

	if (!attr)
		return cma_result(EINVAL);
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	ex.srq_type = id && id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	ret = rdma_create_srq_ex(id, &ex);
	attr->attr = ex.attr;
	return ret;
}

CMA_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	/* Destroys the CQ of an XRC SRQ, unless the id's QP still uses it. */
	if (!id->qp)
		qp_destroy_cqs(to_id(id));
}
