/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of all processes that share a UDP port are a reuseport group per address family; a
 * steering program gives each packet to the position in it of the process that owns the QP or
 * communication id. Here the processes of a host publish their positions, and learn those of the
 * others. wire/udp.h has the order of these steps.
 *
 * Thread-safe, like host.h, except host_holds_port(), host_steer_map() and host_steer_slots().
 */
#ifndef VRB_HOST_STEER_H
#define VRB_HOST_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/host.h"
#include "util/net.h"

/*
 * Has another live process of this one's table and network namespace published the port? Conditions
 * as of host_steer_map().
 */
bool host_holds_port(struct host *h, uint16_t udp_port);

/* Publishes this process's UDP port and socket positions; port 0: it has closed them. */
void host_publish_wire(struct host *h, uint16_t udp_port, const struct host_steer *steer);

/*
 * Between these calls no other process builds and installs a steering program for its port, so that
 * none of the programs is older than what their builders have published before. Waits; false: a
 * process that has begun does not end, because it is stopped, and the caller goes on all the same.
 */
bool host_steer_begin(struct host *h);
void host_steer_end(struct host *h);

/*
 * Stores the blocks of all processes that share this one's UDP port and network namespace, in
 * ascending order; the first is block 0. Returns their number, at most cap. This and the next: one
 * thread at a time.
 */
size_t host_steer_map(struct host *h, struct net_steer *map, size_t cap);

/* The same of their slots, for communication ids. */
size_t host_steer_slots(struct host *h, struct net_steer *map, size_t cap);

/*
 * A socket of this process, at position m->to, is about to be closed, and its position is withdrawn
 * already: the last socket of its group takes its place, from m->from, which this stores. Publishes
 * that for the process that has it, and returns its slot; HOST_NO_SLOT: none moves, as far as is
 * known. Call it, and close the socket, between host_steer_begin() and host_steer_end().
 */
struct host_move {
	uint32_t family;	/* 0: IPv4, 1: IPv6 */
	int32_t from, to;	/* positions */
};
int host_steer_closes(struct host *h, struct host_move *m);

/*
 * Tells the process in a slot that one of its sockets has moved: one that leaves knows first. Does
 * not wait. Returns 0, ENOENT if there is no such process, or EAGAIN if its inbox is full.
 */
int host_send_move(struct host *h, int slot, const struct host_move *m);

#endif
