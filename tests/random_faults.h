/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random rules of VERBENA_FAULTS (docs/FAULTS.md) that a reliable connection must repair: losses,
 * copies, delays and another order of packets and of messages within the host.
 */
#ifndef TESTS_RANDOM_FAULTS_H
#define TESTS_RANDOM_FAULTS_H

#include <stdint.h>
#include <stdio.h>

#include "util/compiler.h"

enum {
	RANDOM_FAULTS = 6,	/* rules, at most */
	RANDOM_FAULTS_MAX = 100 * RANDOM_FAULTS,
};

/*
 * Rules for one process: none for every other one. service: RC or XRC; draw: a random number less
 * than n.
 */
static inline void random_faults(char rules[RANDOM_FAULTS_MAX], const char *service,
				 uint32_t (*draw)(uint32_t n))
{
	static const char *const opcodes[] = {
		"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_ONLY",
		"SEND_LAST_WITH_IMMEDIATE", "SEND_ONLY_WITH_IMMEDIATE",
		"SEND_LAST_WITH_INVALIDATE", "SEND_ONLY_WITH_INVALIDATE",
		"WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_ONLY",
		"WRITE_LAST_WITH_IMMEDIATE", "WRITE_ONLY_WITH_IMMEDIATE",
		"READ_REQUEST", "READ_RESPONSE_FIRST", "READ_RESPONSE_MIDDLE",
		"READ_RESPONSE_LAST", "READ_RESPONSE_ONLY", "ACKNOWLEDGE",
		"COMPARE_SWAP", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE",
	};
	static const char *const actions[] = {
		"drop", "drop", "duplicate", "delay 1ms", "reorder", "corrupt",
	};
	int len = 0;

	rules[0] = 0;
	for (uint32_t n = draw(2) ? 0 : 1 + draw(RANDOM_FAULTS); n; n--)
		len += snprintf(rules + len, (size_t)(RANDOM_FAULTS_MAX - len),
				"%s %s opcode %s_%s chance 1/%u %s;",
				draw(2) ? "packet" : "message", draw(2) ? "tx" : "rx", service,
				opcodes[draw(ARRAY_SIZE(opcodes))], 10 + draw(40),
				actions[draw(ARRAY_SIZE(actions))]);
}

#endif
