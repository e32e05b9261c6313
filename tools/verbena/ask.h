/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the user's processes what they do (core/ask.h has the other end). */
#ifndef VRB_TOOL_ASK_H
#define VRB_TOOL_ASK_H

#include <stdbool.h>

struct json_object;

/* Called for each process that answered; true: the callee is done with it, false: it keeps it. */
typedef bool (*ask_fn)(struct json_object *process, void *arg);

/*
 * Asks all that can be asked.  Returns how many answered, -1 if there is no run directory; *silent (may be NULL) counts those that live but did
 * not answer in time.  A process that ends meanwhile is neither.
 */
int ask_all(ask_fn fn, void *arg, int *silent);

/* The same of one process, by its number in this PID namespace, with more patience; 0: of all. */
int ask_process(int pid, ask_fn fn, void *arg, int *silent);

#endif
