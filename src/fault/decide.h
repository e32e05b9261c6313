/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides what happens to an occasion, as a function of the plan's seed and of counts, never of
 * time.
 *
 * A QP is identified by its place among those that its process created, since QP numbers start at
 * random. So the same program with the same plan gets the same faults, as long as its threads cause
 * the same occasions in the same order.
 */
#ifndef VRB_FAULT_DECIDE_H
#define VRB_FAULT_DECIDE_H

#include <stdbool.h>

#include "fault/rule.h"

/*
 * How many occasions each rule of a plan has matched, of one QP, or, for verbs and communication
 * management, of the process. Initially all 0; a new generation of the plan resets them.
 */
struct fault_counts {
	uint64_t seen[FAULT_RULES];
	uint32_t generation;
};

/* A side of a QP. */
struct fault_queue {
	uint32_t qpn;
	uint32_t qp_index;
	enum fault_direction direction;
};

struct fault_packet {
	struct fault_queue queue;
	uint8_t opcode;		/* BTH */
	uint32_t psn;		/* 24 bits */
};

/* The decision and its cause. */
struct fault_hit {
	struct fault_action action;
	uint32_t rule;		/* of the plan, from 0 */
	uint64_t count;		/* of the occasions that the rule matched, from 1 */
	uint64_t random;	/* for choices of the action; depends on seed and counts only */
};

/*
 * Each counts the occasion for every rule that matches it. Returns true and fills *hit if a rule
 * decides on its action; the first such rule wins.
 */
bool fault_on_packet(const struct fault_plan *plan, struct fault_counts *of_qp,
		     const struct fault_packet *packet, struct fault_hit *hit);
bool fault_on_message(const struct fault_plan *plan, struct fault_counts *of_qp,
		      const struct fault_packet *message, struct fault_hit *hit);
bool fault_on_completion(const struct fault_plan *plan, struct fault_counts *of_qp,
			 const struct fault_queue *queue, struct fault_hit *hit);
bool fault_on_wr(const struct fault_plan *plan, struct fault_counts *of_qp,
		 const struct fault_queue *queue, struct fault_hit *hit);
bool fault_on_verb(const struct fault_plan *plan, struct fault_counts *of_process,
		   enum verb verb, struct fault_hit *hit);
bool fault_on_cm(const struct fault_plan *plan, struct fault_counts *of_process,
		 enum fault_cm message, enum fault_direction direction, struct fault_hit *hit);

#endif
