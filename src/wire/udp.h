/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP wire: one IPv4 and one IPv6 socket bound to the wildcard address of the RoCEv2 port,
 * shared with the user's other processes of the same run directory by SO_REUSEPORT (claim.h keeps
 * others out).
 *
 * Steering.  The kernel spreads packets over the sockets of the port by a hash of addresses and
 * ports, which says nothing about which process owns the QP.  steer.h's program makes the kernel
 * look at the destination QP number instead.  It needs to know each process's position in the
 * kernel's group, and positions shift when a member leaves.  So the caller:
 *
 *	1. udp_steer() with what is published: some program must be there, for it steers probes,
 *	   too;
 *	2. udp_probe() sends one packet per possible position to itself; they come back through
 *	   wire_recv(), which keeps them;
 *	3. udp_position() then tells where this wire is (a process may have several);
 *	4. publishes that (host_publish_wire), collects those of all (host_steer_map) and calls
 *	   udp_steer() again.
 *
 * All four after opening; 4 after the blocks of QP numbers have changed; 2 to 4 when many packets
 * came from the inbox. A stale program makes packets arrive at the wrong process, which hands them
 * on: it costs time and never a packet.
 */
#ifndef VRB_WIRE_UDP_H
#define VRB_WIRE_UDP_H

#include "wire/admit.h"
#include "wire/steer.h"
#include "wire/wire.h"

/*
 * Opens it.  group: of the processes with which it shares the port (host_group()); 0: with none.
 * Returns 0, EADDRINUSE if the port is in use, EAFNOSUPPORT if there is neither IPv4 nor IPv6, or
 * another errno value.  Logs one warning if it fails.
 */
int udp_open(uint16_t port, uint64_t group, struct wire **out);

/*
 * Another one on the port of the process's first, which outlives it: it is no loss if that fails,
 * and nothing is logged.  The kernel gives an ICMP message to any socket of the port, whichever has
 * sent what it is about, so they all note them in one place.
 */
int udp_open_beside(const struct wire *first, struct wire **out);

/*
 * Starts finding out the wire's positions among at most `members` in each group, and forgets what
 * was known.  One thread at a time, but another one may be in wire_recv(): a probe of before that
 * it finds may then still count, until the next time.
 */
void udp_probe(struct wire *w, unsigned int members);

/* Positions found so far, IPv4 and IPv6; -1 unknown. */
void udp_position(const struct wire *w, int32_t index[2]);

/*
 * Installs a steering program for the port, for all members. Returns 0 or an errno value; blocks
 * beyond STEER_BLOCKS are left to the hash. Not thread-safe: one call at a time in a process.
 */
int udp_steer(struct wire *w, const struct net_steer *blocks, size_t n);

enum { UDP_FULL = 256 };

/*
 * How full the receive buffers are, of UDP_FULL.  The kernel counts out late what was received, by
 * a quarter of the buffer, but never while it is empty.
 */
unsigned int udp_fill(const struct wire *w);

/*
 * From now on the kernel lets `keep` of ADMIT_ALL connection requests into the receive buffer
 * (wire/admit.h).  What it drops counts in stats.recv_not_admitted while that is fewer than all.
 */
void udp_admit(struct wire *w, unsigned int keep);

#endif
