/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to a process's answer: missing values count as 0, "" or an empty list. */
#ifndef VRB_TOOL_VIEW_H
#define VRB_TOOL_VIEW_H

#include <stddef.h>
#include <stdint.h>

struct json_object;

int64_t number(struct json_object *o, const char *key);
uint64_t unsigned_number(struct json_object *o, const char *key);

/* The text without control characters.  Valid until the fifth next call. */
const char *text(struct json_object *o, const char *key);

struct json_object *list(struct json_object *o, const char *key);
size_t list_length(struct json_object *list);

/* Names of a process's devices, such as "vrb0 vrb1".  Valid until the next call. */
const char *devices_of(struct json_object *process);

/* IBV_ACCESS_* as words; returns buf. */
const char *access_text(unsigned int access, char *buf, size_t size);

/* A line of an id of rdma_cm: state, addresses, QP; and its head. */
void print_cm_id_head(void);
void print_cm_id(struct json_object *id);

#endif
