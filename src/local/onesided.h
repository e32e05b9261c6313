/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access to a peer's memory without its CPU. This process makes the checks that the
 * peer's NIC would make, on the tables that the peer has published, and copies the data: with loads
 * and stores if the memory can be mapped (region_map.h), else with one system call.
 *
 * Use of a key (L8): publish its index as a hazard in our lane, full fence, check that the entry is
 * live and the QP accepts requests, copy, clear the hazard (release). The owner marks the entry
 * dead or the QP closed, full fence, and waits until no hazard names it. So either we see the entry
 * dead, or the owner sees our hazard. A weaker order would let both sides read before either has
 * written. Hazards of dead senders are ignored.
 *
 * The same holds between threads of this process, for the key of the memory at this end: its hazard
 * is peer->own_key.
 *
 * In mapped memory, the fence of onesided_one() is a light one if the owners of both keys make
 * heavy ones (util/heavy_fence.h): the one that deregisters pays for it.
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
	ONESIDED_OPS = 64,		/* requests per call */
	/* local segments per call, before the tail is split off */
	ONESIDED_SEGS = 64,
};

struct onesided {
	struct local_peer *peer;
	const struct seg_qp *entry;
	struct seg_qp target;
	unsigned int n_op, n_local, n_remote;
	unsigned int n_key;		/* hazards that are set */
	struct mr_entry key;		/* copy of the last claimed entry */
	uint32_t edition;		/* edition of that key; 0: it cannot be mapped */
	/*
	 * Either all requests of a call are in mapped memory, or none is: remote_seg[i] is then our
	 * mapping of the remote end of local_seg[i].
	 */
	bool mapped;
	uint64_t total;
	uint64_t end[ONESIDED_OPS];	/* end offset of each request */
	struct wq_seg local_seg[ONESIDED_SEGS + ONESIDED_OPS];
	struct wq_seg remote_seg[2 * ONESIDED_OPS];
};

/*
 * What a peer has published about a QP that accepts requests of ours. All zero: not known; so it
 * must be after a change of this end's connection.
 */
struct onesided_target {
	uint32_t qpn, gen;	/* it holds while the peer's entry has these */
	uint32_t pdn;
	uint32_t access;	/* IBV_ACCESS_REMOTE_* */
	bool reads;		/* has resources for READs */
};

/* A WRITE, READ or atomic of one piece. */
struct onesided_request {
	const struct seg_qp *entry;	/* of the remote QP, in the peer's table */
	struct onesided_target *target;	/* what was found there last */
	uint64_t va;
	uint32_t rkey;
	uint32_t lkey;
	/* of lkey, live or not, in this process's table; NULL: addr needs no key */
	const struct mr_entry *own;
	uint64_t addr, len;		/* at this end */
	enum mem_access access;		/* at the other end */
	bool past;			/* WRITE: with stores past the caches, run/nofault.h */
	enum atomic_op op;		/* of an atomic */
	uint64_t compare_add, swap;
};

/*
 * Executes a request in memory that is mapped already or, up to atomics, under the same key as the
 * last request if that memory cannot be mapped: without lists, with one fence for a hazard on each
 * key, this process's own and the peer's. False: it was not executed, at least not to its end, and
 * onesided_begin() may succeed.
 */
bool onesided_one(struct local *l, struct local_peer *peer, const struct wq_qp *wq,
		  const struct onesided_request *r);

/*
 * Returns false if the remote QP does not accept requests of this one, or its process cannot be
 * reached.
 */
bool onesided_begin(struct onesided *o, struct local_peer *peer, const struct wq_qp *wq);

/*
 * Adds a request: copies [va, va + len) under rkey from or to seg[0..n). Returns false and leaves
 * *o unchanged if the tables do not clearly permit the access, or if there is no room.
 */
bool onesided_add(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		  enum mem_access access, const struct wq_seg *seg, unsigned int n);

/*
 * Copy all requests. Return how many are complete, counted from the first; less than n_op if a page
 * is missing.
 */
unsigned int onesided_write(struct onesided *o);
unsigned int onesided_read(struct onesided *o);

/*
 * Executes the single request added: an 8-byte atomic at an address that is aligned in its owner's
 * memory.
 */
bool onesided_atomic(struct onesided *o, struct local *l, enum atomic_op op, uint64_t compare_add,
		     uint64_t swap, uint64_t *original);

/* Clears the hazards. */
void onesided_end(struct onesided *o);

/*
 * For log messages: returns the reason why a peer's key does not grant an access, from its current
 * tables. *copy receives the entry of the key, with kind MR_FREE if there is none. REASON_NONE: the
 * access is granted, or the reason is unknown.
 */
enum reason onesided_reason(const struct local_peer *peer, const struct wq_qp *wq, uint32_t rkey,
			    uint64_t va, uint64_t len, enum mem_access access,
			    struct mr_entry *copy);

#endif
