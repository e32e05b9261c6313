/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steering program: classic BPF for SO_ATTACH_REUSEPORT_CBPF that maps the destination QP
 * number of a packet to the position of its owner's socket in the reuseport group.  A pure function
 * from a table to instructions.
 *
 * Result for a UDP payload (offset 0 = first BTH byte):
 *
 *	BTH version (low half of byte 1) is not 0	a steering probe: the position is the 16-bit
 *							number in bytes 8, 9
 *	bytes 5, 6 (high 16 bits of the QP number)	binary search in the blocks of the table:
 *							the position of the block's owner
 *	not found					no position: the kernel uses its hash
 *	block 0, of QP 1				MRA to DREP: the owner of the slot in the
 *							remote communication id; REQ, SIDR_REQ: the
 *							only process that listens; others, or not
 *							found: a random position up to the last
 */
#ifndef VRB_WIRE_STEER_H
#define VRB_WIRE_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

struct sock_filter;

enum {
	/* ranges in one program; adjacent blocks of one owner form one range */
	STEER_BLOCKS = 512,
	STEER_SLOTS = 96,
	STEER_INSNS = 4096,	/* the kernel's limit, and the size of the caller's array */
	STEER_NOWHERE = 0xffffffff,
	STEER_PROBE_LEN = 32,
};

/*
 * Builds the program for one family (0 IPv4, 1 IPv6) from blocks and slots. Returns its length,
 * 1..STEER_INSNS.
 */
size_t steer_build(struct net_steer_list blocks, struct net_steer_list slots, unsigned int family,
		   struct sock_filter *prog);

/* Makes a probe, which is steered to `position`; its sender recognises it by the nonce. */
void steer_probe_make(uint8_t buf[STEER_PROBE_LEN], uint16_t position, uint64_t nonce);

/*
 * Returns true if the packet is a probe; then *mine tells whether it carries the nonce, and
 * *position where it was steered to.
 */
bool steer_probe_read(const uint8_t *data, size_t len, uint64_t nonce, bool *mine,
		      uint16_t *position);

#endif
