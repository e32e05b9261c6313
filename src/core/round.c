/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/round.h"

#include <assert.h>
#include <stddef.h>

#include "core/cq.h"

__thread struct vrb_round *vrb_round;

void vrb_round_begin(struct vrb_round *round, uint64_t now)
{
	assert(!vrb_round);
	round->now = now;
	round->n = 0;
	vrb_round = round;
}

void vrb_round_end(struct vrb_round *round)
{
	vrb_round = NULL;
	for (unsigned int i = 0; i < round->n; i++)
		vrb_cq_show(round->cqs[i], round);
}
