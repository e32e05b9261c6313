/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lanes by which neighbours send to us: noticing new ones, taking packets off them, clearing those of the dead.  The lanes and what is
 * known of their senders belong to the one thread that receives (vrb.drive).  Offers more to the rest of the transport than local.h tells.
 */
#ifndef VRB_LOCAL_INBOUND_H
#define VRB_LOCAL_INBOUND_H

#include <stdbool.h>

struct local;

/* Would local_recv() find something? Must hold vrb.drive. */
bool inbound_waits(struct local *l);

#endif
