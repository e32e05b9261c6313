/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/fault/effects.h"

#include <infiniband/verbs.h>

#include "core/base/context.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/srq.h"
#include "core/tx/transmit.h"
#include "fault/words.h"
#include "run/clock.h"
#include "run/log.h"

/* Must hold qp->lock. */
static void into_error(struct vrb_qp *qp, bool event)
{
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_ERR)
		return;
	qp->now = clock_now();
	roce_qp_fail(&qp->roce, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	if (event)
		vrb_qp_raise(qp, IBV_EVENT_QP_FATAL);
	vrb_transmit(qp, qp->now);
}

static void migrate(struct vrb_qp *qp)
{
	if (qp->wq.mig_state != IBV_MIG_ARMED) {
		log_info(LOG_FAULT, "QP 0x%x has no alternate path that is armed", qp->wq.qpn);
		return;
	}
	qp->now = clock_now();
	roce_qp_migrate(&qp->roce);
	vrb_transmit(qp, qp->now);
}

static void fail_with_srq(struct vrb_qp *qp, void *arg)
{
	if (qp->config.srq != arg)
		return;
	lock_acquire(&qp->lock);
	into_error(qp, true);
	lock_release(&qp->lock);
}

/* Must hold the RX queues' locks. */
static void raise_of_qp(struct vrb_qp *qp, int event)
{
	struct vrb_cq *cq = qp->config.send_cq ? qp->config.send_cq : qp->config.recv_cq;

	if (event == IBV_EVENT_CQ_ERR) {
		if (cq)
			vrb_cq_fail(cq, clock_now());
	} else if (event == IBV_EVENT_SRQ_ERR) {
		if (qp->config.srq && vrb_srq_fail(qp->config.srq))
			vrb_qp_table_for_each(fail_with_srq, qp->config.srq);
	} else {
		lock_acquire(&qp->lock);
		if (event == IBV_EVENT_PATH_MIG)
			migrate(qp);
		else
			into_error(qp, true);
		lock_release(&qp->lock);
	}
}

static void raise(int event, uint32_t qpn)
{
	struct vrb_device *dev = NULL;
	struct vrb_qp *qp;

	vrb_rx_queues_lock();
	qp = qpn ? vrb_qp_table_find(qpn) : NULL;
	if (qp && fault_event_needs_qp((uint64_t)event))
		raise_of_qp(qp, event);
	else if (qp)
		dev = qp->config.ctx->dev;
	vrb_rx_queues_unlock();
	if (!fault_event_needs_qp((uint64_t)event))
		vrb_device_force(dev, (enum ibv_event_type)event);
}

static void fail(uint32_t qpn)
{
	struct vrb_qp *qp;

	vrb_rx_queues_lock();
	qp = vrb_qp_table_find(qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		into_error(qp, false);
		lock_release(&qp->lock);
	}
	vrb_rx_queues_unlock();
}

const struct fault_effects vrb_fault_all_effects = {
	.raise = raise,
	.fail = fail,
};

bool vrb_fault_port_up(const struct vrb_qp *qp)
{
	return !load_relaxed(&qp->config.ctx->dev->port.forced_down);
}
