/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_CORE_PROCESS_WIRE_OPEN_H
#define VRB_CORE_PROCESS_WIRE_OPEN_H

/*
 * Opens vrb.wire: on the port, or else relayed to (core/progress/relayed.h). NULL: neither is
 * possible, which was logged. Before the rx queues are started. Returns 0, or EMFILE or ENFILE.
 */
int vrb_wire_open(void);

#endif
