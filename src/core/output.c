/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/output.h"

#include <string.h>

#include "core/answer.h"
#include "core/burst.h"
#include "core/near.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/tap.h"
#include "core/xrc/deputy.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"

static unsigned int far_qps;	/* atomic: QPs that expect packets from the wire */

bool vrb_output_any_far(void)
{
	return load_relaxed(&far_qps);
}

static uint64_t deadline(const struct vrb_qp *qp)
{
	return time_earlier(roce_next_timeout(&qp->roce), qp->near.retry);
}

enum output_due vrb_output_due(const struct vrb_qp *qp)
{
	if (!roce_owes_ack_only(&qp->roce) || vrb_near_stale(qp))
		return OUTPUT_NOW;
	if (roce_owes_ack(&qp->roce) || deadline(qp) < load_relaxed(&qp->timer.timer.at))
		return OUTPUT_SOON;
	return OUTPUT_NOTHING;
}

static void arm(struct vrb_qp *qp)
{
	uint64_t at = deadline(qp);

	if (timers_arm(vrb.timers, &qp->timer.timer, at))
		progress_hurry(vrb.progress, at);
}

void vrb_output_note_far(struct vrb_qp *qp, bool far)
{
	if (likely(qp->far == far))
		return;
	qp->far = far;
	fetch_add_relaxed(&far_qps, far ? 1 : -1);
	if (!far) {
		share_leave(&vrb.shares, &qp->share);
		qp->wq.sharers = 0;
	}
}

static bool has_window(const struct vrb_qp *qp)
{
	return qp->wq.type != IBV_QPT_UD && qp->wq.type != IBV_QPT_UC;
}

/*
 * When told of congestion: routers may mark its packets instead of dropping them (RFC 3168).  Nobody tells
 * who sends to a group.
 */
static bool slows_down(const struct vrb_qp *qp, const struct net_path *path)
{
	return qp->wq.type != IBV_QPT_UD || !net_is_multicast(&path->dst);
}

static void collect_far(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	bool datagrams = qp->wq.type == IBV_QPT_UD && vrb.local, watched = vrb_tap_wanted(now);
	const struct net_path *path;
	size_t len;

	vrb_output_note_far(qp, qp->wq.state >= IBV_QPS_RTR && qp->wq.state != IBV_QPS_ERR);
	if (qp->far && has_window(qp))
		qp->wq.sharers = share_sharers(&vrb.shares, &qp->share, &qp->wq.path);
	while (!(datagrams && vrb_near_waits(qp, now)) &&
	       (len = roce_output(&qp->roce, vrb_burst_room(b), ROCE_MAX_PACKET, &path, now))) {
		if (!datagrams || !vrb_near_datagram(qp, path, vrb_burst_room(b), len, now)) {
			if (unlikely(watched))
				vrb_tap_tell(qp, path, vrb_burst_room(b), len, true);
			vrb_burst_seal(b, path, len, slows_down(qp, path));
		}
		qp->near.far_at = now;
	}
	if (roce_takes_room(&qp->roce))
		share_count(&vrb.shares, &qp->share, roce_round_trip(&qp->roce), now);
}

static void tell_neighbours(struct vrb_qp *qp)
{
	if (unlikely(vrb_near_stale(qp)))
		vrb_near_changed(qp);
}

/* The engine has its frames sent one way or the other; packets of its own it has none. */
static void collect_raw(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	const struct net_path *path;

	roce_output(&qp->roce, vrb_burst_room(b), ROCE_MAX_PACKET, &path, now);
	arm(qp);
}

void vrb_output_collect(struct vrb_qp *qp, struct vrb_burst *b, uint64_t now)
{
	bool near;

	if (unlikely(qp->deputy)) {
		vrb_deputy_collect(qp, now);
		return;
	}
	qp->now = now;
	qp->gathers = false;
	if (qp->wq.type == IBV_QPT_RAW_PACKET) {
		collect_raw(qp, b, now);
		return;
	}
	tell_neighbours(qp);	/* of a new path before a packet speaks of it */
	near = vrb.local && vrb_near_collect(qp, now);
	if (near)
		vrb_output_note_far(qp, false);
	else if (!vrb.local || !vrb_near_holds(qp, now))
		collect_far(qp, b, now);
	/* What found no room in a lane has a timer; of what goes by the wire some may gather. */
	store_relaxed(&qp->answered, near && !roce_owes_ack(&qp->roce));
	if (load_relaxed(&qp->owes) && !roce_owes_ack(&qp->roce))
		vrb_answer_paid(qp);
	tell_neighbours(qp);
	arm(qp);
}

void vrb_output(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();

	if (!b) {
		log_limited(LOG_CORE, LOG_ERROR, "out of memory: QP 0x%x cannot send", qp->wq.qpn);
		return;
	}
	vrb_output_collect(qp, b, now);
	vrb_burst_flush(b);
}

void vrb_output_packet(struct vrb_qp *qp, const uint8_t *packet, size_t len, uint64_t now)
{
	struct vrb_burst *b = vrb_burst_own();

	if (vrb.local && vrb_near_packet(qp, packet, len, now))
		return;
	if (!b)
		return;
	memcpy(vrb_burst_room(b), packet, len);
	vrb_burst_seal(b, &qp->wq.path, len, true);
	vrb_burst_flush(b);
}
