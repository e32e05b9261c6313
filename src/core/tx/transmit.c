/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tx/transmit.h"

#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/mirror.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "core/tx/tx_batch.h"
#include "core/tx/tx_pending.h"
#include "core/tx/tx_sched.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"

#define MEMORY_RETRY VRB_MSEC	/* when to retry after an allocation failure */

unsigned int vrb_wire_qps;

static uint64_t deadline(const struct vrb_qp *qp)
{
	uint64_t at = time_earlier(roce_next_timeout(&qp->roce), qp->peer.retry_at);

	return likely(!qp->config.hooks) ? at : time_earlier(at, qp->xrc.retry_at);
}

enum tx_urgency vrb_tx_urgency(const struct vrb_qp *qp)
{
	if (!roce_has_ack_only(&qp->roce) || vrb_peer_unpublished(qp))
		return TX_NOW;
	if (roce_has_ack(&qp->roce) || deadline(qp) < load_relaxed(&qp->timer.timer.at))
		return TX_SOON;
	return TX_NOTHING;
}

static void arm_at(struct vrb_qp *qp, uint64_t at)
{
	if (timers_arm(vrb.timers, &qp->timer.timer, at))
		progress_hurry(vrb.progress, at);
}

static void arm(struct vrb_qp *qp)
{
	arm_at(qp, deadline(qp));
}

void vrb_set_timer(struct vrb_qp *qp)
{
	arm(qp);
}

void vrb_watch_begin(struct vrb_qp *qp)
{
	arm_at(qp, time_after(clock_now(), LIMIT_MESSAGE_WATCH));
}

void vrb_set_uses_wire(struct vrb_qp *qp, bool wire)
{
	if (likely(qp->post.uses_wire == wire))
		return;
	qp->post.uses_wire = wire;
	fetch_add_relaxed(&vrb_wire_qps, wire ? 1 : -1);
	if (!wire) {
		path_leave(&vrb.paths, &qp->post.share);
		qp->wq.active_qps = 0;
	}
}

static bool has_window(const struct vrb_qp *qp)
{
	return qp->wq.type != IBV_QPT_UD && qp->wq.type != IBV_QPT_UC;
}

/*
 * Does the QP react to congestion notifications, so that routers may mark its packets instead of
 * dropping them (RFC 3168)? Multicast senders receive none.
 */
static bool obeys_congestion(const struct vrb_qp *qp, const struct net_path *path)
{
	return qp->wq.type != IBV_QPT_UD || !net_is_multicast(&path->dst);
}

/*
 * A peer on this host that is not in RTR yet will most likely use its lane. If not, packets of this
 * QP make it expect replies.
 */
static bool expects_wire(const struct vrb_qp *qp)
{
	return qp->wq.state >= IBV_QPS_RTR && qp->wq.state != IBV_QPS_ERR &&
	       (!qp->peer.rtr_expected || qp->post.uses_wire || roce_has_output(&qp->roce));
}

/*
 * With near peers, a UD QP expects packets from the wire if some have used it. Of others, the
 * progress thread takes the first.
 */
static bool expects_datagrams(const struct vrb_qp *qp, uint64_t now)
{
	return expects_wire(qp) && qp->peer.wire_at &&
	       time_since(qp->peer.wire_at, now) < LIMIT_INBOX_LINGER;
}

void vrb_datagram_received(struct vrb_qp *qp, bool wire, uint64_t now)
{
	if (wire)
		qp->peer.wire_at = now;
	if (vrb.local)
		vrb_set_uses_wire(qp, expects_datagrams(qp, now));
}

/* Packets to the port's own addresses leave by the loopback interface, not by the port's. */
static void mirror(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet,
		   size_t len)
{
	struct vrb_port *port = &qp->config.ctx->dev->port;
	bool wire = port->loopback || vrb_port_find_gid(port, &path->dst) < 0;

	vrb_mirror_packet(port, qp->now, path, packet, len, wire);
}

enum roce_ack_order vrb_ack_order(const struct vrb_qp *qp, uint64_t now)
{
	if (qp->post.holds_ack)
		return ROCE_ACK_HELD;
	return roce_delayed_ack_order(&qp->post.delayed_ack, now < qp->sched.turn_ends);
}

static void transmit_by_wire(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now)
{
	bool datagrams = qp->wq.type == IBV_QPT_UD && vrb.local, watched = vrb_mirror_enabled(now);
	const struct net_path *path;
	size_t len;

	roce_set_ack_order(&qp->roce, vrb_ack_order(qp, now));
	if (!datagrams)
		vrb_set_uses_wire(qp, expects_wire(qp));
	if (qp->post.uses_wire && has_window(qp))
		qp->wq.active_qps = path_active_qps(&vrb.paths, &qp->post.share, &qp->wq.path);
	while (!(datagrams && vrb_peer_lane_full(qp, now)) &&
	       (len = roce_output(&qp->roce, vrb_tx_batch_room(b), ROCE_MAX_PACKET, &path, now))) {
		if (datagrams && vrb_peer_tx_ud(qp, path, vrb_tx_batch_room(b), len, now))
			continue;
		if (unlikely(watched))
			mirror(qp, path, vrb_tx_batch_room(b), len);
		vrb_tx_batch_seal(b, qp, path, len, obeys_congestion(qp, path));
		qp->peer.wire_at = now;
	}
	roce_set_ack_order(&qp->roce, ROCE_ACK_FIRST);
	if (datagrams)
		vrb_set_uses_wire(qp, expects_datagrams(qp, now));
	if (roce_takes_room(&qp->roce))
		path_mark_active(&vrb.paths, &qp->post.share, roce_round_trip(&qp->roce), now);
}

static void publish(struct vrb_qp *qp)
{
	if (unlikely(vrb_peer_unpublished(qp)))
		vrb_peer_publish(qp);
}

/*
 * The engine sends raw frames through its wq_ops and returns no packets. It does not send frames in
 * every state; clear retry_at, because a past deadline would keep the timer expired.
 */
static void transmit_raw(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now)
{
	const struct net_path *path;

	qp->peer.retry_at = VRB_NEVER;
	roce_output(&qp->roce, vrb_tx_batch_room(b), ROCE_MAX_PACKET, &path, now);
	arm(qp);
}

void vrb_transmit_batch(struct vrb_qp *qp, struct vrb_tx_batch *b, uint64_t now)
{
	bool by_lane;

	if (unlikely(qp->config.hooks != NULL) && qp->config.hooks->transmit) {
		qp->config.hooks->transmit(qp, now);
		return;
	}
	qp->now = now;
	if (qp->post.coalesces)
		roce_coalescing_ends(&qp->post.coalescing, now);
	qp->post.coalesces = false;
	if (unlikely(qp->post.pending != NULL))
		vrb_tx_pending_settle(qp, b);
	if (qp->wq.type == IBV_QPT_RAW_PACKET) {
		transmit_raw(qp, b, now);
		return;
	}
	publish(qp);	/* a new path must be visible before a packet uses it */
	by_lane = vrb.local && vrb_peer_tx(qp, now);
	if (by_lane)
		vrb_set_uses_wire(qp, false);
	else if (!vrb.local || !vrb_peer_wait_for_rtr(qp, now))
		transmit_by_wire(qp, b, now);
	/*
	 * Requests blocked by a full lane have a timer. Requests for the wire may have been
	 * coalesced, so the QP must stay scheduled.
	 */
	store_relaxed(&qp->sched.ack_sent, by_lane && !roce_has_ack(&qp->roce));
	if (load_relaxed(&qp->sched.ack_delayed) && !roce_has_ack(&qp->roce))
		vrb_delayed_ack_end(qp);
	publish(qp);
	arm(qp);
	if (by_lane && roce_in_flight(&qp->roce))
		vrb_watch(qp);
}

void vrb_transmit(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	if (!b) {
		log_limited(LOG_CORE, LOG_ERROR, "out of memory: QP 0x%x cannot send", qp->wq.qpn);
		arm_at(qp, time_after(now, MEMORY_RETRY));
		return;
	}
	vrb_transmit_batch(qp, b, now);
	vrb_tx_batch_flush(b);
}

void vrb_transmit_packet(struct vrb_qp *qp, const uint8_t *packet, size_t len, uint64_t now)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	if (vrb.local && vrb_peer_tx_packet(qp, packet, len, now)) {
		arm(qp);
		return;
	}
	if (!b)
		return;
	if (vrb_mirror_enabled(now))
		mirror(qp, &qp->wq.path, packet, len);
	memcpy(vrb_tx_batch_room(b), packet, len);
	vrb_tx_batch_seal(b, qp, &qp->wq.path, len, true);
	vrb_tx_batch_flush(b);
}
