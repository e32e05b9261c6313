/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that follow one in a run, from a fuzzer's input. */
#ifndef TESTS_FUZZ_RUN_INPUT_H
#define TESTS_FUZZ_RUN_INPUT_H

#include <string.h>

#include "fuzz/input.h"
#include "roce/icrc.h"
#include "roce/pkt.h"

enum {
	RUN_INPUT_MOST = 6,
	RUN_INPUT_ACK_REQ = 8,	/* offsets in the BTH */
	RUN_INPUT_PSN = 9,
};

/*
 * Appends up to RUN_INPUT_MOST copies of the packet of `len` bytes in data, whose PSNs count up;
 * the ICRC of one may be wrong. Returns their number.
 */
static inline unsigned int put_followers(struct input *in, const struct net_path *path,
					 uint32_t psn, uint8_t *data, size_t len)
{
	unsigned int n = byte(in) % (RUN_INPUT_MOST + 1), bad = byte(in);

	for (unsigned int i = 1; i <= n; i++) {
		uint8_t *next = data + i * len;
		uint32_t icrc;

		memcpy(next, data, len);
		next[RUN_INPUT_ACK_REQ] = byte(in) & 0x80;
		for (int k = 0; k < 3; k++)
			next[RUN_INPUT_PSN + k] = (uint8_t)((psn + i) >> (16 - 8 * k));
		icrc = roce_icrc(path, (uint16_t)i, next, len - ROCE_ICRC_LEN) ^ (i == bad);
		for (int k = 0; k < ROCE_ICRC_LEN; k++)
			next[len - ROCE_ICRC_LEN + k] = (uint8_t)(icrc >> 8 * k);
	}
	return n;
}

#endif
