/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program may be waiting for, told from one view of its objects. */
#ifndef VRB_TOOL_PS_NOTES_H
#define VRB_TOOL_PS_NOTES_H

struct json_object;

/* Prints a line for each, or nothing. process: an answer of query_process(). */
void print_notes(struct json_object *process);

#endif
