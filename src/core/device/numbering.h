/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The N of vrb<N> and uverbs<N>. An interface keeps its number as long as it exists, whatever
 * happens to its addresses or to other interfaces, and all processes that share the sysfs tree
 * agree. A new interface gets the lowest free number.
 *
 * The numbers are files numbers/IFINDEX.ORDINAL in the tree. Without a run directory they are
 * private to the process. Must hold vrb.lock from begin to end; begin also locks the tree.
 */
#ifndef VRB_CORE_DEVICE_NUMBERING_H
#define VRB_CORE_DEVICE_NUMBERING_H

#include <stdbool.h>
#include <stdint.h>

#include "run/netdev.h"

enum { VRB_NUMBERS = 1024 };

struct vrb_numbers {
	int lock;		/* -1: the tree is not writable */
	unsigned int n;
	struct vrb_number {
		uint32_t ifindex, ordinal, number;
	} row[VRB_NUMBERS];
};

/* Reads the kept numbers, and drops those of interfaces that are gone. */
void vrb_numbers_begin(struct vrb_numbers *t, const struct netdev *nds, unsigned int n);

/* The number of a device; `taken` says which numbers must not be given to a new one. */
uint32_t vrb_number_of(struct vrb_numbers *t, uint32_t ifindex, uint32_t ordinal,
		       bool (*taken)(uint32_t number));

void vrb_numbers_end(struct vrb_numbers *t);

#endif
