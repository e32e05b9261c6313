/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault injection: rules name the faults. A rule is a selector (which occasions it matches) and an
 * action (what happens to them); docs/FAULTS.md describes the language.
 *
 *	rule.h		the nouns
 *	words.h		the vocabulary: names and their numbers
 *	parse.h		text becomes a plan
 *	print.h		a rule becomes text again, and a syntax error one line
 *	decide.h	an occasion and a plan: what happens
 *
 * Pure: no socket, clock, allocator or lock. The caller owns plans and counts, and makes sure that
 * neither changes meanwhile.
 */
#ifndef VRB_FAULT_RULE_H
#define VRB_FAULT_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "wq/verb.h"

enum {
	FAULT_RULES = 64,	/* of a plan */
	FAULT_LINE = 256,	/* bytes of a rule as canonical text, the final 0 included */
	FAULT_TEXT = FAULT_RULES * FAULT_LINE,	/* of a text of rules, the final 0 included */
};

/* Kinds of occasion. Recordings contain these numbers and those of what happens: only append. */
enum fault_kind {
	FAULT_PACKET,	  /* on the wire */
	FAULT_MESSAGE,	  /* between processes of the host; it stands for a packet */
	FAULT_VERB,	  /* a call */
	FAULT_COMPLETION, /* about to be added to its CQ */
	FAULT_WR,	  /* a work request, about to be posted */
	FAULT_CM,	  /* a message of communication management */
	FAULT_KINDS
};

/* Messages of communication management, by attribute id (IBTA volume 1, chapter 12). */
enum fault_cm {
	FAULT_REQ = 0x10,
	FAULT_MRA,
	FAULT_REJ,
	FAULT_REP,
	FAULT_RTU,
	FAULT_DREQ,
	FAULT_DREP,
	FAULT_SIDR_REQ,
	FAULT_SIDR_REP,
	FAULT_LAP,
	FAULT_APR,
};

enum fault_direction {
	FAULT_TX = 1,	/* a work request or completion: of the send queue */
	FAULT_RX,
};

/* Selectors of a rule; one that is not given matches all occasions. */
enum fault_selector {
	FAULT_QP,
	FAULT_QP_INDEX,
	FAULT_DIRECTION,
	FAULT_OPCODE,
	FAULT_PSN,
	/* The rest selects by count, among the occasions that the selectors above match. */
	FAULT_NTH,
	FAULT_EVERY,
	FAULT_CHANCE,
};

enum fault_what {
	FAULT_DROP,
	FAULT_DUPLICATE,  /* value: copies */
	FAULT_DELAY,	  /* value: ns */
	FAULT_REORDER,	  /* value: number of packets that overtake it */
	FAULT_CORRUPT,	  /* one bit, picked by fault_hit.random */
	FAULT_MARK,	  /* congestion experienced */
	FAULT_FAIL,	  /* value: errno */
	FAULT_STATUS,	  /* value: enum ibv_wc_status; vendor_err */
	FAULT_REJECT,	  /* value: reason of the REJ */
	FAULT_TIMEOUT,	  /* as if the last retry had expired */
	FAULT_RAISE,	  /* value: enum ibv_event_type, with what causes it */
	FAULT_STALL,	  /* value: ns without progress of this process */
	FAULT_KILL,	  /* this process */
};

/* Both ends included. */
struct fault_range {
	uint64_t first, last;
};

/* A set of BTH opcodes: an operation (bits 4..0) of a service (bits 7..5). */
struct fault_opcodes {
	uint32_t operations;
	uint32_t services;
};

struct fault_action {
	enum fault_what what;
	uint32_t vendor_err;
	uint64_t value;
};

struct fault_rule {
	enum fault_kind kind;
	uint32_t subject;	/* enum verb, enum fault_cm */
	uint32_t given;		/* bits by enum fault_selector; other selectors are 0 */
	uint32_t qpn;
	uint32_t qp_index;	/* the QP's place among those that its process created, from 1 */
	enum fault_direction direction;
	struct fault_opcodes opcodes;
	struct fault_range psn; /* 24 bits; wraps where first > last */
	struct fault_range nth; /* from 1 */
	uint64_t every;
	uint32_t chance, of;	/* chance in of */
	struct fault_action action;
};

static inline bool fault_given(const struct fault_rule *rule, enum fault_selector selector)
{
	return rule->given >> selector & 1;
}

/* Without pointers, so that it can be shared. Equal rules are equal bytes. */
struct fault_plan {
	uint64_t seed;
	uint32_t generation;	/* the owner's: another number with each change */
	uint32_t n_rules;
	struct fault_rule rule[FAULT_RULES];
};

#endif
