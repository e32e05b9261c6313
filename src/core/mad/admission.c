/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/admission.h"

#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/mad/request_share.h"
#include "run/config.h"
#include "util/time.h"
#include "util/tuning.h"
#include "wire/udp.h"

static struct {
	struct object_timer deadline;	/* while not all are let in */
	struct request_share share;
	uint64_t decide_at;
	uint64_t requests, packets;	/* since then; and received by then */
	uint64_t refused;		/* of the requests: an inbox had no room */
} admission;

static uint32_t longest_backlog(void)
{
	uint32_t n = 0;

	vrb_for_each_rx_queue (r)
		if (r->wire)
			n = max(n, udp_backlog(r->wire));
	return n;
}

/* Where data make the backlog, requests are not what has to go. */
static enum share_load load(bool flooded)
{
	uint32_t backlog = longest_backlog();

	if (4 * admission.refused > admission.requests ||
	    (flooded && backlog > LIMIT_ADMISSION_BACKLOG))
		return SHARE_OVERLOAD;
	return backlog > LIMIT_ADMISSION_BACKLOG / 4 ? SHARE_ENOUGH : SHARE_ROOM;
}

static void install(void)
{
	const struct admit_rule *rule =
		share_is_limited(&admission.share) ? &admission.share.rule : NULL;

	vrb_for_each_rx_queue (r)
		if (r->wire)
			udp_admit(r->wire, rule);
}

static void decide(uint64_t now)
{
	bool before = share_is_limited(&admission.share);
	struct rx_stats sum;

	vrb_rx_stats_sum(&sum);
	share_decide(&admission.share,
		     load(2 * admission.requests > sum.rcvd_pkts - admission.packets),
		     (uint32_t)config_random());
	admission.requests = 0;
	admission.refused = 0;
	admission.packets = sum.rcvd_pkts;
	admission.decide_at = now + LIMIT_ADMISSION_PERIOD;
	if (before || share_is_limited(&admission.share))
		install();
	if (share_is_limited(&admission.share))
		vrb_timer_set(&admission.deadline, admission.decide_at);
}

/* After the flood no packet triggers this check. */
static void on_timer(struct object_timer *d, struct expiry *e)
{
	if (share_is_limited(&admission.share) && time_reached(admission.decide_at, e->now))
		decide(e->now);
}

void vrb_admission_request(const struct net_addr *src, uint64_t now)
{
	admission.requests++;
	share_came(&admission.share, src);
	if (unlikely(time_reached(admission.decide_at, now)) && vrb.wire)
		decide(now);
}

void vrb_admission_refused(void)
{
	admission.refused++;
}

bool vrb_admission_is_crowded(const struct net_addr *src)
{
	return share_is_limited(&admission.share) && share_is_crowded(&admission.share, src);
}

int vrb_admission_start(void)
{
	share_init(&admission.share, (uint32_t)config_random());
	admission.decide_at = 0;
	return vrb_timer_add(&admission.deadline, on_timer);
}

void vrb_admission_stop(void)
{
	timers_remove(vrb.timers, &admission.deadline.timer);
}

void vrb_admission_forget(void)
{
	admission.deadline = (struct object_timer){ 0 };
	share_init(&admission.share, (uint32_t)config_random());
}
