/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/import.h"

#include <errno.h>

#include "core/base/state.h"
#include "core/control/qp_create.h"
#include "core/local/peer_link.h"
#include "core/progress/served_qps.h"
#include "core/qp/qp.h"
#include "core/xrc/delegation.h"
#include "core/xrc/open_qp.h"
#include "core/xrc/rpc.h"
#include "host/host.h"

static bool state_ok(const struct xrc_config *c)
{
	if (c->state > IBV_QPS_ERR || c->state == IBV_QPS_SQE ||
	    c->max_dest_rd_atomic > ROCE_MAX_RD_ATOMIC)
		return false;
	return !wq_receives(c->state) || vrb_delegation_config_ok(c);
}

static void configure(struct vrb_qp *qp, const struct xrc_import *a)
{
	struct wq_qp *wq = &qp->wq;

	vrb_delegation_configure(qp, &a->config);
	qp->attr = a->attr;
	wq->qkey = a->qkey;
	wq->rq_psn = a->rq_psn & ROCE_PSN_MASK;
	wq->sq_psn = a->sq_psn & ROCE_PSN_MASK;
	wq->max_rd_atomic = a->max_rd_atomic;
	wq->timeout = a->timeout & 31;
	wq->retry_cnt = a->retry_cnt & 7;
	wq->rnr_retry = a->rnr_retry & 7;
	wq->alt_timeout = a->alt_timeout & 31;
	qp->post.limits.mtu = wq->mtu;
}

/* From RTR on, the engine continues from the snapshot. Before RTR there is no state to restore. */
static bool bring_to_life(struct vrb_qp *qp, const struct xrc_msg *m)
{
	if (qp->wq.state < IBV_QPS_RTR)
		return true;
	return roce_snapshot_restore(&qp->roce, m->state, m->head.state) &&
	       !roce_in_message(&qp->roce);
}

int vrb_xrc_import(struct vrb_qp *handle, const struct xrc_import *a, const struct xrc_msg *m,
	      struct vrb_qp **out)
{
	struct vrb_qp *qp;
	int err = EINVAL;

	if (!state_ok(&a->config))
		return err;
	qp = vrb_qp_new_receiver(handle->config.ctx, handle->config.xrcd, m->head.qpn,
				 &vrb_xrc_qp_hooks);
	if (!qp)
		return ENOMEM;
	configure(qp, a);
	if (!vrb_delegation_make_resources(qp, a->config.max_dest_rd_atomic)) {
		err = ENOMEM;
		goto free_qp;
	}
	roce_qp_init(&qp->roce, &qp->wq, qp->recv.rd_atomic, qp->recv.rd_atomic_slots);
	if (!bring_to_life(qp, m))
		goto free_qp;
	err = host_qpn_take(vrb.host, qp->wq.qpn, m->head.slot);
	if (err)
		goto free_qp;
	err = vrb_progress_add_qp_locked(qp);
	if (err)
		goto free_number;
	lock_acquire(&qp->lock);
	vrb_peer_publish(qp);
	lock_release(&qp->lock);
	vrb_qp_enter_domain(qp);
	*out = qp;
	return 0;
free_number:
	host_qpn_free(vrb.host, qp->wq.qpn);
free_qp:
	vrb_qp_free(qp);
	return err;
}
