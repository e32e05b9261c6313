/* SPDX-License-Identifier: BSD-2-Clause */
/* A responder of roce_env.h that keeps early packets, as core/arrive.c has it. */
#ifndef TESTS_HELD_ENV_H
#define TESTS_HELD_ENV_H

#include "core/held.h"
#include "roce_env.h"

static inline void env_run_held(void *arg, const struct roce_pkt *pkt)
{
	env_input(arg, pkt);
}

static inline void env_arrive(struct roce_env *e, struct held **h, const struct roce_pkt *pkt)
{
	uint32_t expected = roce_expected_psn(&e->qp);
	bool early = roce_early(&e->qp, pkt);

	env_input(e, pkt);
	if (early)
		held_keep(h, pkt, e->now);
	else if (*h && roce_expected_psn(&e->qp) != expected)
		held_follow(*h, &e->qp, env_run_held, e, e->now);
}

#endif
