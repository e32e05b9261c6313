/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbours: where queue pairs meet the local transport.  A QP whose peer lives in another process of this host (or in this one) is
 * "near" it: its packets go by the peer's lane instead of the wire, its one-sided requests run in the peer's memory.
 *
 * vrb.local exists between vrb_near_start() and vrb_near_stop(), or not at all: then every QP is far.
 */
#ifndef VRB_CORE_NEAR_H
#define VRB_CORE_NEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "local/local.h"
#include "wq/qp.h"

struct vrb_qp;

/* Part of struct vrb_qp, under qp->lock. */
/* So many QPs at a time get datagrams without being looked for each time. */
enum { NEAR_ADDRESSEES = 16 };

struct vrb_near {
	struct local_peer *peer;	/* with a reference; NULL: far */
	uint64_t again;			/* when to look for a neighbour next */
	uint64_t retry;			/* the lane was full: send again then; VRB_NEVER if not */
	uint64_t full_since;		/* and nothing fitted into it since then; 0: it has room */
	uint32_t put_at;		/* how far the lane was filled when a packet of this QP was put there last */
	uint32_t asked_una;		/* an ack timeout has passed though the neighbour had taken all: the oldest PSN then */
	bool asked;			/* that has happened once since the last progress */
	uint64_t held_since;		/* unreliable: the neighbour is there, but not yet its QP; 0: not held */
	uint64_t far_at;		/* unreliable: when a packet went by the wire */
	uint32_t patience;		/* ms between looks */
	uint32_t pause;			/* us before the next try of a full lane */
	bool expected;			/* its process is a neighbour, its QP is not up yet */
	uint8_t published;		/* what neighbours know: bits 0-3 state, 4-5 mig_state, 7 whether it is established */
	int32_t from_slot;		/* slot whose packets this QP believes; HOST_NO_SLOT unknown */
	struct near_addressee {
		uint32_t qpn;
		struct local_peer *peer;	/* that has it, with a reference; NULL: empty */
	} to[NEAR_ADDRESSEES];		/* datagrams: by a few bits of the number */
};

int vrb_near_start(void);
void vrb_near_stop(void);
void vrb_near_forget(void);	/* in a forked child */

/* near_send.c: the neighbours that it remembers are given back; or not, in a forked child. */
void vrb_near_members_put(void);
void vrb_near_members_forget(void);

/* The QP's configuration was changed or it is going away: tells the neighbours, and forgets what was found out. Must hold qp->lock. */
void vrb_near_changed(struct vrb_qp *qp);
bool vrb_near_stale(const struct vrb_qp *qp);	/* do neighbours know of a state that is past? */
void vrb_near_drop(struct vrb_qp *qp);

/*
 * Drains the engine of a QP into its peer's lane; false if it is not near: use the wire. Must hold qp->lock.
 */
bool vrb_near_collect(struct vrb_qp *qp, uint64_t now);

/* Sends a packet that somebody else has built for this QP, as above. One that finds no room within a millisecond is lost. */
bool vrb_near_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now);

/* Sends one datagram to a neighbour; false: use the wire. Must hold qp->lock. */
bool vrb_near_datagram(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet,
		       uint32_t len, uint64_t now);

/* Must the next datagram wait for room in its receiver's lane? Then near.retry is set. Must hold qp->lock. */
bool vrb_near_waits(struct vrb_qp *qp, uint64_t now);

/*
 * Must what a connection has to say wait for its neighbour's QP, which has not come up yet?  An unreliable one waits, and any where there is no
 * other way. Then near.retry is set. Only after vrb_near_collect() returned false. Must hold qp->lock.
 */
bool vrb_near_holds(struct vrb_qp *qp, uint64_t now);

/* The peer says that it has migrated: to our alternate path, as far as its published address tells? Must hold qp->lock. */
bool vrb_near_migrated(struct vrb_qp *qp);

/*
 * Is it no sign of a loss that the QP's peer has not answered by now?  While its process lives and its QP listens nothing is lost on this way, however
 * long that gets no processor, or is stopped: what it has not taken it cannot answer.  `overdue`: the ack timeout has passed, else it is a
 * probe that would be sent. Must hold qp->lock.
 */
bool vrb_near_excuses(struct vrb_qp *qp, bool overdue, uint64_t now);

/* Is the QP near? Looks for its neighbour from time to time. Must hold qp->lock. */
bool vrb_near_find(struct vrb_qp *qp, uint64_t now);

/* A packet of the QP's peer has come from this neighbour: is it the process that the peer lives in? Must hold qp->lock. */
bool vrb_near_believes(struct vrb_qp *qp, int slot);

/* wq_ops of the local transport. */
unsigned int vrb_near_direct(struct wq_qp *wq, enum reason *why);
enum reason vrb_near_pull(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
			  uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			  enum mem_access access);

/*
 * Long payloads of SENDs, which both ends copy.  The receiver fetches `total` bytes to *to, pinned memory of that key, with the help of a
 * sender that polls: what local_pull() returns.  The sender helps when an offer comes.
 */
int vrb_near_pull_helped(struct vrb_qp *qp, const struct wq_pull *from, const struct wq_seg *to,
			 uint32_t key);
void vrb_near_help(const struct local_pkt *in);

/* The first bytes of a payload that stayed with its sender. */
enum reason vrb_near_peek(const struct wq_pull *from, const struct wq_seg *to);

#endif
