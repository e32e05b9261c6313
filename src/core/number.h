/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The numbers of devices, vrb<N> and uverbs<N>: an interface keeps its number for as long as it exists, whatever becomes of its addresses and of
 * other interfaces, and all processes that share the files of sysfs.h agree.  New ones get the lowest that is free, in the order of interfaces.
 *
 * The numbers are files of the tree, numbers/IFINDEX.ORDINAL; where there is none (no run directory), they are the process's own.  Must hold
 * vrb.lock from begin to end; between them the tree is locked as well.
 */
#ifndef VRB_CORE_NUMBER_H
#define VRB_CORE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "run/netdev.h"

enum { VRB_NUMBERS = 1024 };

struct vrb_numbers {
	int lock;		/* -1: the tree cannot be written to */
	unsigned int n;
	struct vrb_number {
		uint32_t ifindex, ordinal, number;
	} row[VRB_NUMBERS];
};

/* Reads what is kept, and forgets what is of interfaces that are gone. */
void vrb_numbers_begin(struct vrb_numbers *t, const struct netdev *nds, unsigned int n);

/* Of a device of an interface; `taken` says which numbers must not be given to a new one. */
uint32_t vrb_number_of(struct vrb_numbers *t, uint32_t ifindex, uint32_t ordinal, bool (*taken)(uint32_t number));

void vrb_numbers_end(struct vrb_numbers *t);

#endif
