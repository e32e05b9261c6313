/* SPDX-License-Identifier: BSD-2-Clause */
/* The reverse of parse.c, by the same tables. */
#include "fault/print.h"

#include "fault/text.h"

enum {
	WORD_SHOWN = 40,	/* bytes of a wrong word */
};

/* A name, or the number if it has none. */
static void put_name(struct fault_text *t, const struct fault_name *names, uint64_t value)
{
	const char *name = fault_name_for(names, value);

	if (name)
		fault_put(t, name);
	else
		fault_put_number(t, value);
}

static void put_opcodes(struct fault_text *t, const struct fault_opcodes *set)
{
	const struct fault_word *name = fault_opcodes_name(set);

	for (size_t i = 0; name && i < name->len; i++)
		fault_put_char(t, name->at[i]);
	if (!name && set->operations && set->services)
		fault_put_hex(t, (uint64_t)__builtin_ctz(set->services) << 5 |
					 (uint64_t)__builtin_ctz(set->operations));
}

static void put_range(struct fault_text *t, const struct fault_range *range, uint64_t open,
		      void (*put)(struct fault_text *, uint64_t))
{
	put(t, range->first);
	if (range->last == range->first)
		return;
	fault_put(t, "..");
	if (range->last != open)
		put(t, range->last);
}

static void put_time(struct fault_text *t, uint64_t ns)
{
	const struct fault_unit *unit = fault_units;

	while (ns % unit->ns)
		unit++;
	fault_put_number(t, ns / unit->ns);
	fault_put(t, unit->name);
}

static void put_selector(struct fault_text *t, const struct fault_rule *rule,
			 enum fault_selector selector)
{
	const struct fault_term *term = fault_term_for(fault_selectors, selector);

	fault_put_char(t, ' ');
	if (selector == FAULT_DIRECTION) {
		put_name(t, fault_directions, rule->direction);
		return;
	}
	fault_put(t, term->name);
	fault_put_char(t, ' ');
	switch (selector) {
	case FAULT_QP:
		fault_put_hex(t, rule->qpn);
		break;
	case FAULT_QP_INDEX:
		fault_put_number(t, rule->qp_index);
		break;
	case FAULT_DIRECTION:
		break;
	case FAULT_OPCODE:
		put_opcodes(t, &rule->opcodes);
		break;
	case FAULT_PSN:
		put_range(t, &rule->psn, UINT64_MAX, fault_put_hex);
		break;
	case FAULT_NTH:
		put_range(t, &rule->nth, UINT64_MAX, fault_put_number);
		break;
	case FAULT_EVERY:
		fault_put_number(t, rule->every);
		break;
	case FAULT_CHANCE:
		fault_put_number(t, rule->chance);
		fault_put_char(t, '/');
		fault_put_number(t, rule->of);
		break;
	}
}

static void put_argument(struct fault_text *t, const struct fault_action *action,
			 enum fault_argument argument)
{
	if (argument != FAULT_NO_ARGUMENT)
		fault_put_char(t, ' ');
	switch (argument) {
	case FAULT_NO_ARGUMENT:
		break;
	case FAULT_COUNT:
	case FAULT_REASON:
		fault_put_number(t, action->value);
		break;
	case FAULT_TIME:
		put_time(t, action->value);
		break;
	case FAULT_ERRNO:
		put_name(t, fault_errnos, action->value);
		break;
	case FAULT_WC:
		put_name(t, fault_statuses, action->value);
		if (action->vendor_err) {
			fault_put(t, " vendor_err ");
			fault_put_number(t, action->vendor_err);
		}
		break;
	case FAULT_EVENT:
		put_name(t, fault_events, action->value);
		break;
	}
}

size_t fault_rule_print(char *out, size_t cap, const struct fault_rule *rule)
{
	struct fault_text t = fault_text(out, cap);
	const struct fault_term *action = fault_term_for(fault_actions, rule->action.what);

	put_name(&t, fault_kinds, rule->kind);
	if (rule->kind == FAULT_VERB || rule->kind == FAULT_CM) {
		fault_put_char(&t, ' ');
		put_name(&t, rule->kind == FAULT_VERB ? fault_verbs : fault_cm_messages,
			 rule->subject);
	}
	for (enum fault_selector s = FAULT_QP; s <= FAULT_CHANCE; s++) {
		if (fault_given(rule, s))
			put_selector(&t, rule, s);
	}
	fault_put_char(&t, ' ');
	fault_put(&t, action->name);
	put_argument(&t, &rule->action, action->argument);
	return t.len;
}

/* Control characters of an untrusted text could control the terminal. */
static void put_word(struct fault_text *t, const struct fault_word *word)
{
	for (size_t i = 0; i < word->len && i < WORD_SHOWN; i++)
		fault_put_char(t, word->at[i] > ' ' && word->at[i] < 0x7f ? word->at[i] : '?');
	if (word->len > WORD_SHOWN)
		fault_put(t, "...");
}

size_t fault_error_print(char *out, size_t cap, const char *source,
			 const struct fault_error *error)
{
	struct fault_text t = fault_text(out, cap);

	fault_put(&t, source);
	fault_put_char(&t, ':');
	fault_put_number(&t, error->line);
	fault_put_char(&t, ':');
	fault_put_number(&t, error->column);
	fault_put(&t, ": expected ");
	fault_put(&t, error->expected);
	if (error->word.len) {
		fault_put(&t, ", not \"");
		put_word(&t, &error->word);
		fault_put_char(&t, '"');
	}
	return t.len;
}
