/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Relayed packets. A process that cannot bind the RoCEv2 port, because another user or run
 * directory has it, binds the UDP port of a free relay number (util/net.h). A holder of the RoCEv2
 * port that receives a packet for a QP or communication id with this number sends it on over
 * loopback, by IPv4 where there is IPv4, behind a head with the path on which it came. Only a
 * holder can send from the RoCEv2 port of that family, and nobody from another host can send from
 * 127.0.0.1 or ::1: so what comes from there is genuine.
 */
#ifndef VRB_WIRE_RELAY_H
#define VRB_WIRE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

struct wire;
struct wire_pkt;
union udp_sockaddr;

/* The UDP port of a relay number. */
uint16_t relay_port(unsigned int number);

/* The relay number of a packet's sender, which is on this host; 0: it has none. */
unsigned int relay_number_of(const struct net_path *path);

/* The path of what a relayed process and a holder of `port` say to each other, over loopback. */
struct net_path relay_path(const struct wire *w, uint16_t src_port, uint16_t dst_port);

/* Do relayed packets go there? */
bool relay_is_at(const struct net_addr *dst, uint16_t port);

/*
 * Sends a packet, which has arrived on `path`, to the process with this number. Returns 0; ENOENT:
 * this process relays nothing, it is no number or its own or, if `look` is set, there is no such
 * process, as far as is known at once, for two more system calls; or the error of the socket. The
 * packet may be lost, as on a network. Any thread.
 */
int relay_packet(struct wire *w, unsigned int number, const struct net_path *path,
		 const void *data, size_t len, bool look);

/*
 * Of a packet that a relayed wire has received, takes off the head and restores the path. False: it
 * is not intact, or its sender does not hold the port.
 */
bool relay_unwrap(const struct wire *w, struct wire_pkt *pkt);

#endif
