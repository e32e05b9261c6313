/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of faults: any text is a plan, or an error inside it that can be printed. A plan's
 * canonical form gives the same plan, and no occasion breaks it.
 *
 * The first byte says how many rules the next bytes make of phrases; the rest is a text, and then
 * the occasions.
 */
#include <string.h>

#include "fault/decide.h"
#include "fault/parse.h"
#include "fault/print.h"
#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "util/compiler.h"

enum {
	TEXT_MAX = 256,		/* of a rule made of phrases */
	LINE_MAX_ = 1024,	/* of an error */
};

/* Phrases of a rule in their order: occasion, some selectors, action; with odd ones among them. */
static const char *const occasions[] = {
	"packet", "message", "verb ibv_reg_mr", "completion", "wr", "cm REQ", "cm RTU", "seed 7",
	"verb ibv_none", "cm", "pack",
};
static const char *const selectors[] = {
	"qp 0x11", "qp 7", "qp_index 1", "tx", "rx", "opcode SEND", "opcode RC_SEND_ONLY",
	"opcode 0x04", "opcode 255", "psn 5", "psn 0xfffff0..7", "nth 3", "nth 2..9", "nth 2..",
	"every 2", "chance 1/3", "chance 4294967295/4294967295", "qp", "nth 0", "# ",
	"opcode SENT", "chance 5", "chance 2/1",
};
static const char *const actions[] = {
	"drop", "duplicate", "duplicate 2", "delay 10ms", "delay 1500us", "delay 1ns", "reorder 3",
	"corrupt", "mark", "fail ENOMEM", "fail 77", "status FATAL_ERR", "timeout", "kill",
	"status REM_OP_ERR vendor_err 0xffffffff", "reject", "reject 3", "raise PORT_ERR",
	"raise QP_FATAL", "stall 1s", "delay", "drop drop",
	"fail", "raise COMM_EST", "status SUCCESS", "status FATAL_ERR 7", "reject 0",
};

#define PICK(in, phrases) (phrases[byte(in) % ARRAY_SIZE(phrases)])

static void append(char *text, size_t *len, const char *phrase)
{
	memcpy(text + *len, phrase, strlen(phrase));
	*len += strlen(phrase);
	text[(*len)++] = ' ';
}

static size_t write_rule(char *text, struct input *in)
{
	size_t len = 0;

	append(text, &len, PICK(in, occasions));
	for (unsigned int n = byte(in) % 4; n; n--)
		append(text, &len, PICK(in, selectors));
	append(text, &len, PICK(in, actions));
	return len;
}

static void check_error(const char *text, size_t len, const struct fault_error *error)
{
	char line[LINE_MAX_];
	size_t lines = 0, start = 0;

	for (size_t i = 0; i < len && lines + 1 < error->line; i++) {
		if (text[i] == '\n') {
			lines++;
			start = i + 1;
		}
	}
	FUZZ_CHECK(lines + 1 == error->line);
	FUZZ_CHECK(start + error->column - 1 + error->word.len <= len);
	FUZZ_CHECK(text + start + error->column - 1 == error->word.at);
	FUZZ_CHECK(fault_error_print(line, sizeof(line), "fuzz", error) < sizeof(line));
	for (const char *c = line; *c; c++)
		FUZZ_CHECK(*c >= ' ' && *c < 0x7f);
}

static void check_canonical(const struct fault_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_rules; i++) {
		struct fault_plan again;
		struct fault_error error;
		char line[FAULT_LINE];
		size_t len = fault_rule_print(line, sizeof(line), &plan->rule[i]);

		FUZZ_CHECK(len < sizeof(line));
		fault_plan_init(&again);
		FUZZ_CHECK(fault_parse(&again, line, len, &error));
		FUZZ_CHECK(again.n_rules == 1);
		FUZZ_CHECK(memcmp(&again.rule[0], &plan->rule[i], sizeof(again.rule[0])) == 0);
	}
}

static void meet_occasions(const struct fault_plan *plan, struct input *in)
{
	struct fault_counts counts = { 0 };
	struct fault_hit hit;

	while (more(in)) {
		uint8_t what = byte(in);
		const struct fault_packet p = {
			.queue = { byte(in), byte(in), what & 0x80 ? FAULT_TX : FAULT_RX },
			.opcode = byte(in),
			.psn = word(in) & 0xffffff,
		};
		bool found[] = {
			fault_on_packet(plan, &counts, &p, &hit),
			fault_on_message(plan, &counts, &p, &hit),
			fault_on_completion(plan, &counts, &p.queue, &hit),
			fault_on_wr(plan, &counts, &p.queue, &hit),
			fault_on_verb(plan, &counts, what % VERB_END, &hit),
			fault_on_cm(plan, &counts, FAULT_REQ + what % 11, p.queue.direction, &hit),
		};

		for (size_t i = 0; i < ARRAY_SIZE(found); i++)
			FUZZ_CHECK(!found[i] || hit.rule < plan->n_rules);
	}
}

static void read_text(struct fault_plan *plan, const char *text, size_t len)
{
	uint32_t before = plan->n_rules;
	struct fault_error error;

	if (fault_parse(plan, text, len, &error))
		return;
	FUZZ_CHECK(plan->n_rules == before);
	check_error(text, len, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct fault_plan plan;
	uint8_t rules = byte(&in) % 8;

	fault_plan_init(&plan);
	for (uint8_t i = 0; i < rules; i++) {
		char text[TEXT_MAX];

		read_text(&plan, text, write_rule(text, &in));
	}
	read_text(&plan, (const char *)in.p, (size_t)(in.end - in.p));
	check_canonical(&plan);
	meet_occasions(&plan, &in);
	return 0;
}
