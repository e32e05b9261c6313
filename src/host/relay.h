/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Of a process that does not hold the RoCEv2 port, and has a relay number instead (util/net.h): its
 * QP numbers, and the services on which it listens. Packets reach it as wire/relay.h says. But a
 * request for a service names neither a QP nor a communication id of it: so the process binds for
 * each service the abstract UNIX name of port, service id and address, to which the holder of the
 * port passes requests on. The kernel keeps the names by network namespace, as it does ports, and
 * removes them with their process.
 *
 * Thread-safe, like host.h.
 */
#ifndef VRB_HOST_RELAY_H
#define VRB_HOST_RELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/net.h"

struct host;
struct host_datagram;

/*
 * Takes the QP numbers of a relay number, which the caller holds (udp_open_relayed()). Once, before
 * the process has QPs. Returns 0, EEXIST if another process of the table has some of them, or
 * another errno value.
 */
int host_relay_take(struct host *h, unsigned int number);

/* This process's number; 0: none. */
unsigned int host_relay_number(const struct host *h);

/* The slot of the live process of this table with the number; HOST_NO_SLOT: none. */
int host_relay_slot(struct host *h, unsigned int number);

/* The user whose processes may pass requests on: the holder of the port. Others' are discarded. */
void host_relay_trust(struct host *h, uid_t user);

/*
 * Listens for requests to a service at an address, zero: any; as often as it is called. Returns 0;
 * EADDRINUSE: another process that does not hold the port does; or another errno value.
 */
int host_relay_listen(struct host *h, uint16_t port, uint64_t service_id,
		      const struct net_addr *addr);
void host_relay_unlisten(struct host *h, uint64_t service_id, const struct net_addr *addr);

/*
 * Passes a request on to the process that listens for it by its relay number. Returns 0, also if it
 * is lost as on a network; ENOENT: there is none.
 */
int host_relay_request(struct host *h, uint16_t port, uint64_t service_id,
		       const struct net_path *path, const uint8_t *mad);

/* Readable when a request is pending, which host_inbox_recv_batch() returns; -1: no number. */
int host_relay_fd(const struct host *h);

#endif
