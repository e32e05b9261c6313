/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/fastpath/poll.h"

#include "core/cq/cq.h"
#include "core/progress/poll_loop.h"
#include "core/tx/tx_pending.h"
#include "util/atomic.h"

int vrb_cq_poll(struct vrb_cq *cq, int n, struct ibv_wc *wc)
{
	int taken;

	if (n <= 0)
		return 0;
	taken = vrb_cq_take_some(cq, n, wc);
	if (!taken) {
		/*
		 * The round may last long, since it yields the CPU, and other threads complete
		 * meanwhile: a program that finds nothing and then the end of the connection looks
		 * no more.
		 */
		vrb_poll_once(load_relaxed(&cq->shards));
		taken = vrb_cq_take_some(cq, n, wc);
	}
	vrb_tx_send_pending(load_relaxed(&cq->shards));
	return taken;
}
