/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP wire: one IPv4 and one IPv6 socket bound to the wildcard address of the RoCEv2 port,
 * shared with the user's other processes of the same run directory by SO_REUSEPORT (claim.h
 * excludes others).
 *
 * Steering. The kernel distributes packets among the sockets of the port by a hash of addresses and
 * ports, which does not depend on the owner of the QP. With steer.h's program the kernel uses the
 * destination QP number instead. The program needs each process's position in the kernel's group,
 * and positions shift when a member leaves. So the caller:
 *
 *	1. calls udp_steer() with the published positions: a program must be installed, because it
 *	   steers probes, too;
 *	2. calls udp_probe(), which sends one packet per possible position to itself; they return
 *	   through wire_recv(), which consumes them;
 *	3. calls udp_position(), which then returns the position of this wire (a process may have
 *	   several);
 *	4. publishes it (host_publish_wire), collects the positions of all (host_steer_map) and
 *	   calls udp_steer() again.
 *
 * All four after opening; step 4 after the blocks of QP numbers have changed; steps 2 to 4 when
 * many packets came from the inbox, or others have left. With a stale program packets arrive at the
 * wrong process, which forwards them: others may overtake them, and its inbox may be full.
 */
#ifndef VRB_WIRE_UDP_H
#define VRB_WIRE_UDP_H

#include "wire/admit.h"
#include "wire/steer.h"
#include "wire/wire.h"

/*
 * Opens the wire. group: the group of processes with which it shares the port (host_group()); 0:
 * none. Returns 0, EADDRINUSE if the port is in use, EAFNOSUPPORT if there is neither IPv4 nor
 * IPv6, or another errno value.
 */
int udp_open(uint16_t port, uint64_t group, struct wire **out);

/* The same if processes of the group are known to hold the port: claims of others are forged. */
int udp_open_held(uint16_t port, uint64_t group, struct wire **out);

/* Logs one warning about the error of udp_open(), with advice. */
void udp_complain(uint16_t port, uint64_t group, int err);

/*
 * Opens a wire that sends from the port of a relay number, and receives what a holder of `port`
 * relays (wire/relay.h). Returns 0, EADDRINUSE if the number is not free, or another errno value.
 */
int udp_open_relayed(uint16_t port, unsigned int number, struct wire **out);

/*
 * A relayed wire binds its port. Its descriptors keep their numbers, but not what is watched: to
 * epoll(7) they are new. The caller receives from it, and then determines its positions as after
 * udp_open(). A packet that another thread is sending may be lost. The number stays taken. Errors
 * as of udp_open(), after which the wire is as before.
 */
int udp_take_port(struct wire *w, uint64_t group);

/*
 * Opens a further wire on the port of the process's first wire, which must outlive it. Failure is
 * harmless and not logged. The kernel delivers an ICMP message to any socket of the port, so all
 * wires record them in one place.
 */
int udp_open_beside(const struct wire *first, struct wire **out);

/*
 * Starts to determine the wire's positions among at most `members` in each group, and discards the
 * old ones. One thread at a time, but another may be in wire_recv(): an old probe that it receives
 * may still count until the next call.
 */
void udp_probe(struct wire *w, unsigned int members);

/* Returns the positions found so far, IPv4 and IPv6; -1: unknown. */
void udp_position(const struct wire *w, int32_t index[2]);

/* The wire has moved to another position, as its caller was told. Any thread. */
void udp_moved(struct wire *w, unsigned int family, int32_t index);

/*
 * Installs a steering program for the port, for all members. Ranges of blocks beyond STEER_BLOCKS
 * are steered by the kernel's hash. Returns 0 or an errno value. Not thread-safe: one call at a
 * time in a process.
 */
int udp_steer(struct wire *w, struct net_steer_list blocks, struct net_steer_list slots);

/*
 * Closes the wire's socket of a family, while wire.held is not set. wire_recv() then returns what
 * had come to it, at most a batch.
 */
void udp_end(struct wire *w, unsigned int family);

/*
 * Packets received since the socket was last found empty, of the family with more: how many the
 * receiver is behind, at least.
 */
uint32_t udp_backlog(const struct wire *w);

struct admit_rule;

/*
 * From now on the kernel lets connection requests in as the rule says (wire/admit.h); NULL: all.
 * What it drops counts in stats.recv_not_admitted while there is a rule.
 */
void udp_admit(struct wire *w, const struct admit_rule *rule);

#endif
