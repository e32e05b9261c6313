/* SPDX-License-Identifier: BSD-2-Clause */
/* Every occasion is matched with each rule of its kind, counted, and decided by count and seed. */
#include "fault/decide.h"

#include <string.h>

#include "util/hash.h"

enum {
	PSN_MASK = 0xffffff,
};

/* Any occasion; members that its kind does not have are 0. */
struct occasion {
	enum fault_kind kind;
	uint32_t subject;
	struct fault_packet packet;
};

static bool has_opcode(const struct fault_opcodes *set, uint8_t opcode)
{
	return set->operations >> (opcode & 0x1f) & 1 && set->services >> (opcode >> 5) & 1;
}

static bool has_psn(const struct fault_range *range, uint32_t psn)
{
	return ((psn - range->first) & PSN_MASK) <= ((range->last - range->first) & PSN_MASK);
}

/* The selectors that are not about counts. */
static bool matches(const struct fault_rule *rule, const struct occasion *o)
{
	const struct fault_queue *queue = &o->packet.queue;

	return rule->kind == o->kind && rule->subject == o->subject &&
	       (!fault_given(rule, FAULT_QP) || rule->qpn == queue->qpn) &&
	       (!fault_given(rule, FAULT_QP_INDEX) || rule->qp_index == queue->qp_index) &&
	       (!fault_given(rule, FAULT_DIRECTION) || rule->direction == queue->direction) &&
	       (!fault_given(rule, FAULT_OPCODE) || has_opcode(&rule->opcodes, o->packet.opcode)) &&
	       (!fault_given(rule, FAULT_PSN) || has_psn(&rule->psn, o->packet.psn));
}

/* The selectors by count. */
static bool strikes(const struct fault_rule *rule, uint64_t count, uint64_t random)
{
	return (!fault_given(rule, FAULT_NTH) ||
		(count >= rule->nth.first && count <= rule->nth.last)) &&
	       (!fault_given(rule, FAULT_EVERY) || count % rule->every == 0) &&
	       (!fault_given(rule, FAULT_CHANCE) || random % rule->of < rule->chance);
}

static uint64_t draw(uint64_t seed, uint32_t rule, uint32_t qp_index, uint64_t count)
{
	uint64_t place = hash_mix((uint64_t)rule << 32 | qp_index);

	return hash_mix(hash_mix(seed + place) + count);
}

static bool decide(const struct fault_plan *plan, struct fault_counts *counts,
		   const struct occasion *o, struct fault_hit *hit)
{
	bool found = false;

	if (counts->generation != plan->generation) {
		memset(counts, 0, sizeof(*counts));
		counts->generation = plan->generation;
	}
	for (uint32_t i = 0; i < plan->n_rules; i++) {
		const struct fault_rule *rule = &plan->rule[i];
		uint64_t count, random;

		if (!matches(rule, o))
			continue;
		count = ++counts->seen[i];
		random = draw(plan->seed, i, o->packet.queue.qp_index, count);
		if (found || !strikes(rule, count, random))
			continue;
		found = true;
		*hit = (struct fault_hit){ rule->action, i, count, hash_mix(~random) };
	}
	return found;
}

bool fault_on_packet(const struct fault_plan *plan, struct fault_counts *of_qp,
		     const struct fault_packet *packet, struct fault_hit *hit)
{
	return decide(plan, of_qp, &(struct occasion){ FAULT_PACKET, 0, *packet }, hit);
}

bool fault_on_message(const struct fault_plan *plan, struct fault_counts *of_qp,
		      const struct fault_packet *message, struct fault_hit *hit)
{
	return decide(plan, of_qp, &(struct occasion){ FAULT_MESSAGE, 0, *message }, hit);
}

bool fault_on_completion(const struct fault_plan *plan, struct fault_counts *of_qp,
			 const struct fault_queue *queue, struct fault_hit *hit)
{
	return decide(plan, of_qp, &(struct occasion){ FAULT_COMPLETION, 0, { *queue } }, hit);
}

bool fault_on_wr(const struct fault_plan *plan, struct fault_counts *of_qp,
		 const struct fault_queue *queue, struct fault_hit *hit)
{
	return decide(plan, of_qp, &(struct occasion){ FAULT_WR, 0, { *queue } }, hit);
}

bool fault_on_verb(const struct fault_plan *plan, struct fault_counts *of_process,
		   enum verb verb, struct fault_hit *hit)
{
	return decide(plan, of_process, &(struct occasion){ FAULT_VERB, verb }, hit);
}

bool fault_on_cm(const struct fault_plan *plan, struct fault_counts *of_process,
		 enum fault_cm message, enum fault_direction direction, struct fault_hit *hit)
{
	const struct occasion o = {
		.kind = FAULT_CM,
		.subject = message,
		.packet.queue.direction = direction,
	};

	return decide(plan, of_process, &o, hit);
}
