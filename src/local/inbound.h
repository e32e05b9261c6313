/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lanes by which peers send to this process: finds new ones, takes packets, clears those of
 * dead senders. Lanes and their state belong to the one thread that receives (vrb.poll_lock). For
 * the files of this transport, beyond local.h.
 */
#ifndef VRB_LOCAL_INBOUND_H
#define VRB_LOCAL_INBOUND_H

#include <stdbool.h>

struct local;

/* True if local_recv() would find something. Must hold vrb.poll_lock. */
bool inbound_waits(struct local *l);

#endif
