/* SPDX-License-Identifier: BSD-2-Clause */
/* Making the requests of a flow, with offsets instead of addresses until plan_relocate(). */
#ifndef SIM_PLAN_WR_H
#define SIM_PLAN_WR_H

#include "plan.h"

enum {
	PLAN_GAP = 7,		/* most bytes left out between the pieces of an SGE list */
	PLAN_COUNTERS = 8,	/* small words that start `remote`: atomics meet equal values */
};

/* Makes f->wr, and sets the sizes of f->local and f->remote. */
void plan_make_wrs(struct plan *p, struct flow *f);

/* Turns offsets into addresses and names into keys, once the areas are laid out. */
void plan_relocate(struct flow *f);

/* Splits len bytes from `start` on into 0..max pieces with gaps; returns how many. */
uint32_t plan_split(struct rng *r, struct ibv_sge *sge, uint32_t max, uint32_t len, uint64_t start);

#endif
