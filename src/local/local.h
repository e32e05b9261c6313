/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local transport: reaches the processes of this host, user and network namespace through
 * shared memory.
 *
 * It offers two things to core, per peer process:
 *	- a wire made of memory (lane.h): packets of the engine, small ones copied once into a slot;
 *	  large payloads stay in place, and the receiver pulls them with one system call;
 *	- one-sided access (onesided.c): WRITE, READ, atomics and FLUSH run here, after checking the
 *	  peer's published QP and key tables, by cross-memory attach.  Whatever is not plainly
 *	  permitted is declined and goes as packets, so that the owner of the memory finds the fault
 *	  and answers it: the rules of error handling exist once, in the engine.
 *
 * Every message may go either way, or by UDP, at any time: the engine's sequence numbers keep the
 * order.
 *
 * Locks: local->lock (list of peers; level 7 of core/base/state.h), peer->lock (its lane's sending
 * end; below it).  One thread at a time receives (vrb.poll_lock).
 *
 * When a process dies: host_reap() removes its segment; the owners of the lanes by which it sent
 * clear them when they notice (local_recv) or when a successor in its slot announces itself; its
 * hazards no longer count.
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

/*
 * Returns 0, or why there is no local transport: ENOTSUP (private mode), ENOSPC, ENOMEM, EACCES ...
 */
int local_start(struct host *host, uint64_t netns, struct local **out);
void local_stop(struct local *l);
void local_forget(struct local *l);	/* in a forked child */

struct segment *local_segment(struct local *l);

/* Called by a thread that ends with the process, or before local_stop(): see keeper.h. */
void local_keep(struct local *l);

/*
 * The peer that owns a QP number, with a reference; NULL if it cannot be reached through memory (no
 * such process, another network or PID namespace, another layout version, no memory for the lane,
 * or its lane is still being cleared of a predecessor).
 */
struct local_peer *local_peer_get(struct local *l, uint32_t qpn);
void local_peer_put(struct local *l, struct local_peer *peer);

/* The same for the peer in a host slot. */
struct local_peer *local_peer_in(struct local *l, int slot);

/* A consistent copy of one of its QPs; false if it has none of that number. */
bool local_peer_qp(const struct local_peer *peer, uint32_t qpn, struct seg_qp *copy);

/* False once its process has gone; checks at most once per millisecond. */
bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now);

/* Has it taken all slots of its lane before `head`, as lane_tx counts? */
bool local_peer_took(const struct local_peer *peer, uint32_t head);

/*
 * A packet taken from a lane. data is valid until the callback returns; the sender can change it
 * meanwhile.
 */
struct local_pkt {
	const uint8_t *data;
	uint32_t len;
	const struct net_path *path;	/* NULL unless it came with one */
	uint32_t payload;		/* of a pulled packet */
	/* where a pulled packet's payload is; no segments: the packet is complete */
	struct wq_pull pull;
	int32_t slot;			/* of the sender */
	bool message;			/* not a packet; see LANE_MESSAGE */
	bool offer;			/* not a packet either; see LANE_OFFER */
	bool bare;			/* a struct message; see LANE_BARE */
	bool acks;			/* an ACK of its queue pair comes with it: */
	uint32_t ack_psn;
	uint32_t ack_aeth;		/* syndrome:8 MSN:24 */
};
typedef void (*local_pkt_fn)(void *arg, const struct local_pkt *pkt);

/* Takes up to budget packets off all lanes, fairly. Returns how many. Must hold vrb.poll_lock. */
unsigned int local_recv(struct local *l, unsigned int budget, local_pkt_fn fn, void *arg);

/*
 * True if an announced lane got no memory: its sender rings no doorbell for what lies in it, so
 * call local_recv() again in a while.
 */
bool local_lacks_memory(const struct local *l);

/*
 * Sleep and wake of the process as a whole; see L2 in lane.h. local_sleep() is false if something
 * arrived: stay awake; must hold vrb.poll_lock.
 */
bool local_sleep(struct local *l);
void local_wake(struct local *l);
bool local_sleeps(const struct local *l);

/*
 * Copies from a sender's memory into ours: `total` bytes of its payload, from byte `skip` on, to
 * dst[].  Returns 0, EPERM (refused), EFAULT (memory of either side is not mapped), ESRCH (the
 * process has gone).
 */
int local_pull(const struct wq_pull *from, uint64_t skip, const struct wq_seg *dst,
	       unsigned int ndst, uint64_t total);

/* The lane by which a process sends to us; NULL if it is gone. Must hold vrb.poll_lock. */
struct lane *local_lane_from(struct local *l, uint64_t incarnation);

/*
 * The kernel refused: the sender must leave no more payloads in its memory. Must hold
 * vrb.poll_lock.
 */
void local_pull_refused(struct local *l, const struct wq_pull *from);

uint64_t local_incarnation(const struct local *l);

/*
 * Waits until no peer uses key `index` for a one-sided access; call after marking its entry dead.
 * Waits 10 seconds for a peer that is stopped during an access.
 */
void local_wait_unused(struct local *l, uint32_t index);

/*
 * Waits until all one-sided accesses now in progress have ended; call after a QP has stopped
 * accepting requests.
 */
void local_wait_quiet(struct local *l);

#endif
