/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wills of connections (host/will.h): this process's own, by communication ids, and those of the dead, which
 * it executes while it manages connections.
 *
 * Lock: one of its own, a leaf but for host's.  Executing takes vrb.drive.
 */
#ifndef VRB_CORE_WILL_H
#define VRB_CORE_WILL_H

#include <stdint.h>

#include "util/net.h"

/* Must hold no lock. Where the run directory cannot be watched, nobody here speaks for the dead. */
void vrb_will_start(void);
void vrb_will_stop(void);
void vrb_will_forget(void);	/* in a forked child */

/* What shall be said for a communication id; mad NULL: nothing any more. */
void vrb_will_set(uint32_t comm_id, const struct net_path *path, const uint8_t *mad);

#endif
