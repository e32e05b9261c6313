/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the kernel's steering program right: that packets for this process's QPs arrive at its own
 * sockets. wire/udp.h has the steps, host/host.h what processes tell each other.  Everything under
 * vrb.drive.
 */
#ifndef VRB_CORE_STEER_H
#define VRB_CORE_STEER_H

#include <stdint.h>

/* The wire is open: probes for this process's position. The answers come with the next packets. */
void vrb_steer_start(void);

/* The process goes: says so, for those who stay. */
void vrb_steer_stop(void);

/* The process has its first, or no more, QP in the block of this number. */
void vrb_steer_qp_added(uint32_t qpn);
void vrb_steer_qp_removed(uint32_t qpn);

/* Packets were received: a probe may have been among them. Cheap while nothing is awaited. */
void vrb_steer_packets_seen(void);

/*
 * n packets came from other processes because the program sent them there. Probes again when that
 * goes on.
 */
void vrb_steer_misled(unsigned int n, uint64_t now);

#endif
