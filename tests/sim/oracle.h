/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow model of a reliable or lossless service. It applies the requests of a flow in order to
 * copies of the hosts' memory, byte by byte, and computes the completions that both sides must get.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "plan.h"

struct oracle {
	struct plan *plan;
	uint8_t *image[2];     /* the expected memory */
	uint8_t *undefined[2]; /* bytes that a failed request may or may not have written */
};

/* Before the run. */
void oracle_init(struct oracle *o, struct plan *p);
void oracle_free(struct oracle *o);

/*
 * After a run in which nothing may fail: all requests are done, completions and memory equal the
 * model's, there was no event, and the queues are empty.
 */
void oracle_check(struct oracle *o);

/*
 * After a run in which flows may fail with a status whose bit is set in `allowed`: requests that
 * completed successfully took effect, in order; one failure and then flushes follow; memory that
 * the failed requests do not access equals the model's. Returns the number of flows that failed.
 */
uint32_t oracle_check_failing(struct oracle *o, uint64_t allowed);

#endif
