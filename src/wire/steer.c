/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/steer.h"

#include <linux/filter.h>
#include <string.h>

#include "util/be.h"
#include "util/compiler.h"

enum {
	BTH_VERSION_AT = 1,
	BTH_VERSION_MASK = 0x0f,
	BTH_BLOCK_AT = 5,	/* high 16 bits of the destination QP number */
	MANAGEMENT_BLOCK = 0,
	PROBE_POSITION_AT = 8,
	PROBE_MAGIC_AT = 12,
	PROBE_NONCE_AT = 20,
	PROBE_OPCODE = 0xff,	/* manufacturer's range */
};

static const uint8_t probe_magic[8] = { 'V', 'e', 'r', 'b', 'e', 'n', 'a', '1' };

/* Adjacent blocks of one owner. */
struct range {
	uint16_t low, high;
	uint32_t position;
};

struct program {
	struct sock_filter *insn;
	size_t n;
};

static void emit(struct program *p, struct sock_filter insn)
{
	p->insn[p->n++] = insn;
}

static void emit_return(struct program *p, uint32_t position)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, position));
}

/* A holds the block number: compares it with one range. */
static void emit_leaf(struct program *p, const struct range *r)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r->low, 0, 2));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, r->high, 1, 0));
	emit_return(p, r->position);
	emit_return(p, STEER_NOWHERE);
}

/*
 * Binary search. Conditional jumps reach 255 instructions only, so the far half is reached by
 * BPF_JA.
 */
static void emit_tree(struct program *p, const struct range *r, size_t n)
{
	size_t half = n / 2;
	size_t jump;

	if (n == 1) {
		emit_leaf(p, r);
		return;
	}
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r[half].low, 0, 1));
	jump = p->n;
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	emit_tree(p, r, half);
	p->insn[jump].k = (uint32_t)(p->n - jump - 1);
	emit_tree(p, r + half, n - half);
}

static size_t collect(const struct net_steer *blocks, size_t n, unsigned int family,
		      struct range *range)
{
	size_t i, n_ranges = 0;

	for (i = 0; i < n; i++) {
		int32_t position = blocks[i].index[family];
		struct range *last = n_ranges ? &range[n_ranges - 1] : NULL;

		if (position < 0 || (last && blocks[i].block <= last->high))
			continue;
		if (last && last->position == (uint32_t)position &&
		    last->high + 1 == blocks[i].block) {
			last->high++;
			continue;
		}
		if (n_ranges == STEER_BLOCKS)
			break;
		range[n_ranges++] = (struct range){ blocks[i].block, blocks[i].block,
						    (uint32_t)position };
	}
	return n_ranges;
}

/*
 * A holds the block number: QP 1 has no owner, and the process that gets a MAD passes it on
 * (core/mad/gsi.h).  By turns of chance, for the kernel's hash would give the repetitions of a lost
 * one to the same process, which may be stopped.
 */
static void emit_management(struct program *p, uint32_t sockets)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MANAGEMENT_BLOCK, 0, 3));
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, sockets));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
}

size_t steer_build(const struct net_steer *blocks, size_t n, unsigned int family,
		   struct sock_filter *prog)
{
	struct program p = { .insn = prog };
	struct range range[STEER_BLOCKS];
	bool management = n && blocks->block == MANAGEMENT_BLOCK;
	size_t n_ranges = collect(blocks + management, n - management, family, range);

	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, BTH_VERSION_AT));
	emit(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, BTH_VERSION_MASK, 0, 2));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, PROBE_POSITION_AT));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, BTH_BLOCK_AT));
	if (management && blocks->index[family] >= 0)
		emit_management(&p, (uint32_t)blocks->index[family] + 1);
	if (n_ranges)
		emit_tree(&p, range, n_ranges);
	else
		emit_return(&p, STEER_NOWHERE);
	return p.n;
}

void steer_probe_make(uint8_t buf[STEER_PROBE_LEN], uint16_t position, uint64_t nonce)
{
	memset(buf, 0, STEER_PROBE_LEN);
	buf[0] = PROBE_OPCODE;
	buf[BTH_VERSION_AT] = BTH_VERSION_MASK;
	put_be16(buf + PROBE_POSITION_AT, position);
	memcpy(buf + PROBE_MAGIC_AT, probe_magic, sizeof(probe_magic));
	put_be64(buf + PROBE_NONCE_AT, nonce);
}

bool steer_probe_read(const uint8_t *data, size_t len, uint64_t nonce, bool *mine,
		      uint16_t *position)
{
	if (len != STEER_PROBE_LEN || data[BTH_VERSION_AT] != BTH_VERSION_MASK ||
	    memcmp(data + PROBE_MAGIC_AT, probe_magic, sizeof(probe_magic)))
		return false;
	*mine = get_be64(data + PROBE_NONCE_AT) == nonce;
	*position = get_be16(data + PROBE_POSITION_AT);
	return true;
}
