/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers on the same host. If a QP's peer belongs to this or another process of this host, the QP's
 * packets use the lane to that process instead of the wire, and its one-sided requests access the
 * peer's memory directly.
 *
 * vrb.local is set between vrb_local_start() and vrb_local_stop(). If it stays NULL, every QP uses
 * the wire.
 */
#ifndef VRB_CORE_LOCAL_PEER_LINK_H
#define VRB_CORE_LOCAL_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/local/keepalive.h"
#include "core/qp/qp.h"
#include "core/qp/transport_state.h"
#include "local/local.h"
#include "util/compiler.h"
#include "wq/qp.h"

int vrb_local_start(void);
void vrb_local_stop(void);
void vrb_local_forget(void);	/* in a forked child */

/* peer_tx.c: release the cached local processes; in a forked child, only forget them. */
void vrb_peer_members_put(void);
void vrb_peer_members_forget(void);

/*
 * vrb_peer_publish() publishes the QP's configuration after a change, vrb_peer_drop() withdraws it.
 * Both release the peer where it may have changed. Must hold qp->lock.
 */
void vrb_peer_publish(struct vrb_qp *qp);
void vrb_peer_drop(struct vrb_qp *qp);

/*
 * The value of vrb_peer.published: the QP state, the path migration state, and whether the
 * connection is established.
 */
static inline uint8_t vrb_peer_publication(const struct vrb_qp *qp)
{
	return qp->wq.state | qp->wq.mig_state << 4 | (roce_is_established(&qp->roce) ? 0x80 : 0);
}

/* Is the published state out of date? */
static inline bool vrb_peer_unpublished(const struct vrb_qp *qp)
{
	return qp->peer.published != vrb_peer_publication(qp);
}

/*
 * Moves the engine's packets into the peer's lane. False: the QP has no peer on this host; use the
 * wire. Must hold qp->lock.
 */
bool vrb_peer_tx(struct vrb_qp *qp, uint64_t now);

/*
 * As vrb_peer_tx(), for a packet that the engine did not build now: another process has, or it
 * replaces the progress word. If the lane has no room for a millisecond, the packet is kept, and
 * leaves before all other output, as soon as there is room: peer.retry_at. Where too many are kept,
 * it is lost.
 */
bool vrb_peer_tx_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now);

/* Loses the packets that are kept. */
void vrb_peer_drop_kept(struct vrb_peer *p);

/*
 * For a QP that ends: what waits for room, the packets that are kept and a pending ACK, goes on
 * waiting without it (backlog.h), and with it the QP's entry if its word is of use. False: there is
 * none, or no room for it. Must hold qp->lock.
 */
bool vrb_peer_leave_answers(struct vrb_qp *qp, bool word);

/* Sends a datagram to a process of this host. False: use the wire. Must hold qp->lock. */
bool vrb_peer_tx_ud(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet,
		       uint32_t len, uint64_t now);

/*
 * Must the next datagram wait for room in its lane? If so, sets peer.retry_at. If nothing has been
 * taken from the lane for LIMIT_LANE_STUCK_MS, it waits only if no request for another QP waits
 * behind it. Must hold qp->lock.
 */
bool vrb_peer_lane_full(struct vrb_qp *qp, uint64_t now);

/*
 * Do answers wait for room in the peer's lane, or would the ACK that replaces the QP's progress
 * word? If so, *taken grows with each slot that the peer has taken. Must hold qp->lock.
 */
bool vrb_peer_answers_wait(const struct vrb_qp *qp, uint64_t *taken);

/*
 * Must a connection wait until its peer's QP reaches RTR? UC waits, and so does every type if
 * there is no wire. If so, sets peer.retry_at. Call only after vrb_peer_tx() returned false. Must
 * hold qp->lock.
 */
bool vrb_peer_wait_for_rtr(struct vrb_qp *qp, uint64_t now);

/*
 * Does the peer's published address confirm that it has migrated to our alternate path? Must hold
 * qp->lock.
 */
bool vrb_peer_migrated(struct vrb_qp *qp);

/*
 * Is the peer's QP connected to this one and able to receive? Copies what it publishes. *in_update:
 * it cannot be read, because the peer's process stands still in the middle of an update; then
 * true. The QP has a peer. Must hold qp->lock.
 */
bool vrb_peer_listens(const struct vrb_qp *qp, struct seg_qp *published, bool *in_update);

/*
 * Returns true if a missing response must not count as a loss. A lane loses nothing while the
 * peer's process lives and its QP receives, even if the process is stopped or not scheduled.
 * `overdue`: the ack timeout has passed; otherwise the requester is about to probe. For a peer on
 * the wire, see vrb_keepalive_defers_timeout(). Must hold vrb.poll_lock and qp->lock.
 */
bool vrb_peer_defers_timeout(struct vrb_qp *qp, bool overdue, uint64_t now);

/* Slow path of vrb_peer_lookup(): no peer is known yet, or it may have moved. */
bool vrb_peer_find(struct vrb_qp *qp, uint64_t now);

/* Is the QP's peer on this host? Retries the lookup with backoff. Must hold qp->lock. */
static inline bool vrb_peer_lookup(struct vrb_qp *qp, uint64_t now)
{
	if (likely(qp->peer.process && qp->wq.type != IBV_QPT_XRC_SEND))
		return true;
	return vrb_peer_find(qp, now);
}

/* Slow path of vrb_is_peer(): the peer's slot is not known yet. */
bool vrb_peer_verify(struct vrb_qp *qp, int slot);

/*
 * Does the QP's peer belong to the process in this slot? Checks the sender of a packet. Must hold
 * qp->lock.
 */
static inline bool vrb_is_peer(struct vrb_qp *qp, int slot)
{
	return likely(qp->peer.process && qp->peer.slot == slot) || vrb_peer_verify(qp, slot);
}

/* wq_ops.direct, .can_pull and .pull of QPs with a peer on this host. */
unsigned int vrb_peer_rdma(struct wq_qp *wq, enum reason *why);
bool vrb_peer_can_pull(struct wq_qp *wq, const struct send_wqe *w);

/*
 * Runs a request that is being posted in the peer's mapped memory and completes it, without a WQE.
 * False: nothing has happened; post it as any other. The caller has seen that the queue has room.
 * Must hold qp->lock.
 */
bool vrb_peer_post_rdma(struct vrb_qp *qp, const struct ibv_send_wr *wr);

enum reason vrb_peer_fetch(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
			  uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			  enum mem_access access);

/*
 * A WRITE without a request, from memory without a key. False: it did not take place, but part of
 * the bytes may have been written; the peer is not on this host, or a packet is needed. Must hold
 * qp->lock.
 */
bool vrb_peer_write(struct vrb_qp *qp, const struct wq_seg *from, uint64_t va, uint32_t rkey,
		    bool past);

/*
 * Both ends copy the payload of a long SEND. With vrb_peer_fetch_split() the receiver fetches the
 * payload to *to, pinned memory of `key`; the sender helps if it polls. Returns as local_pull().
 * With vrb_peer_split_copy() the sender handles the receiver's offer.
 */
int vrb_peer_fetch_split(struct vrb_qp *qp, const struct wq_pull *from, const struct wq_seg *to,
			 uint32_t key);
void vrb_peer_split_copy(const struct local_pkt *in);

#endif
