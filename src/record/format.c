/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and sizes of the types of records, and names of verbs. */
#include "record/format.h"

#include "util/compiler.h"

static const struct record_type_info types[RECORD_TYPES] = {
	[RECORD_VERB] = { "verb", sizeof(struct record_verb), 8 },
	[RECORD_OBJECT] = { "object", sizeof(struct record_object), 0 },
	[RECORD_SEND] = { "send", sizeof(struct record_send), 0 },
	[RECORD_RECV] = { "recv", sizeof(struct record_recv), 0 },
	[RECORD_COMPLETION] = { "completion", sizeof(struct record_completion), 0 },
	[RECORD_EVENT] = { "event", sizeof(struct record_event), 0 },
	[RECORD_PATH] = { "path", sizeof(struct record_path), 0 },
	[RECORD_PACKET] = { "packet", sizeof(struct record_packet), 1 },
	[RECORD_ENGINE] = { "engine", sizeof(struct record_engine), 0 },
	[RECORD_STACK] = { "stack", 0, 8 },
	[RECORD_MODULE] = { "module", sizeof(struct record_module), 1 },
	[RECORD_FAULT] = { "fault", sizeof(struct record_fault), 1 },
	[RECORD_DEVICE] = { "device", sizeof(struct record_device), 1 },
};

/* Published: a size that changes is a new type. */
static_assert(sizeof(struct record_verb) == 16 && sizeof(struct record_object) == 32 &&
		      sizeof(struct record_send) == 48 && sizeof(struct record_recv) == 24 &&
		      sizeof(struct record_completion) == 40 && sizeof(struct record_event) == 16 &&
		      sizeof(struct record_path) == 40 && sizeof(struct record_packet) == 24 &&
		      sizeof(struct record_engine) == 16 && sizeof(struct record_module) == 16 &&
		      sizeof(struct record_fault) == 32 && sizeof(struct record_device) == 16,
	      "version 1");

static const char *const verbs[] = {
#define VERB(name, number, answer) [number] = #name,
#include "wq/verb.def"
#undef VERB
};

const struct record_type_info *record_type_info(unsigned int type)
{
	return type < RECORD_TYPES && types[type].name ? &types[type] : NULL;
}

const char *record_verb_name(unsigned int number)
{
	return number < ARRAY_SIZE(verbs) ? verbs[number] : NULL;
}
