/* SPDX-License-Identifier: BSD-2-Clause */
/* The vocabulary of rules: tables of names and numbers, read in both directions. */
#ifndef VRB_FAULT_WORDS_H
#define VRB_FAULT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/rule.h"

/* A piece of text; not ended by a 0. */
struct fault_word {
	const char *at;
	size_t len;
};

bool fault_word_is(const struct fault_word *word, const char *name);

/* Names and their numbers; ended by one without name. */
struct fault_name {
	const char *name;
	uint32_t value;
};

extern const struct fault_name fault_kinds[];	   /* enum fault_kind */
extern const struct fault_name fault_verbs[];	   /* enum verb: those that can fail */
extern const struct fault_name fault_cm_messages[]; /* enum fault_cm */
extern const struct fault_name fault_directions[]; /* enum fault_direction */
extern const struct fault_name fault_errnos[];
extern const struct fault_name fault_statuses[]; /* enum ibv_wc_status, those of errors */
extern const struct fault_name fault_events[];	 /* enum ibv_event_type */

/* NULL: none. */
const struct fault_name *fault_name_of(const struct fault_name *names,
				       const struct fault_word *word);
const char *fault_name_for(const struct fault_name *names, uint64_t value);

/* Whether this event is one of a QP or of its queues. */
bool fault_event_needs_qp(uint64_t event);

/* The argument that follows the name of an action. */
enum fault_argument {
	FAULT_NO_ARGUMENT,
	FAULT_COUNT,	/* optional, 1 */
	FAULT_TIME,
	FAULT_ERRNO,
	FAULT_WC,	/* a status, then optionally `vendor_err` and a number */
	FAULT_REASON,	/* optional, that of a consumer's reject */
	FAULT_EVENT,
};

enum {
	FAULT_REASON_CONSUMER = 28,
};

/* The name of a selector or an action, and the kinds of occasion that it applies to. */
struct fault_term {
	const char *name;	/* NULL: the end of the table */
	uint32_t value;		/* enum fault_selector, enum fault_what */
	uint32_t kinds;		/* bits by enum fault_kind */
	enum fault_argument argument; /* of an action */
};

extern const struct fault_term fault_selectors[];
extern const struct fault_term fault_actions[];

const struct fault_term *fault_term_of(const struct fault_term *terms,
				       const struct fault_word *word);
const struct fault_term *fault_term_for(const struct fault_term *terms, uint32_t value);

/* Units of time, the longest first. */
extern const struct fault_unit {
	const char *name;
	uint64_t ns;
} fault_units[];

/*
 * Opcodes by the name of one (RC_SEND_ONLY), of an operation in all services (SEND_ONLY), or of a
 * kind (SEND). False: no such name.
 */
bool fault_opcodes_of(struct fault_opcodes *set, const struct fault_word *word);

/* The shortest name of a set; NULL: it has none. */
const struct fault_word *fault_opcodes_name(const struct fault_opcodes *set);

/* The set of one opcode. */
struct fault_opcodes fault_opcode(uint8_t opcode);

#endif
