/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/steer.h"

#include <linux/filter.h>
#include <string.h>

#include "util/be.h"
#include "util/compiler.h"
#include "wire/offsets.h"

enum {
	MANAGEMENT_BLOCK = 0,
	PROBE_POSITION_AT = 8,
	PROBE_MAGIC_AT = 12,
	PROBE_NONCE_AT = 20,
	PROBE_OPCODE = 0xff,	/* manufacturer's range */
};

static const uint8_t probe_magic[8] = { 'V', 'e', 'r', 'b', 'e', 'n', 'a', '1' };

/* Adjacent numbers of one owner. */
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

/* Where numbers go that are in no range: NOWHERE, or a random one of so many positions. */
static void emit_no_owner(struct program *p, uint32_t sockets)
{
	if (!sockets) {
		emit_return(p, STEER_NOWHERE);
		return;
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					     (uint32_t)SKF_AD_OFF + SKF_AD_RANDOM));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, sockets));
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
}

/* A holds the number: compares it with one range. */
static void emit_leaf(struct program *p, const struct range *r, uint32_t sockets)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r->low, 0, 2));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, r->high, 1, 0));
	emit_return(p, r->position);
	emit_no_owner(p, sockets);
}

/* A jump to where jump_here() is called: conditional ones reach 255 instructions only. */
static size_t emit_jump(struct program *p)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	return p->n - 1;
}

static void jump_here(struct program *p, size_t jump)
{
	p->insn[jump].k = (uint32_t)(p->n - jump - 1);
}

/* Binary search. */
static void emit_tree(struct program *p, const struct range *r, size_t n, uint32_t sockets)
{
	size_t half = n / 2;
	size_t jump;

	if (n == 1) {
		emit_leaf(p, r, sockets);
		return;
	}
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, r[half].low, 0, 1));
	jump = emit_jump(p);
	emit_tree(p, r, half, sockets);
	jump_here(p, jump);
	emit_tree(p, r + half, n - half, sockets);
}

static void emit_search(struct program *p, const struct range *r, size_t n, uint32_t sockets)
{
	if (n)
		emit_tree(p, r, n, sockets);
	else
		emit_no_owner(p, sockets);
}

static size_t collect(struct net_steer_list list, unsigned int family, struct range *range,
		      size_t cap)
{
	size_t i, n_ranges = 0;

	for (i = 0; i < list.n; i++) {
		const struct net_steer *s = &list.of[i];
		int32_t position = s->index[family];
		struct range *last = n_ranges ? &range[n_ranges - 1] : NULL;

		if (position < 0 || (last && s->number <= last->high))
			continue;
		if (last && last->position == (uint32_t)position && last->high + 1 == s->number) {
			last->high++;
			continue;
		}
		if (n_ranges == cap)
			break;
		range[n_ranges++] = (struct range){ s->number, s->number, (uint32_t)position };
	}
	return n_ranges;
}

/* The position of the only process that listens; -1: none or several do, or not all are known. */
static int32_t only_listener(struct net_steer_list slots, unsigned int family)
{
	const struct net_steer *only = NULL;

	for (size_t i = 0; i < slots.n; i++) {
		if (!slots.of[i].listens)
			continue;
		if (only)
			return -1;
		only = &slots.of[i];
	}
	return only && slots.n < STEER_SLOTS ? only->index[family] : -1;
}

/* A holds the attribute. */
static void emit_requests(struct program *p, int32_t listener)
{
	if (listener < 0)
		return;
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAD_REQ, 1, 0));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAD_SIDR_REQ, 0, 1));
	emit_return(p, (uint32_t)listener);
}

/*
 * A holds the block number: QP 1 has no owner.  A reply names a communication id of the process
 * that shall get it, and a request is for a listener.  The process that receives another MAD, or
 * one for a process without a position, forwards it (core/mad/gsi.h).  That position is random,
 * because the kernel's hash would send retries of a lost MAD to the same process, which may be
 * stopped.
 */
static void emit_management(struct program *p, const struct range *r, size_t n, int32_t listener,
			    uint32_t sockets)
{
	size_t others;

	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MANAGEMENT_BLOCK, 1, 0));
	others = emit_jump(p);
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, MAD_ATTRIBUTE_AT));
	emit_requests(p, listener);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, MAD_MRA, 0, 1));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, MAD_DREP, 0, 3));
	emit_no_owner(p, sockets);
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MAD_REMOTE_ID_AT));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, NET_COMM_ID_SERIAL_BITS));
	emit_search(p, r, n, sockets);
	jump_here(p, others);
}

/* The sockets that share QP 1; 0: it is not in the table. */
static uint32_t count_sockets(struct net_steer_list blocks, unsigned int family)
{
	if (!blocks.n || blocks.of->number != MANAGEMENT_BLOCK || blocks.of->index[family] < 0)
		return 0;
	return (uint32_t)blocks.of->index[family] + 1;
}

size_t steer_build(struct net_steer_list blocks, struct net_steer_list slots, unsigned int family,
		   struct sock_filter *prog)
{
	struct program p = { .insn = prog };
	uint32_t sockets = count_sockets(blocks, family);
	struct range range[STEER_BLOCKS];

	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, BTH_VERSION_AT));
	emit(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, BTH_VERSION_MASK, 0, 2));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, PROBE_POSITION_AT));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
	emit(&p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, BTH_BLOCK_AT));
	if (sockets)
		emit_management(&p, range, collect(slots, family, range, STEER_SLOTS),
				only_listener(slots, family), sockets);
	if (blocks.n && blocks.of->number == MANAGEMENT_BLOCK) {
		blocks.of++;
		blocks.n--;
	}
	emit_search(&p, range, collect(blocks, family, range, STEER_BLOCKS), 0);
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
