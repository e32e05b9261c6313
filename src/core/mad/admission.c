/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/admission.h"

#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "util/time.h"
#include "util/tuning.h"

static struct {
	struct object_timer deadline;	/* while not all are let in */
	struct admission state;
	uint64_t decide_at;
	uint64_t requests, packets;	/* since then; and received by then */
} admission = { .state = { .keep = ADMIT_ALL } };

static unsigned int fullest(void)
{
	unsigned int fill = 0;

	vrb_for_each_rx_queue (r)
		if (r->wire)
			fill = max(fill, udp_fill(r->wire));
	return fill;
}

static void install(void)
{
	vrb_for_each_rx_queue (r)
		if (r->wire)
			udp_admit(r->wire, admission.state.keep);
}

static void decide(uint64_t now)
{
	unsigned int before = admission.state.keep;
	struct rx_stats sum;

	vrb_rx_stats_sum(&sum);
	admission_decide(&admission.state, fullest(),
			 2 * admission.requests > sum.rcvd_pkts - admission.packets);
	admission.requests = 0;
	admission.packets = sum.rcvd_pkts;
	admission.decide_at = now + LIMIT_ADMISSION_PERIOD;
	if (admission.state.keep != before)
		install();
	if (admission.state.keep < ADMIT_ALL)
		vrb_timer_set(&admission.deadline, admission.decide_at);
}

/* After the flood nobody else looks. */
static void on_timer(struct object_timer *d, struct expiry *e)
{
	if (admission.state.keep < ADMIT_ALL && time_reached(admission.decide_at, e->now))
		decide(e->now);
}

void vrb_admission_request(uint64_t now)
{
	admission.requests++;
	if (unlikely(time_reached(admission.decide_at, now)) && vrb.wire)
		decide(now);
}

int vrb_admission_start(void)
{
	admission.state = (struct admission){ .keep = ADMIT_ALL };
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
	admission.state = (struct admission){ .keep = ADMIT_ALL };
}
