/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of faults as the tool is given them. */
#ifndef VRB_TOOL_FAULT_H
#define VRB_TOOL_FAULT_H

#include <stdbool.h>
#include <stddef.h>

struct fault_rules {
	const char *source;	/* for messages */
	char *text;		/* to be freed, also if it could not be read */
	size_t len;
};

/* The words, a space between them; or, if there is one and it is @FILE, that file. Exit status. */
int fault_rules_read(struct fault_rules *rules, char **words);

/* Prints a line that names the place of the first error. Returns an exit status. */
int fault_rules_check(const struct fault_rules *rules);

/* $VERBENA_FAULTS is invalid; its first error has been printed. */
bool fault_environment_is_bad(void);

/* verbena fault sweep; argv[0] is "sweep". */
int fault_sweep(int argc, char **argv);

#endif
