/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow model of a reliable or lossless service: applies each request of a flow in order to
 * copies of the hosts' memory, byte by byte, and says which completions both sides owe the
 * application.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "plan.h"

struct oracle {
	struct plan *plan;
	uint8_t *image[2];	/* what memory has to look like */
	uint8_t *unsure[2];	/* bytes that a failed request may or may not have written */
};

/* Before the run. */
void oracle_init(struct oracle *o, struct plan *p);
void oracle_free(struct oracle *o);

/*
 * After a run in which nothing may fail: every request done, every completion exactly as the model
 * says, memory equal, no event, queues empty.
 */
void oracle_check(struct oracle *o);

/*
 * After a run in which flows may fail with a status whose bit is set in `allowed`: what completed
 * with success took effect, in order; then comes one failure, then flushes; memory outside of what
 * failed is equal. Returns how many flows failed.
 */
uint32_t oracle_check_failing(struct oracle *o, uint64_t allowed);

#endif
