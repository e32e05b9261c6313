/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes on which peers send to this process: finds new lanes, receives their packets and clears
 * those of dead senders. The lanes and their state belong to the receiving thread (vrb.poll_lock).
 * Private to src/local; local.h has the public part.
 */
#ifndef VRB_LOCAL_INBOUND_H
#define VRB_LOCAL_INBOUND_H

#include <stdbool.h>

struct local;

/* Returns true if local_recv() would find something. Must hold vrb.poll_lock. */
bool inbound_waits(struct local *l);

#endif
