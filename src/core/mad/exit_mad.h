/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit MADs of connections (host/exit_mad.h): MADs to send if a process dies. Keeps this process's
 * own, by communication id, and sends those of dead processes while it has a CM.
 *
 * The room's own lock is a leaf except for host's locks. Sending them takes vrb.poll_lock.
 */
#ifndef VRB_CORE_MAD_EXIT_MAD_H
#define VRB_CORE_MAD_EXIT_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"

/*
 * Must hold no lock. If the run directory cannot be watched, this process sends nothing for dead
 * ones.
 */
void vrb_exit_mad_start(void);
void vrb_exit_mad_stop(void);
void vrb_exit_mad_forget(void);	/* in a forked child */

/* Sets the MAD to send for a communication id; mad NULL removes it. */
void vrb_exit_mad_set(uint32_t comm_id, const struct net_path *path, const uint8_t *mad);

/*
 * A MAD of a communication id that waits for room in the inbox of the process in a slot, besides
 * the one set above. False: there is one already. *number: for vrb_exit_mad_del(); 0: no room.
 */
bool vrb_exit_mad_add(uint32_t comm_id, int slot, const struct net_path *path, const uint8_t *mad,
		      uint32_t *number);
void vrb_exit_mad_del(uint32_t number);	/* 0: does nothing */

#endif
