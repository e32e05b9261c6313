/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/qp.h"

#include <stdlib.h>

#include "host/host.h"
#include "util/compiler.h"
#include "util/time.h"

void vrb_qp_init(struct vrb_qp *qp, enum ibv_qp_type type, const struct wq_ops *ops)
{
	qp->config.target = qp;
	lock_init(&qp->lock);
	lock_init_shared(&qp->post.batch.lock);
	list_init(&qp->sched.node);
	list_init(&qp->post.sender);
	list_init(&qp->dispatch.raw_node);
	list_init(&qp->xrc.node);
	list_init(&qp->xrc.open_table);
	list_init(&qp->xrc.handles);
	qp->peer.retry_at = qp->xrc.retry_at = VRB_NEVER;
	qp->peer.slot = HOST_NO_SLOT;
	list_init(&qp->peer.kept);
	message_sender_init(&qp->peer.sender);
	qp->wq.type = type;
	qp->wq.ops = ops;
	qp->wq.state = IBV_QPS_RESET;
	qp->wq.mig_state = IBV_MIG_MIGRATED;
	qp->wq.max_msg = VRB_MAX_MSG;
	roce_qp_init(&qp->roce, &qp->wq, NULL, 0);
}

void vrb_qp_fini(struct vrb_qp *qp)
{
	lock_destroy(&qp->lock);
	lock_destroy(&qp->post.batch.lock);
	free(qp->recv.rd_atomic);
}

