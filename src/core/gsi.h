/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of the host, the general services interface: management datagrams of communication management.
 *
 *	wire -> arrive.c -> vrb_gsi_input()		a MAD that came to any process of the host
 *	inbox -> drive.c -> vrb_gsi_handed()		one that another process has handed over
 *	vrb_gsi_send()					one that this process sends
 *
 * Each finds its process by what is in it (cm/stateless.h, host/service.h); what is for nobody is answered by
 * whoever finds that out, so exactly once.  To an address of this network namespace a MAD goes by memory,
 * unless VERBENA_TRANSPORT=udp.
 *
 * What shall happen later goes into a queue: MADs of this process to itself, whose callbacks must not run
 * inside each other, and those whose receiver's inbox is full.
 *
 * Locks: callbacks and vrb_gsi_input() to _expire() run under vrb.drive.  The queue's own lock is a leaf.
 */
#ifndef VRB_CORE_GSI_H
#define VRB_CORE_GSI_H

#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

enum { VRB_GSI_QPN = 1 };

struct roce_pkt;

/* Of verbs/mad.h. */
struct vrb_gsi_ops {
	void (*receive)(void *arg, const struct net_path *path, const uint8_t *mad, uint64_t now);
	void (*timeout)(void *arg, uint64_t now);
};

/* With the process, in vrb_drive_start and _stop; and in a forked child. start returns 0 or ENOMEM. */
int vrb_gsi_start(void);
void vrb_gsi_stop(void);
void vrb_gsi_forget(void);

/* Must hold vrb.drive. */
void vrb_gsi_input(const struct roce_pkt *pkt, uint64_t now);
void vrb_gsi_handed(const struct net_path *path, const uint8_t *mad, size_t len, uint64_t now);
void vrb_gsi_expire(uint64_t now);

/* The calls of verbs/mad.h, while the process is up. open returns EBUSY if there is a user. */
int vrb_gsi_open(const struct vrb_gsi_ops *ops, void *arg);
void vrb_gsi_close(void);
void vrb_gsi_arm(uint64_t at);
int vrb_gsi_send(const struct net_path *path, const uint8_t *mad);

/*
 * In the name of a process that has died.  Never by the wire to an address of this host: the dead one's sockets may still be open, and what
 * they get is lost.
 */
int vrb_gsi_send_for_dead(const struct net_path *path, const uint8_t *mad);
uint32_t vrb_gsi_comm_id(void);

#endif
