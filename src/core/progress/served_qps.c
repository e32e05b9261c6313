/* SPDX-License-Identifier: BSD-2-Clause */
/* See served_qps.h. A QP leaves under the locks of all rx queues (base/rx_queues.h). */
#include "core/progress/served_qps.h"

#include "core/base/context.h"
#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/local/peer_link.h"
#include "core/local/peer_word.h"
#include "core/mem/pd_senders.h"
#include "core/progress/rx_steering.h"
#include "core/progress/timeouts.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/raw/raw_port.h"
#include "core/rx/mcast.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_sched.h"
#include "host/host.h"
#include "run/clock.h"

int vrb_progress_add_qp_locked(struct vrb_qp *qp)
{
	int ret = vrb_timer_add(&qp->timer, vrb_timeout_qp);

	if (ret)
		return ret;
	ret = vrb_qp_table_add(qp);
	if (!ret && qp->wq.type == IBV_QPT_RAW_PACKET)
		vrb_raw_add(qp);
	if (!ret)
		vrb_steer_qp_added();
	else
		timers_remove(vrb.timers, &qp->timer.timer);
	return ret;
}

int vrb_progress_add_qp(struct vrb_qp *qp)
{
	int ret;

	lock_acquire(&vrb.poll_lock);
	ret = vrb_progress_add_qp_locked(qp);
	lock_release(&vrb.poll_lock);
	return ret;
}

/* Must hold the locks of all rx queues. */
static void take_out(struct vrb_qp *qp)
{
	vrb_qp_table_remove(qp);
	timers_remove(vrb.timers, &qp->timer.timer);
	list_del(&qp->sched.node);
	list_del(&qp->dispatch.raw_node);
	if (qp->post.senders)
		pd_senders_remove(qp->post.senders, &qp->post.sender);
	vrb_delayed_ack_end(qp);
	vrb_word_forget(qp);
	vrb_set_uses_wire(qp, false);
	vrb_counters_add(&qp->config.ctx->dev->retired, roce_qp_counters(&qp->roce));
}

void vrb_progress_remove_qp(struct vrb_qp *qp)
{
	vrb_rx_queues_lock();
	vrb_for_each_rx_queue (r)
		vrb_tx_flush(r, clock_now());
	take_out(qp);
	vrb_rx_queues_unlock();
}

struct closing {
	const struct vrb_context *ctx;
	unsigned int raw;	/* raw packet QPs */
};

static void remove_orphan(struct vrb_qp *qp, void *arg)
{
	struct closing *c = arg;
	bool removed;

	lock_acquire(&qp->lock);
	vrb_xrcd_context_closes(qp, c->ctx);
	removed = qp->config.ctx == c->ctx;
	if (removed) {
		c->raw += qp->wq.type == IBV_QPT_RAW_PACKET;
		vrb_mcast_leave_all(qp);
		take_out(qp);
		if (qp->config.hooks && qp->config.hooks->release)
			qp->config.hooks->release(qp);
		vrb_peer_drop(qp);
	}
	lock_release(&qp->lock);
	if (removed)
		host_qpn_free(vrb.host, qp->wq.qpn);
}

void vrb_progress_remove_context(struct vrb_context *ctx)
{
	struct closing c = { .ctx = ctx };

	vrb_rx_queues_lock();
	vrb_qp_table_for_each(remove_orphan, &c);
	vrb_rx_queues_unlock();
	while (c.raw--)
		vrb_raw_put(ctx->dev);
}
