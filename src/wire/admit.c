/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/admit.h"

#include <assert.h>
#include <linux/filter.h>
#include <stdint.h>
#include <string.h>

#include "util/compiler.h"

/* The packet begins with its UDP header here; BTH, DETH and MAD follow. */
enum {
	BTH_AT = 8,
	DEST_QP_AT = BTH_AT + 4,	/* low 24 bits */
	MAD_AT = BTH_AT + 12 + 8,
	ATTRIBUTE_AT = MAD_AT + 16,
	QP1 = 1,
	REQ = 0x10,
	SIDR_REQ = 0x17,
};

size_t admit_build(unsigned int keep, struct sock_filter *prog)
{
	const struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DEST_QP_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QP1, 0, 6),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ATTRIBUTE_AT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REQ, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIDR_REQ, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ADMIT_ALL - 1),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, keep, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	static_assert(ARRAY_SIZE(insns) <= ADMIT_INSNS, "room");
	memcpy(prog, insns, sizeof(insns));
	return ARRAY_SIZE(insns);
}
