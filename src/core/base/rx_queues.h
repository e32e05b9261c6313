/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RX queues. Each receives from its own sockets under its own lock, so that several threads can
 * receive concurrently.
 *
 * RX queue 0 is the main one. Its lock is vrb.poll_lock; it serves lanes, inbox, timers and
 * everything else that concerns more than one QP or queue. The others are created when several
 * threads poll, or by VERBENA_RECEIVERS, and have a wire each. Each QP number belongs to a shard
 * (host/host.h), each shard to a queue, and the kernel steers packets accordingly (rx_steering.h).
 * Steering is only an optimisation: any queue can process any packet.
 *
 * Locks: level 3 of core/base/state.h, the RX queues' locks in ascending order of their numbers,
 * then vrb.poll_lock. A thread that holds one of them may use the QPs it finds in the QP table,
 * because a QP is removed under all of them (vrb_rx_queues_lock()). A QP is added under
 * vrb.poll_lock alone.
 *
 * A QP with output is on at most one list: `scheduled` or `delayed` of the RX queue in
 * qp->sched.rx_queue. The lists are protected by that queue's lock. The member is also set under
 * qp->lock; a thread that finds another queue there makes the QP transmit at once.
 */
#ifndef VRB_CORE_BASE_RX_QUEUES_H
#define VRB_CORE_BASE_RX_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "host/host.h"
#include "roce/icrc.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/lock.h"
#include "wire/wire.h"

/* Packets received, sent, and dropped before they reached a QP. Monotonic; atomic. */
struct rx_stats {
	uint64_t rcvd_pkts, sent_pkts;
	uint64_t icrc_errors;		/* wrong ICRC */
	uint64_t malformed;		/* decoding failed */
	uint64_t unknown_qp;
	uint64_t wrong_path;		/* for a QP that is connected to another peer */
	uint64_t not_ready;		/* for a QP in RESET or INIT */
	uint64_t handed;		/* forwarded to another process */
	uint64_t hand_lost;		/* not forwarded: its inbox was full */
	uint64_t send_lost;		/* not sent: socket full for too long */
};

enum { VRB_RX_QUEUES = HOST_SHARDS };	/* the main queue, and at most one per other shard */

struct vrb_tx_batch;

/* Packets of UC and UD requests that wait for the program's next poll (core/tx/tx_pending.h). */
struct vrb_tx_pending {
	struct lock lock;		/* protects everything below unless stated otherwise */
	struct vrb_tx_batch *batch;	/* NULL: none yet */
	uint64_t since;			/* when the first of its packets was added */
	unsigned int rest;		/* posts that do not wait, because others waited in vain */
	/* atomic, read without the lock: has packets, or is being filled */
	bool waits;
	uint64_t sent_at;		/* atomic, read without the lock: when a batch had left */
	/* atomic, read without the lock; may be earlier than the true deadline, never later */
	uint64_t deadline;
};

struct vrb_rx_queue {
	struct lock *lock;		/* protects everything below unless stated otherwise */
	struct lock own_lock;		/* target of `lock`, except for the main queue */
	/* NULL: none; immutable while the queue exists */
	struct wire *wire;
	uint64_t looked_at;		/* when its sockets were last read */
	uint64_t served_at;	/* atomic: start of the last completed round of packets */
	/* one-sided packets, which programs wait for without polling a CQ; wraps */
	unsigned int onesided_pkts;
	/* packets for QPs of another queue since steering was set up */
	unsigned int missteered;
	struct list scheduled;		/* QPs that received packets in this round */
	/*
	 * QPs with a delayed ACK. Programs often reply to a request, and then the ACK can be
	 * piggybacked; also, a program that has just got a completion should not wait for our
	 * system call. The ACK is sent at the next poll, before a post, or by the progress thread
	 * after the maximum delay.
	 */
	struct list delayed;
	/* atomic, read without the lock; may be earlier than the true deadline, never later */
	uint64_t delayed_deadline;
	struct vrb_tx_pending pending;	/* under its own lock */
	unsigned int delayed_polls;	/* polls since the first ACK was delayed */
	uint64_t polled_at;		/* atomic: last poll by the program for QPs of this queue */
	/* atomic, read without the lock; those of sent packets are also written without it */
	struct rx_stats stats;
	struct roce_icrc_front front;	/* of the packets */
	/* who sent the last packet with a wrong ICRC, and how many without another's between */
	struct net_addr icrc_errors_of;
	unsigned int icrc_errors_row;
	struct wire_pkt in[WIRE_BURST];
};

extern struct vrb_rx_queue vrb_rx_queues[VRB_RX_QUEUES];
/* atomic: number of queues besides the main one; a power of two or 0 */
extern unsigned int vrb_extra_rx_queues;

#define vrb_main_rx_queue (&vrb_rx_queues[0])

/* The RX queue that serves a shard. */
static inline struct vrb_rx_queue *vrb_rx_queue_of_shard(unsigned int shard)
{
	unsigned int n = load_acquire(&vrb_extra_rx_queues);

	return &vrb_rx_queues[n && shard ? 1 + ((shard - 1) & (n - 1)) : 0];
}

/* Iterates over the existing RX queues. */
#define vrb_for_each_rx_queue(r)                                                                   \
	for (struct vrb_rx_queue *r = vrb_rx_queues,                                               \
				 *end_ = r + 1 + load_acquire(&vrb_extra_rx_queues);               \
	     r < end_; r++)

/* The sum over all queues. */
void vrb_rx_stats_sum(struct rx_stats *sum);

/*
 * Between these two calls, no other thread receives packets or works on QPs found in the QP table.
 * Must hold no lock of level 3 or below.
 */
void vrb_rx_queues_lock(void);
void vrb_rx_queues_unlock(void);

#endif
