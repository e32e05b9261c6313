/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local transport: reaches the processes of this host, user and network namespace through
 * shared memory.
 *
 * It offers two things to core, per peer process:
 *	- a wire in shared memory (lane.h): small packets of the engine are copied once, into a
 *	  slot; large payloads stay in place, and the receiver pulls them with one system call;
 *	- one-sided access (onesided.h): WRITE, READ and atomics run here, after checking the peer's
 *	  published QP and key tables, through a mapping of the region (region_map.h) or by
 *	  cross-memory attach. A request that is not clearly permitted is sent as packets instead:
 *	  the owner of the memory detects the error and answers it, so only the engine implements
 *	  error handling. FLUSH and ATOMIC WRITE are always packets.
 *
 * Each message may take either path, or UDP, at any time: the engine's sequence numbers preserve
 * the order.
 *
 * Locks: local->lock (list of peers; level 4 of core/base/state.h), peer->lock (its lane's sending
 * end; below it).  One thread at a time receives (vrb.poll_lock).
 *
 * When a process dies, host_reap() removes its segment. The owners of the lanes on which it sent
 * clear them when they detect it (local_recv) or when a successor in its slot announces itself.
 * Hazards of a dead process are ignored.
 */
#ifndef VRB_LOCAL_LOCAL_H
#define VRB_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "local/lane.h"
#include "local/segment.h"
#include "util/lock.h"
#include "util/net.h"
#include "wq/qp.h"

struct host;
struct local;
struct local_peer;
struct message_sender;

/*
 * Returns 0, or the reason why there is no local transport: ENOTSUP (private mode), ENOSPC, ENOMEM,
 * EACCES, ...
 */
int local_start(struct host *host, uint64_t netns, struct local **out);
void local_stop(struct local *l);
void local_forget(struct local *l);	/* in a forked child */

struct segment *local_segment(struct local *l);

/* Called by a thread that ends with the process or before local_stop(); see keeper.h. */
void local_keep(struct local *l);

/*
 * Returns a reference to the peer that owns a QP number, or NULL if it cannot be reached through
 * memory: no such process, another network or PID namespace, another layout version, no memory for
 * the lane, or a lane that is not yet cleared of a dead predecessor.
 */
struct local_peer *local_peer_get(struct local *l, uint32_t qpn);
void local_peer_put(struct local *l, struct local_peer *peer);

/* As local_peer_get(), for the peer in a host slot. */
struct local_peer *local_peer_in(struct local *l, int slot);

/* Returns the peer's host slot. */
int local_peer_slot(const struct local_peer *peer);

/* peer_map_qp() and peer_map_has_qp() of a peer. */
const struct seg_qp *local_peer_qp(const struct local_peer *peer, uint32_t qpn,
				   struct seg_qp *copy);
bool local_peer_has_qp(const struct local_peer *peer, uint32_t qpn);

/*
 * Returns the next sender whose peer has published progress, or may have (message.h); NULL: none is
 * left. Must hold vrb.poll_lock.
 */
struct message_sender *local_next_sender(struct local *l);

/*
 * May local_next_sender() return another sender than this one? A hint. Must hold vrb.poll_lock.
 */
bool local_others_due(const struct local *l, const struct message_sender *s);

/* Removes a sender that is destroyed or disconnected. */
void local_forget_sender(struct local_peer *peer, struct message_sender *s);

/*
 * Returns false once the peer's process has gone; checks at most once per millisecond. Must not
 * hold peer->lock.
 */
bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now);

/* Has the peer consumed all slots of its lane before `head`, an index of lane_tx? */
bool local_peer_took(const struct local_peer *peer, uint32_t head);

/*
 * A packet received from a lane. data is valid until the callback returns; the sender can change it
 * meanwhile.
 */
struct local_pkt {
	const uint8_t *data;
	uint32_t len;
	const struct net_path *path;	/* NULL: the packet has none */
	uint32_t payload;		/* length of a pulled packet's payload */
	/* location of a pulled packet's payload; no segments: the packet is complete */
	struct wq_pull pull;
	int32_t slot;			/* of the sender */
	bool xrc;			/* not a packet, see LANE_XRC */
	bool offer;			/* not a packet, see LANE_OFFER */
	bool lossy;			/* see LANE_LOSSY */
	bool acks;			/* also carries an ACK of its queue pair: */
	uint32_t ack_psn;
	uint32_t ack_aeth;		/* syndrome:8 MSN:24 */
};

/* The callbacks of local_recv(). */
struct local_input {
	void (*packet)(void *arg, const struct local_pkt *pkt);
	/*
	 * LANE_MESSAGE: head->len bytes for message_get(), from the process in this slot. Only the
	 * head is a copy. more: another for the same QP is passed next, so that one ACK will do.
	 * Unless `more`, the callback may free the slot, lane_rx_free(rx, head), and return true.
	 */
	bool (*message)(void *arg, struct lane_rx *rx, int32_t slot, const struct lane_head *head,
			const uint8_t *data, bool more);
};

/*
 * Receives up to budget packets and messages from all lanes, fairly. Returns their number. Must
 * hold vrb.poll_lock.
 */
unsigned int local_recv(struct local *l, unsigned int budget, const struct local_input *to,
			void *arg);

/* Returns true if local_recv() would find something. Must hold vrb.poll_lock. */
bool local_input_waits(const struct local *l);

/*
 * Returns true if an announced lane has no memory yet. Its sender cannot ring a doorbell for the
 * packets in it, so call local_recv() again soon.
 */
bool local_lacks_memory(const struct local *l);

/*
 * Sleep and wake-up of the whole process; see L2 in lane.h. local_sleep() returns false if
 * something has arrived: stay awake. local_polled() notes that the program polls: if it does so
 * steadily, the next sleep has the heavy fence, and senders have light ones. Both require
 * vrb.poll_lock.
 */
bool local_sleep(struct local *l);
void local_polled(struct local *l);
void local_wake(struct local *l);
bool local_sleeps(const struct local *l);

/*
 * Copies `total` bytes of a payload in the sender's memory, starting at byte `skip`, to dst[].
 * Returns 0, EPERM (refused), EFAULT (memory of either side is not mapped) or ESRCH (the process
 * has gone).
 */
int local_pull(const struct wq_pull *from, uint64_t skip, const struct wq_seg *dst,
	       unsigned int ndst, uint64_t total);

/* Returns the lane on which a process sends to us; NULL if it is gone. Must hold vrb.poll_lock. */
struct lane *local_lane_from(struct local *l, uint64_t incarnation);

/*
 * The kernel refused the copy: tells the sender to leave no more payloads in its memory. Must hold
 * vrb.poll_lock.
 */
void local_pull_refused(struct local *l, const struct wq_pull *from);

uint64_t local_incarnation(const struct local *l);

/*
 * Waits until no peer, and no thread of this process, uses key `index` for a one-sided access; call
 * after marking its entry dead. Gives up after 10 seconds, with a warning.
 */
void local_wait_unused(struct local *l, uint32_t index);

/*
 * Call after a region of shared memory has been deregistered and local_wait_unused() has returned:
 * wakes the peers that may have mapped it, because an idle peer would keep its memory.
 */
void local_region_ended(struct local *l);

/* A doorbell has rung: removes the mappings of deregistered regions. Must hold vrb.poll_lock. */
void local_unmap_ended(struct local *l);

/*
 * Waits until all one-sided accesses now in progress have ended; call after a QP has stopped
 * accepting requests.
 */
void local_wait_quiet(struct local *l);

#endif
