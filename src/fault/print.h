/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints rules in canonical form, which parses to the same rule. Each call returns the length of
 * the whole text; a buffer that is too small gets its beginning.
 */
#ifndef VRB_FAULT_PRINT_H
#define VRB_FAULT_PRINT_H

#include <stddef.h>

#include "fault/parse.h"
#include "fault/rule.h"

/* Without newline; FAULT_LINE bytes always suffice. */
size_t fault_rule_print(char *out, size_t cap, const struct fault_rule *rule);

/* "SOURCE:LINE:COLUMN: expected ..., not WORD", printable, without newline. */
size_t fault_error_print(char *out, size_t cap, const char *source,
			 const struct fault_error *error);

#endif
