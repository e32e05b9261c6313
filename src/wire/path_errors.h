/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recent network errors by destination: errors of sending, and ICMP messages. The packets are lost
 * all the same; this only explains why a QP gives up.  Any thread; takes a lock of its own, a leaf.
 */
#ifndef VRB_WIRE_PATH_ERRORS_H
#define VRB_WIRE_PATH_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum { PATH_ERRORS = 16 };	/* addresses; the oldest goes first */

#define PATH_ERRORS_MAX_AGE (10 * VRB_SECOND)

struct path_errors {
	struct lock lock;
	bool any;		/* atomic: there was one */
	unsigned int next;
	struct {
		struct net_addr dst;
		uint64_t at;
		int err;
	} last[PATH_ERRORS];
};

void path_errors_init(struct path_errors *t);
void path_errors_note(struct path_errors *t, const struct net_addr *dst, int err, uint64_t now);

/* The newest errno value about dst, 0: none in PATH_ERRORS_MAX_AGE. */
int path_errors_latest(struct path_errors *t, const struct net_addr *dst, uint64_t now);

#endif
