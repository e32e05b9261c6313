/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Demultiplexes received packets: ICRC -> decode -> QP lookup -> path check -> engine. Then puts
 * the QP on the RX queue's `scheduled` list, so that core/tx/tx_sched.h sends one ACK for all
 * packets of the round. All callers hold the RX queue's lock.
 */
#ifndef VRB_CORE_RX_DEMUX_H
#define VRB_CORE_RX_DEMUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tx/transmit.h"

struct local_input;
struct net_path;
struct roce_pkt;
struct vrb_qp;
struct vrb_rx_queue;

/* A decoded packet, and its bytes including the ICRC or room for it. */
struct rx_decoded {
	const struct roce_pkt *pkt;
	const uint8_t *data;
	size_t len;
	bool wire;
	bool message;		/* data is not the packet, but a message that stands for it */
	bool tapped;		/* base/tap.h has seen it */
};

struct rx_packet {
	const struct net_path *path;
	const uint8_t *data;
	size_t len;
	bool id_known;
	uint16_t ip_id;
	bool handed;		/* forwarded by another process; never forwarded again */
	/*
	 * as many more of the same length and path follow it in memory, with the identifications
	 * after its own
	 */
	unsigned int more;
};

/*
 * Processes a packet from the wire, or one forwarded by another process, and those behind it that
 * form a run with it. Returns how many.
 */
unsigned int vrb_rx_packet(const struct rx_packet *a, struct vrb_rx_queue *r, uint64_t now);

/*
 * Executes a packet that has passed the checks of its path and base/tap.h, in the process that is
 * to. Must hold the RX queue's lock and qp->lock.
 */
void vrb_rx_deliver(struct vrb_qp *qp, const struct rx_decoded *raw, struct vrb_rx_queue *r,
		    uint64_t now);

/* Executes a request on the QP in this process. Must hold qp->lock. */
void vrb_rx_execute(struct vrb_qp *qp, const struct roce_pkt *pkt, struct vrb_rx_queue *r,
		    uint64_t now);

/*
 * For local_recv(): processes packets and messages from lanes, on the main RX queue. The argument
 * points to the current time, a uint64_t.
 */
extern const struct local_input vrb_rx_local;

/*
 * Completes messages that peers have executed (local/peer_word.h). Returns the number of QPs that
 * were checked. Must hold vrb.poll_lock; call after local_recv(), too.
 */
unsigned int vrb_rx_words(uint64_t now);

/*
 * Call after packets came by another way than a lane, and before they run: a peer on this host may
 * have executed a message before it caused them, and that message completes first. Must hold
 * r->lock.
 */
void vrb_rx_complete_before(struct vrb_rx_queue *r, uint64_t now);

#endif
