/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates the requests of a flow, with offsets instead of addresses until plan_relocate(). */
#ifndef SIM_PLAN_WR_H
#define SIM_PLAN_WR_H

#include "plan.h"

enum {
	PLAN_GAP = 7,      /* maximum gap between two SGEs, in bytes */
	PLAN_COUNTERS = 8, /* small values at the start of `remote`: atomics often match */
};

/* Creates f->wr and sets the sizes of f->local and f->remote. */
void plan_make_wrs(struct plan *p, struct flow *f);

/* Replaces offsets by addresses and symbolic keys by real ones, once the areas are laid out. */
void plan_relocate(struct flow *f);

/* Splits len bytes from `start` on into 0..max SGEs with gaps; returns their number. */
uint32_t plan_split(struct rng *r, struct ibv_sge *sge, uint32_t max, uint32_t len, uint64_t start);

#endif
