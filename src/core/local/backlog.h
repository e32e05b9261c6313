/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets for processes of this host that take nothing from their lanes, and for which no send
 * queue waits: datagrams that must not hold up those to other processes, and last answers of QPs
 * that have ended. A timer sends them, in order and before any other packet of their kind to the
 * same process, until that process has room or exits. A process that closes its device or exits
 * waits for that, for LIMIT_BACKLOG_LINGER_MS; then it is lost, but for progress words, which stay
 * readable.
 *
 * Its lock ranks below qp->lock and above those of src/local.
 */
#ifndef VRB_CORE_LOCAL_BACKLOG_H
#define VRB_CORE_LOCAL_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct local_peer;
struct net_path;

/* A packet without an ICRC. */
struct lane_packet {
	const struct net_path *path;	/* of a datagram; NULL: the packet is a connection's */
	const uint8_t *data;
	uint32_t len;
	uint8_t flags;			/* LANE_LOSSY or 0 */
	uint32_t ended_qpn;		/* while it waits, segment_end_qp() is in effect; 0: none */
};

extern size_t vrb_backlog_bytes;	/* atomic; written under the lock */

/* Sends what waits for the process. False: some still does. */
bool vrb_backlog_send(struct local_peer *peer);

/* Puts a packet into the lane. False: there is no room, or others wait before it. */
bool vrb_backlog_pass(struct local_peer *peer, const struct lane_packet *p);

/* Lets a packet wait. False: too many do, or there is no memory. */
bool vrb_backlog_add(struct local_peer *peer, const struct lane_packet *p);

/* Before the local transport ends, and in a forked child. */
void vrb_backlog_stop(void);
void vrb_backlog_forget(void);

#endif
