/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports the state of this process to `verbena ps`, `top` and `doctor`.
 *
 * The progress thread watches a listening socket "sNNNN.query" in the run directory. A client that
 * connects receives one byte and the descriptor of a memory file with one JSON object; then the
 * connection closes. Nothing is collected before a client connects. A dead process does not listen,
 * the directory's mode excludes other users, and without a progress thread or a descriptor there is
 * no reply.
 */
#ifndef VRB_CORE_DIAG_INTROSPECT_H
#define VRB_CORE_DIAG_INTROSPECT_H

/* Call start while vrb.host and vrb.progress exist. If it fails, clients get no reply. */
void vrb_introspect_start(void);
void vrb_introspect_stop(void);	/* must hold no lock that the progress thread takes */
void vrb_introspect_forget(void);	/* in a forked child */

#endif
