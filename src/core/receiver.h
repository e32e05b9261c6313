/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receivers: each takes packets off sockets of its own, under a lock of its own, so that several threads receive at once.
 *
 * Receiver 0 is the main one.  Its lock is vrb.drive; lanes, inbox, timers and whatever is neither one QP's nor one receiver's business are its.
 * The others exist only where several threads were seen to poll, or VERBENA_RECEIVERS says so, and have a wire each.  QP numbers are of shards
 * (host/host.h), shards belong to receivers, and the kernel is told to steer accordingly (steer.h).  That is for speed only: any
 * receiver may find any packet, and runs it.
 *
 * Locks.  Level 3 of core/process.h: the receivers' in ascending order of their numbers, then vrb.drive.  Who holds one of them may use the QPs
 * that he finds in the table, for QPs leave it under all of them (vrb_receivers_stop()).  They enter under vrb.drive alone.
 *
 * A QP that has something to say is on one list at most: `touched` or `owed` of the receiver that qp->touched_by names.  The lists are under the
 * receiver's lock; touched_by is set under qp->lock as well, and whoever finds another receiver there lets the QP speak at once.
 */
#ifndef VRB_CORE_RECEIVER_H
#define VRB_CORE_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/drive.h"
#include "host/host.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/lock.h"
#include "wire/wire.h"

struct vrb_qp;

enum { VRB_RECEIVERS = HOST_SHARDS };	/* the main one, and one for each other shard at most */

struct vrb_receiver {
	struct lock *lock;		/* everything below but what says otherwise */
	struct lock own_lock;		/* what it points to, but for the main one */
	struct wire *wire;		/* NULL: there is none. Immutable while the receiver exists */
	uint64_t looked_at;		/* when packets were taken last */
	unsigned int one_sided;		/* packets that may concern a program which does not poll; grows and wraps */
	unsigned int strays;		/* packets that another receiver should have got, since the kernel was told */
	struct list touched;		/* QPs that packets of this round came for */
	/*
	 * QPs whose ACK waits for a packet of their own to travel with: the answer to a request is often another request, and a program that has
	 * just been given a completion shall not wait for our system call.  They are answered at the next poll, by the progress thread after
	 * ACK_WAIT, or before anything that would make that impossible.
	 */
	struct list owed;
	uint64_t owed_due;		/* atomic, to read without the lock. Never later than it must be */
	unsigned int owed_polls;	/* for how many polls they have waited */
	uint64_t polled_at;		/* atomic: the last poll of its QPs' program */
	struct drive_stats stats;	/* of what it received; atomic, to read without the lock */
	struct wire_pkt in[WIRE_BURST];
};

extern struct vrb_receiver vrb_receivers[VRB_RECEIVERS];
extern unsigned int vrb_extra_receivers;	/* atomic: how many there are besides the main one, a power of two or 0 */

#define vrb_main_receiver (&vrb_receivers[0])

/* Whose business the packets of a shard are. */
static inline struct vrb_receiver *vrb_receiver_of_shard(unsigned int shard)
{
	unsigned int n = load_acquire(&vrb_extra_receivers);

	return &vrb_receivers[n && shard ? 1 + ((shard - 1) & (n - 1)) : 0];
}

/* Each of them that exists; the index is the caller's. */
#define vrb_for_each_receiver(r)                                                                   \
	for (struct vrb_receiver *r = vrb_receivers,                                               \
				 *end_ = r + 1 + load_acquire(&vrb_extra_receivers);               \
	     r < end_; r++)

/*
 * Takes what has arrived, a bounded number of packets, and lets the QPs answer.  Returns how many.  Must hold the receiver's lock, and no lock below
 * it.
 */
unsigned int vrb_receiver_take(struct vrb_receiver *r, uint64_t now, bool poller);

/*
 * The main one begins with vrb.wire; those that VERBENA_RECEIVERS asks for, too.  Returns 0 or an errno value.  For vrb_drive_start, and the other for
 * vrb_drive_stop.
 */
int vrb_receivers_start(void);
void vrb_receivers_end(void);

/*
 * Several threads poll: there shall be a receiver for each, as far as there are processors.  Once, if it makes sense; does nothing if it does not.  Must
 * hold no lock of level 3 or below.
 */
void vrb_receivers_open(void);

/* Nobody receives, or works on a QP that he found, between these two. Must hold no lock of level 3 or below. */
void vrb_receivers_stop(void);
void vrb_receivers_go_on(void);

/* In a forked child: the locks and QPs were the parent's. */
void vrb_receivers_forget(void);

#endif
