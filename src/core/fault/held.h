/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that faults have taken out of the stream and that come back later: copies, late ones, and
 * those that others overtake. Owns them, under a leaf lock, and a timer descriptor that the
 * progress thread watches.
 */
#ifndef VRB_CORE_FAULT_HELD_H
#define VRB_CORE_FAULT_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "fault/rule.h"

struct net_path;
struct tap_packet;

/* Call start while vrb.progress exists. */
void vrb_held_start(void);
void vrb_held_stop(void);	/* must hold no lock; packets are lost */
void vrb_held_forget(void);	/* in a forked child */

/*
 * Keeps a copy until `due`, or until `overtake` others of the QP in this direction have passed,
 * if that is not 0. False: out of memory, the packet is not kept. Must hold qp->lock.
 */
bool vrb_held_keep(const struct tap_packet *p, enum fault_direction direction, uint64_t due,
		   uint64_t overtake);

/* The same of a message of communication management. Any locks of level 3 and below. */
bool vrb_held_keep_mad(const struct net_path *path, const uint8_t *mad,
		       enum fault_direction direction, uint64_t due);

/* A packet of the QP passes. Must hold qp->lock. */
void vrb_held_overtaken(uint32_t qpn, enum fault_direction direction);

/* Puts those that are due back into the stream. Must hold no lock. */
void vrb_held_release(void);

/* The same with all of them, due or not. */
void vrb_held_release_all(void);

/* In this thread, for this packet: it was held and comes back, so that no rule looks at it. */
extern __thread bool vrb_held_returns;

#endif
