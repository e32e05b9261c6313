/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the network lately said about packets to an address: errors of sending them, and ICMP messages
 * about them.  It loses them all the same; this only explains, to those who give up, why.  Any
 * thread; takes a lock of its own, a leaf.
 */
#ifndef VRB_WIRE_TROUBLE_H
#define VRB_WIRE_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum { TROUBLES = 16 };	/* addresses; the oldest goes first */

#define TROUBLE_MEMORY (10 * VRB_SECOND)

struct trouble {
	struct lock lock;
	bool any;		/* atomic: there was one */
	unsigned int next;
	struct {
		struct net_addr dst;
		uint64_t at;
		int err;
	} last[TROUBLES];
};

void trouble_init(struct trouble *t);
void trouble_note(struct trouble *t, const struct net_addr *dst, int err, uint64_t now);

/* The newest errno value about dst, 0: none in TROUBLE_MEMORY. */
int trouble_about(struct trouble *t, const struct net_addr *dst, uint64_t now);

#endif
