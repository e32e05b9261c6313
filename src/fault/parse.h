/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses rules into a plan; docs/FAULTS.md has the grammar. */
#ifndef VRB_FAULT_PARSE_H
#define VRB_FAULT_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "fault/rule.h"
#include "fault/words.h"

/* The first error in a text. */
struct fault_error {
	unsigned int line, column; /* from 1; columns are bytes */
	struct fault_word word;	   /* the word there, in the text that was read; may be empty */
	const char *expected;
};

/* No rules, seed 1. */
void fault_plan_init(struct fault_plan *plan);

/*
 * Appends the rules of `text` to the plan, and sets the plan's seed if the text has one. `text`
 * needs no final 0. Returns false and fills *error if it has an error: the plan is unchanged.
 */
bool fault_parse(struct fault_plan *plan, const char *text, size_t len, struct fault_error *error);

#endif
