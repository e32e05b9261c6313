/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XRC calls of OFED 1.3 to MLNX_OFED 4, on top of today's: an ibv_xrc_domain is an ibv_xrcd,
 * and a receive QP, which these calls identify by number, is an ibv_qp stored here.
 *
 * Owns the table of this process's receive QPs: an entry is a registration. One lock is also held
 * during calls on the QP, so that none is destroyed in use; these calls take no lock of this file.
 * A QP leaves the table before it is destroyed. A forked child begins with an empty one.
 */
#define VERBENA_LEGACY_XRC

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"
#include "verbs/answer.h"

struct rcv_qp {
	struct list node;
	struct ibv_qp *qp;
	struct ibv_xrcd *xrcd;
};

static struct lock table_lock;
static struct list table = { &table, &table };

/* The list may have been changing, and its QPs are the parent's. */
static void after_fork(void)
{
	lock_renew(&table_lock);
	list_init(&table);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

static struct ibv_xrcd *to_xrcd(struct ibv_xrc_domain *d)
{
	return (struct ibv_xrcd *)(void *)d;
}

static struct rcv_qp *find(struct ibv_xrc_domain *d, uint32_t qpn)
{
	struct list *pos;

	list_for_each(pos, &table) {
		struct rcv_qp *r = list_entry(pos, struct rcv_qp, node);

		if (r->qp->qp_num == qpn && r->xrcd == to_xrcd(d))
			return r;
	}
	return NULL;
}

/* Takes over the QP, and destroys it on failure. Must hold table_lock. */
static int enter(struct ibv_qp *qp, struct ibv_xrcd *xrcd)
{
	struct rcv_qp *r;

	if (!qp)
		return errno;
	r = malloc(sizeof(*r));
	if (!r) {
		ibv_destroy_qp(qp);
		return ENOMEM;
	}
	r->qp = qp;
	r->xrcd = xrcd;
	list_add_tail(&table, &r->node);
	return 0;
}

struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflag,
	};

	if (!context)
		return answer_null(EINVAL);
	return (struct ibv_xrc_domain *)(void *)ibv_open_xrcd(context, &attr);
}

int ibv_close_xrc_domain(struct ibv_xrc_domain *d)
{
	return d ? ibv_close_xrcd(to_xrcd(d)) : answer(EINVAL);
}

struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain,
				   struct ibv_cq *xrc_cq, struct ibv_srq_init_attr *srq_init_attr)
{
	struct ibv_srq_init_attr_ex attr = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = to_xrcd(xrc_domain),
		.cq = xrc_cq,
	};
	struct ibv_srq *srq;

	if (!pd || !srq_init_attr)
		return answer_null(EINVAL);
	attr.srq_context = srq_init_attr->srq_context;
	attr.attr = srq_init_attr->attr;
	srq = ibv_create_srq_ex(pd->context, &attr);
	if (!srq)
		return NULL;
	/* Every SRQ of this library has room for these three members; core/qp/srq.h. */
	srq->xrc_domain = xrc_domain;
	srq->xrc_cq = xrc_cq;
	ibv_get_srq_num(srq, &srq->xrc_srq_num);
	srq_init_attr->attr = attr.attr;
	return srq;
}

int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr *init_attr, uint32_t *xrc_rcv_qpn)
{
	struct ibv_qp_init_attr_ex attr = {
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp;
	int ret;

	if (!init_attr || !init_attr->xrc_domain || !xrc_rcv_qpn)
		return EINVAL;
	attr.qp_context = init_attr->qp_context;
	attr.xrcd = to_xrcd(init_attr->xrc_domain);
	lock_acquire(&table_lock);
	qp = ibv_create_qp_ex(attr.xrcd->context, &attr);
	ret = enter(qp, attr.xrcd);
	if (!ret)
		*xrc_rcv_qpn = qp->qp_num;
	lock_release(&table_lock);
	return ret;
}

int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			  struct ibv_qp_attr *attr, int attr_mask)
{
	struct rcv_qp *r;
	int ret;

	lock_acquire(&table_lock);
	r = find(xrc_domain, xrc_qp_num);
	ret = r ? ibv_modify_qp(r->qp, attr, attr_mask) : EINVAL;
	lock_release(&table_lock);
	return ret;
}

int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			 struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr)
{
	struct rcv_qp *r;
	int ret;

	lock_acquire(&table_lock);
	r = find(xrc_domain, xrc_qp_num);
	ret = r ? ibv_query_qp(r->qp, attr, attr_mask, init_attr) : EINVAL;
	if (!ret)
		init_attr->xrc_domain = xrc_domain;
	lock_release(&table_lock);
	return ret;
}

/* One registration per process suffices: registering again has no effect. */
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = xrc_qp_num,
		.xrcd = to_xrcd(xrc_domain),
		.qp_type = IBV_QPT_XRC_RECV,
	};
	int ret = 0;

	if (!xrc_domain)
		return EINVAL;
	lock_acquire(&table_lock);
	if (!find(xrc_domain, xrc_qp_num))
		ret = enter(ibv_open_qp(attr.xrcd->context, &attr), attr.xrcd);
	lock_release(&table_lock);
	return ret;
}

/*
 * Destruction waits until the QP's events are acknowledged, and the thread that has them may call
 * these functions first: so it comes after the lock's release.
 */
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num)
{
	struct rcv_qp *r;
	int ret;

	lock_acquire(&table_lock);
	r = find(xrc_domain, xrc_qp_num);
	if (r)
		list_del(&r->node);
	lock_release(&table_lock);
	if (!r)
		return EINVAL;
	ret = ibv_destroy_qp(r->qp);
	if (!ret) {
		free(r);
		return 0;
	}
	lock_acquire(&table_lock);
	list_add_tail(&table, &r->node);
	lock_release(&table_lock);
	return ret;
}
