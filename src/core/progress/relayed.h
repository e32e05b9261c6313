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
 * Opens vrb.wire: on the port, or else relayed to. NULL: neither is possible, which was logged.
 * Before the rx queues are started. Returns 0, or EMFILE or ENFILE.
 */
int vrb_wire_open(void);

/* Follows the holders of the port, from now on. Returns 0 or an errno value. */
int vrb_relayed_start(void);

/* Must hold no lock: it waits for the progress thread. */
void vrb_relayed_stop(void);

/* In a forked child. */
void vrb_relayed_forget(void);

#endif
