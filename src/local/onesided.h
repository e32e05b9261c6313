/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access to a neighbour's memory, without its CPU: the checks of its NIC, made here against what it published, then one
 * system call.
 *
 * A key is used like this (L8): publish its index as a hazard in our lane, full fence, see that the entry is live and that the QP still
 * listens, copy; at the end clear the hazard (release).  The owner makes the entry dead, or the QP deaf, full fence, and waits until no hazard names
 * it: so either we see it dead, or it sees us.  Weaker would let both look before either has written.  Hazards of a sender that died do not count.
 *
 * Must hold peer->lock from onesided_begin() to onesided_end().
 */
#ifndef VRB_LOCAL_ONESIDED_H
#define VRB_LOCAL_ONESIDED_H

#include <stdbool.h>
#include <stdint.h>

#include "local/local.h"
#include "wq/key.h"
#include "wq/qp.h"

enum {
	ONESIDED_OPS = 64,		/* requests in one go */
	ONESIDED_SEGS = 64,		/* pieces of memory on our side in one go, before the last bytes are split off */
};

struct onesided {
	struct local_peer *peer;
	const struct seg_qp *entry;
	struct seg_qp target;
	unsigned int n_op, n_near, n_far;
	unsigned int n_key;		/* hazards that stand */
	struct mr_entry key;		/* what the last of them protects */
	uint64_t total;
	uint64_t end[ONESIDED_OPS];	/* bytes up to and with each request */
	struct wq_seg near_seg[ONESIDED_SEGS + ONESIDED_OPS];
	struct wq_seg far_seg[2 * ONESIDED_OPS];
};

/* False if the QP at the other end does not listen to this one, or its process cannot be reached so. */
bool onesided_begin(struct onesided *o, struct local_peer *peer, const struct wq_qp *wq);

/*
 * Adds a request: [va, va + len) under rkey, against the pieces seg[0..n). False (and unchanged) if that is not plainly permitted, or
 * there is no room.
 */
bool onesided_add(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		  enum mem_access access, const struct wq_seg *seg, unsigned int n);

/* Moves the bytes of all requests. Returns how many requests are whole, from the first one on: less than n_op, if a page is missing. */
unsigned int onesided_write(struct onesided *o);
unsigned int onesided_read(struct onesided *o);

/* The one request added is an atomic of 8 bytes at an aligned address of its owner. */
bool onesided_atomic(struct onesided *o, struct local *l, enum atomic_op op, uint64_t compare_add,
		     uint64_t swap, uint64_t *original);

/* Clears the hazards. */
void onesided_end(struct onesided *o);

/*
 * For messages: why a peer's key does not grant an access, from its tables as they are now; *copy is what the key names, its kind
 * MR_FREE if it names nothing. REASON_NONE: it does, or nothing is known.
 */
enum reason onesided_reason(const struct local_peer *peer, const struct wq_qp *wq, uint32_t rkey,
			    uint64_t va, uint64_t len, enum mem_access access, struct mr_entry *copy);

#endif
