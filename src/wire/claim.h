/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds out which processes share a UDP port. The kernel lets all processes of a user join a port's
 * group, but one program steers for all: processes with different run directories would receive
 * each other's packets. So each process that shares a port claims it in its network namespace, and
 * processes of another group do not join, but let one that has claimed it relay packets
 * (host/relay.h).
 *
 * A claim is a listening abstract UNIX socket whose name contains port and group. The kernel lists
 * the names in /proc/net/unix and removes them with their process. If that file cannot be read, no
 * claim is found. Nobody accepts connections: they wait in the backlog, and end with the claim.
 * Those of processes that have ended wait, too, so the backlog may be full.
 */
#ifndef VRB_WIRE_CLAIM_H
#define VRB_WIRE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Returns a descriptor that holds the claim until it is closed; -1 with errno on failure, which
 * affects only processes of other groups.
 */
int claim_port(uint16_t port, uint64_t group);

/* Returns true if a process of another group has claimed the port. */
bool claim_of_others(uint16_t port, uint64_t group);

/*
 * Connects to a claim of another group, of the user who holds the port. Returns a descriptor, which
 * polls readable once the claim has ended, and the user; or -1 and errno:
 * ENOENT	nobody holds the port at the moment
 * EAGAIN	too many wait at the claims of its user, who is returned
 * EADDRINUSE	who holds it has no such claim
 * or why there is no socket.
 */
int claim_connect(uint16_t port, uint64_t group, uid_t *user);

#endif
