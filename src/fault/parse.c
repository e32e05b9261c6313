/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading rules. Every function that can fail reports where and returns false; the plan is changed
 * at the end, when all is well.
 */
#include "fault/parse.h"

#include <string.h>

#include "fault/words.h"

enum {
	QPN_LAST = 0xffffff,
	PSN_LAST = 0xffffff,
	ERRNO_LAST = 4095,
	COUNT_LAST = 1000,
	REASON_LAST = 0xffff,
};

#define TIME_LAST (3600ull * 1000000000)

struct parser {
	const char *at, *end;
	const char *line_start;
	unsigned int line;
	struct fault_error *error;
};

/* Always false. */
static bool fail(struct parser *p, const struct fault_word *word, const char *expected)
{
	*p->error = (struct fault_error){
		.line = p->line,
		.column = (unsigned int)(word->at - p->line_start) + 1,
		.word = *word,
		.expected = expected,
	};
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_rule(char c)
{
	return c == ';' || c == '\n';
}

static bool ends_word(char c)
{
	return is_blank(c) || ends_rule(c) || c == '#';
}

static void skip_comment(struct parser *p)
{
	while (p->at < p->end && *p->at != '\n')
		p->at++;
}

/* The next word of the rule; empty at its end. */
static struct fault_word next_word(struct parser *p)
{
	struct fault_word word;

	while (p->at < p->end && is_blank(*p->at))
		p->at++;
	word.at = p->at;
	while (p->at < p->end && !ends_word(*p->at))
		p->at++;
	word.len = (size_t)(p->at - word.at);
	if (!word.len && p->at < p->end && *p->at == '#')
		skip_comment(p);
	return word;
}

static int digit_value(char c, unsigned int base)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (base == 16 && c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (base == 16 && c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static void skip(struct fault_word *word, size_t len)
{
	word->at += len;
	word->len -= len;
}

static bool skip_text(struct fault_word *word, const char *text, size_t len)
{
	if (word->len < len || memcmp(word->at, text, len) != 0)
		return false;
	skip(word, len);
	return true;
}

/* Takes a number off the front of a word. False: there is none, or it has more than 64 bits. */
static bool take_digits(struct fault_word *word, uint64_t *v)
{
	unsigned int base = skip_text(word, "0x", 2) ? 16 : 10;
	bool any = false;

	*v = 0;
	while (word->len && digit_value(*word->at, base) >= 0) {
		if (__builtin_mul_overflow(*v, base, v) ||
		    __builtin_add_overflow(*v, (uint64_t)digit_value(*word->at, base), v))
			return false;
		skip(word, 1);
		any = true;
	}
	return any;
}

static bool in_range(uint64_t v, uint64_t first, uint64_t last)
{
	return v >= first && v <= last;
}

static bool word_number(const struct fault_word *word, uint64_t first, uint64_t last, uint64_t *v)
{
	struct fault_word rest = *word;

	return take_digits(&rest, v) && !rest.len && in_range(*v, first, last);
}

static bool read_number(struct parser *p, uint64_t first, uint64_t last, uint64_t *v,
			const char *expected)
{
	struct fault_word word = next_word(p);

	return word_number(&word, first, last, v) || fail(p, &word, expected);
}

static bool read_number32(struct parser *p, uint32_t first, uint32_t last, uint32_t *v,
			  const char *expected)
{
	uint64_t wide;

	if (!read_number(p, first, last, &wide, expected))
		return false;
	*v = (uint32_t)wide;
	return true;
}

/* A name of a table. */
static bool read_name(struct parser *p, const struct fault_name *names, uint32_t *v,
		      const char *expected)
{
	struct fault_word word = next_word(p);
	const struct fault_name *name = fault_name_of(names, &word);

	if (!name)
		return fail(p, &word, expected);
	*v = name->value;
	return true;
}

/* A, A..B */
static bool read_psn(struct parser *p, struct fault_range *range)
{
	struct fault_word word = next_word(p), rest = word;
	bool ok = take_digits(&rest, &range->first);

	range->last = range->first;
	if (ok && skip_text(&rest, "..", 2))
		ok = take_digits(&rest, &range->last);
	ok = ok && !rest.len && range->first <= PSN_LAST && range->last <= PSN_LAST;
	return ok || fail(p, &word, "a PSN or FIRST..LAST, of 24 bits");
}

/* A, A..B, A.. */
static bool read_nth(struct parser *p, struct fault_range *range)
{
	struct fault_word word = next_word(p), rest = word;
	bool ok = take_digits(&rest, &range->first);

	range->last = range->first;
	if (ok && skip_text(&rest, "..", 2)) {
		if (rest.len)
			ok = take_digits(&rest, &range->last);
		else
			range->last = UINT64_MAX;
	}
	ok = ok && !rest.len && range->first && range->first <= range->last;
	return ok || fail(p, &word, "a number from 1, FIRST..LAST or FIRST..");
}

/* 1/100 */
static bool read_chance(struct parser *p, struct fault_rule *rule)
{
	struct fault_word word = next_word(p), rest = word;
	uint64_t chance, of;

	if (!take_digits(&rest, &chance) || !skip_text(&rest, "/", 1) ||
	    !word_number(&rest, 1, UINT32_MAX, &of) || !in_range(chance, 1, of))
		return fail(p, &word, "a chance as 1/100, at most 1/1");
	rule->chance = (uint32_t)chance;
	rule->of = (uint32_t)of;
	return true;
}

static bool read_opcode(struct parser *p, struct fault_opcodes *set)
{
	struct fault_word word = next_word(p);
	uint64_t number;

	if (fault_opcodes_of(set, &word))
		return true;
	if (!word_number(&word, 0, UINT8_MAX, &number))
		return fail(p, &word, "an opcode: SEND, SEND_ONLY, RC_SEND_ONLY, 0x04");
	*set = fault_opcode((uint8_t)number);
	return true;
}

static bool read_selector(struct parser *p, const struct fault_word *word,
			  const struct fault_term *term, struct fault_rule *rule)
{
	enum fault_selector selector = term->value;

	if (rule->given & 1u << selector)
		return fail(p, word, "each selector once");
	rule->given |= 1u << selector;
	switch (selector) {
	case FAULT_QP:
		return read_number32(p, 0, QPN_LAST, &rule->qpn, "a QP number, of 24 bits");
	case FAULT_QP_INDEX:
		return read_number32(p, 1, UINT32_MAX, &rule->qp_index, "a number from 1");
	case FAULT_DIRECTION:
		rule->direction = fault_name_of(fault_directions, word)->value;
		return true;
	case FAULT_OPCODE:
		return read_opcode(p, &rule->opcodes);
	case FAULT_PSN:
		return read_psn(p, &rule->psn);
	case FAULT_NTH:
		return read_nth(p, &rule->nth);
	case FAULT_EVERY:
		return read_number(p, 1, UINT64_MAX, &rule->every, "a number from 1");
	case FAULT_CHANCE:
		return read_chance(p, rule);
	}
	return false;
}

/* A number, or what it is without one. */
static bool read_optional(struct parser *p, uint64_t first, uint64_t last, uint64_t without,
			  uint64_t *v, const char *expected)
{
	struct fault_word word = next_word(p);

	*v = without;
	return !word.len || word_number(&word, first, last, v) || fail(p, &word, expected);
}

/* 10ms */
static bool read_time(struct parser *p, uint64_t *ns)
{
	struct fault_word word = next_word(p), rest = word;
	const struct fault_unit *unit = fault_units;
	uint64_t v;

	if (take_digits(&rest, &v)) {
		while (unit->name && !fault_word_is(&rest, unit->name))
			unit++;
		if (unit->name && in_range(v, 1, TIME_LAST / unit->ns)) {
			*ns = v * unit->ns;
			return true;
		}
	}
	return fail(p, &word, "a time in ns, us, ms or s, as 10ms, at most an hour");
}

static bool read_errno(struct parser *p, uint64_t *v)
{
	struct fault_word word = next_word(p);
	const struct fault_name *name = fault_name_of(fault_errnos, &word);

	if (name)
		*v = name->value;
	return name || word_number(&word, 1, ERRNO_LAST, v) ||
	       fail(p, &word, "an errno, as ENOMEM or 12");
}

static bool read_status(struct parser *p, struct fault_action *action)
{
	struct fault_word word;
	uint32_t status;

	if (!read_name(p, fault_statuses, &status,
		       "a status of an error, as IBV_WC_ has it: RETRY_EXC_ERR"))
		return false;
	action->value = status;
	word = next_word(p);
	if (!word.len)
		return true;
	if (!fault_word_is(&word, "vendor_err"))
		return fail(p, &word, "vendor_err or the end of the rule");
	return read_number32(p, 0, UINT32_MAX, &action->vendor_err, "a number of 32 bits");
}

static bool read_reason(struct parser *p, const struct fault_word *word, struct fault_rule *rule)
{
	if (rule->subject != FAULT_REQ && rule->subject != FAULT_REP)
		return fail(p, word, "REQ or REP to be rejected");
	return read_optional(p, 1, REASON_LAST, FAULT_REASON_CONSUMER, &rule->action.value,
			     "a reason from 1 to 65535");
}

static bool read_event(struct parser *p, struct fault_rule *rule)
{
	struct fault_word word = next_word(p);
	const struct fault_name *event = fault_name_of(fault_events, &word);

	if (!event)
		return fail(p, &word,
			    "PORT_ERR, PORT_ACTIVE, GID_CHANGE, DEVICE_FATAL, QP_FATAL, CQ_ERR, "
			    "SRQ_ERR or PATH_MIG");
	if (fault_event_needs_qp(event->value) &&
	    (rule->kind == FAULT_VERB || rule->kind == FAULT_CM))
		return fail(p, &word, "an event of the device: this occasion has no QP");
	rule->action.value = event->value;
	return true;
}

static bool read_argument(struct parser *p, const struct fault_word *word,
			  enum fault_argument argument, struct fault_rule *rule)
{
	struct fault_action *action = &rule->action;

	switch (argument) {
	case FAULT_NO_ARGUMENT:
		return true;
	case FAULT_COUNT:
		return read_optional(p, 1, COUNT_LAST, 1, &action->value,
				     "a number from 1 to 1000");
	case FAULT_TIME:
		return read_time(p, &action->value);
	case FAULT_ERRNO:
		return read_errno(p, &action->value);
	case FAULT_WC:
		return read_status(p, action);
	case FAULT_REASON:
		return read_reason(p, word, rule);
	case FAULT_EVENT:
		return read_event(p, rule);
	}
	return false;
}

static bool read_end(struct parser *p)
{
	struct fault_word word = next_word(p);

	return !word.len || fail(p, &word, "the end of the rule");
}

static bool goes_with(const struct fault_term *term, const struct fault_rule *rule)
{
	return term && term->kinds >> rule->kind & 1;
}

/* The selectors and the action, which follow the occasion. */
static bool read_terms(struct parser *p, struct fault_rule *rule)
{
	for (;;) {
		struct fault_word word = next_word(p);
		const struct fault_term *selector = fault_term_of(fault_selectors, &word);
		const struct fault_term *action = fault_term_of(fault_actions, &word);

		if (!word.len)
			return fail(p, &word, "an action");
		if (goes_with(action, rule)) {
			rule->action.what = action->value;
			return read_argument(p, &word, action->argument, rule) && read_end(p);
		}
		if (!goes_with(selector, rule))
			return fail(p, &word, "a selector or an action of this occasion");
		if (!read_selector(p, &word, selector, rule))
			return false;
	}
}

static bool read_rule(struct parser *p, const struct fault_word *word, struct fault_rule *rule)
{
	const struct fault_name *kind = fault_name_of(fault_kinds, word);

	memset(rule, 0, sizeof(*rule));
	if (!kind)
		return fail(p, word, "packet, message, verb, completion, wr, cm or seed");
	rule->kind = kind->value;
	if (rule->kind == FAULT_VERB &&
	    !read_name(p, fault_verbs, &rule->subject, "a verb that can fail, as ibv_reg_mr"))
		return false;
	if (rule->kind == FAULT_CM &&
	    !read_name(p, fault_cm_messages, &rule->subject,
		       "REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP or APR"))
		return false;
	return read_terms(p, rule);
}

void fault_plan_init(struct fault_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->seed = 1;
}

bool fault_parse(struct fault_plan *plan, const char *text, size_t len, struct fault_error *error)
{
	struct parser p = { text, text + len, text, 1, error };
	uint32_t n_rules = plan->n_rules;
	uint64_t seed = plan->seed;

	while (p.at < p.end) {
		struct fault_word word = next_word(&p);

		if (fault_word_is(&word, "seed")) {
			if (!read_number(&p, 0, UINT64_MAX, &seed, "a number of 64 bits") ||
			    !read_end(&p))
				return false;
		} else if (word.len) {
			if (n_rules == FAULT_RULES)
				return fail(&p, &word, "at most 64 rules");
			if (!read_rule(&p, &word, &plan->rule[n_rules++]))
				return false;
		}
		if (p.at < p.end && *p.at++ == '\n') {
			p.line++;
			p.line_start = p.at;
		}
	}
	plan->n_rules = n_rules;
	plan->seed = seed;
	return true;
}
