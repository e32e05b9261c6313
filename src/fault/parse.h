/* SPDX-License-Identifier: BSD-2-Clause */
/* Text becomes a plan: see docs/FAULTS.md for the grammar. */
#ifndef VRB_FAULT_PARSE_H
#define VRB_FAULT_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "fault/rule.h"
#include "fault/words.h"

/* The first thing that is wrong with a text. */
struct fault_error {
	unsigned int line, column; /* from 1; columns are bytes */
	struct fault_word word;	   /* there, in the text that was read; may be empty */
	const char *expected;
};

/* No rules, seed 1. */
void fault_plan_init(struct fault_plan *plan);

/*
 * Adds the rules of `text` behind those of the plan, and takes its seed. `text` needs no final 0.
 * False, with *error: the plan is unchanged.
 */
bool fault_parse(struct fault_plan *plan, const char *text, size_t len, struct fault_error *error);

#endif
