/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the kernel's steering program right: that packets for this process's QPs arrive at its own
 * sockets. wire/udp.h has the steps, host/host.h what processes tell each other.  Everything under
 * vrb.drive, unless it says otherwise.
 */
#ifndef VRB_CORE_STEER_H
#define VRB_CORE_STEER_H

#include <stdint.h>

struct vrb_receiver;

/* The wire is open: probes for this process's position. The answers come with the next packets. */
void vrb_steer_start(void);

/* Probes for the positions of all receivers: there are more of them, or they may have moved. */
void vrb_steer_probe(void);

/* The process goes: says so, for those who stay. */
void vrb_steer_stop(void);

/* The process has its first, or no more, QP in the block of this number. */
void vrb_steer_qp_added(uint32_t qpn);
void vrb_steer_qp_removed(uint32_t qpn);

/*
 * The receiver has taken packets: a probe may have been among them. Cheap while nothing is awaited. Must hold the receiver's lock only; takes
 * vrb.drive, unless it is that.
 */
void vrb_steer_packets_seen(struct vrb_receiver *r);

/*
 * n packets came from other processes, or to another receiver, because the program sent them there. Probes again when that
 * goes on.
 */
void vrb_steer_misled(unsigned int n, uint64_t now);

#endif
