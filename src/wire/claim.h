/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes share a UDP port.  The kernel lets all processes of a user into a port's group,
 * but steers by one program: processes with different run directories would take each other's
 * packets.  So each process that shares a port shows so in its network namespace, where the port
 * is, and a second group stays out.
 *
 * A claim is an abstract UNIX socket whose name tells port and group; the kernel lists the names in
 * /proc/net/unix, and drops them with their process.  Where that cannot be read, no claim is seen.
 */
#ifndef VRB_WIRE_CLAIM_H
#define VRB_WIRE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns a descriptor that stands for the claim until it is closed; -1 if there is none: that
 * affects processes of other groups only.
 */
int claim_port(uint16_t port, uint64_t group);

/* Has a process of another group claimed the port? */
bool claim_of_others(uint16_t port, uint64_t group);

#endif
