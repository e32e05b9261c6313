/* SPDX-License-Identifier: BSD-2-Clause */
/* A responder from roce_env.h that keeps out-of-order packets, as core/rx/demux.c does. */
#ifndef TESTS_HELD_ENV_H
#define TESTS_HELD_ENV_H

#include "core/rx/reorder.h"
#include "roce_env.h"

static inline void env_run_held(void *arg, const struct roce_pkt *pkt)
{
	env_input(arg, pkt);
}

static inline void env_arrive(struct roce_env *e, struct reorder_queue **h,
			      const struct roce_pkt *pkt)
{
	uint32_t expected = roce_expected_psn(&e->qp);
	bool early = roce_out_of_order(&e->qp, pkt);

	env_input(e, pkt);
	if (early)
		reorder_insert(h, pkt, e->now);
	else if (*h && roce_expected_psn(&e->qp) != expected)
		reorder_deliver(*h, &e->qp, env_run_held, e, e->now);
}

#endif
