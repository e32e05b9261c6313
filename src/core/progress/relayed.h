/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The wire of a process whose UDP port belongs to another user or run directory: it has a relay
 * number (wire/relay.h, host/relay.h) and a connection to the claim of a process that holds the
 * port (wire/claim.h). When that ends, it connects to another holder, or else binds the port
 * itself.
 */
#ifndef VRB_CORE_PROGRESS_RELAYED_H
#define VRB_CORE_PROGRESS_RELAYED_H

/*
 * Connects to the claim of a holder. Returns 0 or why it is not connected (wire/claim.h). Before
 * vrb_relayed_start().
 */
int vrb_relayed_connect(void);

/* Follows the holders of the port, from now on. Returns 0 or an errno value. */
int vrb_relayed_start(void);

/* Must hold no lock: it waits for the progress thread. */
void vrb_relayed_stop(void);

/* In a forked child, or before the start: ends the connection. */
void vrb_relayed_forget(void);

#endif
