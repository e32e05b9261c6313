/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of the host, the general services interface, for the MADs of communication management.
 *
 *	wire -> demux.c -> vrb_gsi_input()		a MAD that any process of the host received
 *	inbox -> poll_loop.c -> vrb_gsi_handed()		a MAD passed on by another process
 *	vrb_gsi_send()					a MAD from this process
 *
 * The content of a MAD determines its process (cm/stateless.h, host/service.h). If there is none,
 * the process that finds this out replies, so there is exactly one reply. MADs between a process
 * that holds the UDP port and one that does not take the wire. Any other to an address of
 * this network namespace goes through memory, unless VERBENA_TRANSPORT=udp.
 *
 * A queue holds MADs of this process to itself, because callbacks must not nest, and MADs for full
 * inboxes.
 *
 * Locks: callbacks, vrb_gsi_input() and vrb_gsi_handed() run under vrb.poll_lock. The queue's own
 * lock is a leaf.
 */
#ifndef VRB_CORE_MAD_GSI_H
#define VRB_CORE_MAD_GSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cm/shown.h"
#include "util/net.h"

struct roce_pkt;

/* See verbs/mad.h. */
struct vrb_gsi_ops {
	void (*receive)(void *arg, const struct net_path *path, const uint8_t *mad, uint64_t now);
	void (*timeout)(void *arg, uint64_t now);
	void (*ids)(void *arg, cm_show_fn fn, void *to);
};

/* Called by vrb_progress_start() and _stop(), and in a forked child. start returns 0 or ENOMEM. */
int vrb_gsi_start(void);
void vrb_gsi_stop(void);
void vrb_gsi_forget(void);

/*
 * Must hold vrb.poll_lock. vrb_gsi_handed() returns true if the MAD came by the wire and the
 * steering program should have led it here.
 */
void vrb_gsi_input(const struct roce_pkt *pkt, uint64_t now);
bool vrb_gsi_handed(const struct net_path *path, const uint8_t *mad, size_t len, uint64_t now);

/* A request that a holder of the UDP port has relayed (host/relay.h). Must hold vrb.poll_lock. */
void vrb_gsi_relayed(const struct net_path *path, const uint8_t *mad, uint64_t now);

/*
 * True once after a MAD was repeated by the wire: its answer may have been led to a stopped
 * process.
 */
bool vrb_gsi_unanswered(void);

/*
 * The calls of verbs/mad.h, while the process is up. open returns EBUSY if there is a user already.
 */
int vrb_gsi_open(const struct vrb_gsi_ops *ops, void *arg);
void vrb_gsi_close(void);
void vrb_gsi_arm(uint64_t at);
int vrb_gsi_send(const struct net_path *path, const uint8_t *mad);

/* A MAD to whoever holds the UDP port there, without a look at its content. */
void vrb_gsi_send_by_wire(const struct net_path *path, const uint8_t *mad);

/*
 * Sends a MAD, as one that has come on `path`, to the process with a relay number. False: there is
 * none, or this process relays nothing.
 */
bool vrb_gsi_relay(const struct net_path *path, const uint8_t *mad, unsigned int number);

/* Calls fn for each communication id of the user, if there is one. Must hold vrb.poll_lock. */
void vrb_gsi_ids(cm_show_fn fn, void *to);

/*
 * Sends for a process that has died. A MAD for this host never takes the wire: the dead process's
 * sockets may still be open and would swallow it. Returns EAGAIN if too many wait for room; then
 * the caller must repeat it.
 */
int vrb_gsi_send_for_dead(const struct net_path *path, const uint8_t *mad);

#endif
