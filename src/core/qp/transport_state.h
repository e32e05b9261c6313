/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of struct vrb_qp for the rooms local, tx and raw. Under qp->lock.
 */
#ifndef VRB_CORE_QP_TRANSPORT_STATE_H
#define VRB_CORE_QP_TRANSPORT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/message.h"
#include "local/onesided.h"
#include "util/list.h"

struct local_peer;
struct seg_qp;

/* For tx/transmit.h: how urgently a QP must transmit. */
enum tx_urgency {
	TX_NOTHING,
	TX_SOON,	/* an ACK, or a timer to arm: may be delayed */
	TX_NOW,
};

/* For raw/raw_tx.h: the part of the request at the head of the queue that has been sent. */
struct vrb_raw_begun {
	uint32_t index;		/* the request; the rest is valid only while it is at the head */
	uint32_t offset;	/* sent payload bytes of a segmented send */
	uint32_t progress;	/* of the next frame; see struct raw_out */
};

/* Part of struct vrb_peer, under qp->lock. */
struct vrb_keepalive {
	/* probes sent from this time on cover the packets in flight; 0: none wanted */
	uint64_t asked_at;
	uint64_t heard_at;	/* when the first answer to one arrived; 0: not yet */
	uint32_t una;		/* oldest unacknowledged PSN at asked_at */
};

/* For local/peer_link.h: number of cached datagram destinations. */
enum { UD_DESTS = 16 };

struct ud_dest {
	uint32_t qpn;
	struct local_peer *peer;	/* has the QP; holds a reference; NULL: none */
	uint64_t missed_since;		/* NULL: when that was seen first; 0: the entry is empty */
};

struct vrb_peer {
	struct local_peer *process;	/* holds a reference; NULL: the QP uses the wire */
	/* For peer_word.h: */
	const struct seg_qp *entry;	/* RC, UC: the peer's QP, in the segment of `process` */
	struct onesided_target target;	/* what that entry permits */
	uint64_t *word;			/* our own progress word; NULL: not published */
	bool word_used;			/* on this connection */
	bool word_behind;		/* an ACK was left to the next one */
	struct message_sender sender;	/* in the queue of `process`; under its lock */
	uint64_t lookup_at;			/* when to look up the peer next */
	/* when to retry transmission to a full lane or a missing peer; VRB_NEVER: no retry */
	uint64_t retry_at;
	bool answers_wait;		/* for room in it; published */
	struct list kept;		/* of struct kept_packet, which wait for room in it */
	unsigned int n_kept;
	/* head of the lane after this QP's last packet */
	uint32_t tx_head;
	/* oldest unacknowledged PSN when an ack timeout was last deferred */
	uint32_t deferred_una;
	bool deferred;			/* deferred_una is valid */
	bool lossy;			/* the peer's last packet was LANE_LOSSY */
	/* UC: since when the QP has been waiting for its peer's QP; 0: not waiting */
	uint64_t rtr_wait_since;
	/* when a packet last left by the wire, or a datagram came by it; 0: never */
	uint64_t wire_at;
	uint32_t lookup_backoff_ms;		/* between lookups */
	uint8_t prompt_lookups;			/* lookups without a backoff since RTS */
	uint32_t retry_backoff_us;			/* before the next retry of a full lane */
	/* the peer's address is on this host, but its QP is not up yet */
	bool rtr_expected;
	/* published state: bits 0-3 state, 4-5 mig_state, 7 established */
	uint8_t published;
	uint16_t granted;		/* the published rights, IBV_ACCESS_REMOTE_* */
	uint16_t plain;		/* see peer_message.h; 0: output is left to the engine */
	struct vrb_keepalive keepalive;		/* probe to the process of a peer on the wire */
	int32_t slot;		/* slot of the peer's process; HOST_NO_SLOT: unknown */
	/* cached datagram destinations, UD_DESTS places hashed by QP number; NULL: not UD */
	struct ud_dest *ud;
};

#endif
