/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recent network errors by destination: send errors and ICMP messages. They only explain why a QP
 * gives up. Any thread; takes its own lock, a leaf.
 */
#ifndef VRB_WIRE_PATH_ERRORS_H
#define VRB_WIRE_PATH_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/lock.h"
#include "util/net.h"
#include "util/time.h"

enum { PATH_ERRORS = 16 };	/* addresses; a new one replaces the oldest */

#define PATH_ERRORS_MAX_AGE (10 * VRB_SECOND)

struct path_errors {
	struct lock lock;
	bool any;		/* atomic: an error was recorded */
	unsigned int next;
	struct {
		struct net_addr dst;
		uint64_t at;
		int err;
	} last[PATH_ERRORS];
};

void path_errors_init(struct path_errors *t);
void path_errors_note(struct path_errors *t, const struct net_addr *dst, int err, uint64_t now);

/* Returns the latest errno value for dst; 0: none within PATH_ERRORS_MAX_AGE. */
int path_errors_latest(struct path_errors *t, const struct net_addr *dst, uint64_t now);

#endif
