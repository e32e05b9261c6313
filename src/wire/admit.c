/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/admit.h"

#include <assert.h>
#include <linux/filter.h>

#include "util/be.h"
#include "util/compiler.h"
#include "wire/offsets.h"

enum {
	BTH_AT = 8,			/* the packet begins with its UDP header here */
	BUCKET_SHIFT = 22,		/* of the hash */
};

/* The headers before that. */
#define IP_AT		((uint32_t)SKF_NET_OFF)
#define IPV4_SOURCE_AT	(IP_AT + 12)
#define IPV6_SOURCE_AT	(IP_AT + 8)
#define PREFIX_MIX	0x9e3779b1u

static_assert(ADMIT_BUCKETS == 1u << (32 - BUCKET_SHIFT), "the hash is a bucket");

unsigned int admit_bucket(uint32_t salt, const struct net_addr *src)
{
	uint32_t a = net_is_ipv4(src) ? get_be32(src->raw + 12) :
		     (get_be32(src->raw) * PREFIX_MIX) ^ get_be32(src->raw + 4);

	return a * salt >> BUCKET_SHIFT;
}

struct program {
	struct sock_filter *insn;
	size_t n;
};

static void emit(struct program *p, const struct sock_filter *insns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->insn[p->n++] = insns[i];
}

/* A jump to `pass` that is known when all is emitted; it leaves out the next if A equals k. */
static size_t emit_unless(struct program *p, uint32_t k)
{
	const struct sock_filter insns[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 1, 0),
		BPF_STMT(BPF_JMP | BPF_JA, 0),
	};

	emit(p, insns, ARRAY_SIZE(insns));
	return p->n - 1;
}

/* A becomes the bucket. */
static void emit_hash(struct program *p, uint32_t salt)
{
	const struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, IP_AT),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IPV4_SOURCE_AT),
		BPF_STMT(BPF_JMP | BPF_JA, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IPV6_SOURCE_AT),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, PREFIX_MIX),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IPV6_SOURCE_AT + 4),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, salt),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, BUCKET_SHIFT),
	};

	emit(p, insns, ARRAY_SIZE(insns));
}

/* A is the bucket; becomes its level. */
static void emit_look_up(struct program *p, const uint32_t words[ADMIT_WORDS])
{
	enum { ROW = 3 };
	const struct sock_filter split[] = {
		BPF_STMT(BPF_ST, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ADMIT_PER_WORD - 1),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 1),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_MEM, 0),
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, ADMIT_PER_WORD),
	};
	const struct sock_filter test[] = {
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ADMIT_LEVELS - 1),
	};

	emit(p, split, ARRAY_SIZE(split));
	for (uint32_t i = 0; i < ADMIT_WORDS; i++) {
		const struct sock_filter row[ROW] = {
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 2),
			BPF_STMT(BPF_LD | BPF_IMM, words[i]),
			BPF_STMT(BPF_JMP | BPF_JA, (ADMIT_WORDS - 1 - i) * ROW),
		};

		emit(p, row, ARRAY_SIZE(row));
	}
	emit(p, test, ARRAY_SIZE(test));
}

/* A is the level: passes the packet with its probability. Returns where it passes. */
static size_t emit_verdict(struct program *p, const uint32_t keep[ADMIT_LEVELS])
{
	const struct sock_filter verdict[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 9, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2),
		BPF_STMT(BPF_LDX | BPF_IMM, keep[1]),
		BPF_STMT(BPF_JMP | BPF_JA, 3),
		BPF_STMT(BPF_LDX | BPF_IMM, keep[2]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2, 1, 0),
		BPF_STMT(BPF_LDX | BPF_IMM, keep[3]),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ADMIT_ALL - 1),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	static_assert(ADMIT_LEVELS == 4, "one load for each");
	emit(p, verdict, ARRAY_SIZE(verdict));
	return p->n - 2;
}

size_t admit_build(const struct admit_rule *r, struct sock_filter *prog)
{
	const struct sock_filter destination[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BTH_AT + BTH_DEST_QP_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
	};
	const struct sock_filter type[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, BTH_AT + MAD_ATTRIBUTE_AT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAD_SIDR_REQ, 2, 0),
	};
	struct program p = { .insn = prog };
	size_t passes[2], pass;

	emit(&p, destination, ARRAY_SIZE(destination));
	passes[0] = emit_unless(&p, MAD_QPN);
	emit(&p, type, ARRAY_SIZE(type));
	passes[1] = emit_unless(&p, MAD_REQ);
	emit_hash(&p, r->salt);
	emit_look_up(&p, r->level);
	pass = emit_verdict(&p, r->keep);
	for (size_t i = 0; i < ARRAY_SIZE(passes); i++)
		prog[passes[i]].k = (uint32_t)(pass - passes[i] - 1);
	assert(p.n <= ADMIT_INSNS);
	return p.n;
}
