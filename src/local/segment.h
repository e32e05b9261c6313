/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments: this process's own, which peers map, and those of peers, mapped here.
 *
 * The process creates its own segment when it joins the host and removes it when it leaves;
 * host_reap() removes the segments of dead processes. Peers' segments are mapped on demand,
 * reference-counted by the connections that use them, and kept while the peer lives.
 *
 * Locking: writers of the own QP table take segment->lock; peers are under local->lock.
 */
#ifndef VRB_LOCAL_SEGMENT_H
#define VRB_LOCAL_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "local/layout.h"
#include "util/atomic.h"
#include "util/lock.h"

struct host;
struct wq_qp;

struct segment {
	int fd;
	uint8_t *base;
	size_t size;
	struct seg_identity identity;
	uint64_t netns, pidns;	/* as in the header */
	struct lock lock;	/* writers of the QP table; a leaf */
	/*
	 * under lock; private copy of the QP table's keys, because the table itself is only written
	 */
	uint32_t qpn[SEG_QPS];
	uint64_t ended[SEG_QPS / 64];	/* under lock: entries after segment_end_qp() */
	uint64_t lanes[SEG_PEERS / 64];	/* atomic: lanes with memory */
};

/* Special values of seg_qp.qpn. */
enum {
	SEG_QP_EMPTY = 0,
	SEG_QP_DELETED = UINT32_MAX,
};

/* Facts about a QP that the table holds besides its configuration. */
struct seg_qp_facts {
	bool established;
	bool waits;
	bool blocked;
};

/*
 * Creates and publishes this process's segment. Returns 0, ENOSPC (tmpfs full), ENOTSUP (private
 * mode: no peer could find it), or an error of the file system.
 */
int segment_create(struct host *host, uint64_t netns, struct segment **out);
void segment_destroy(struct segment *seg, struct host *host);

/* In a forked child: removes the mapping and leaves the file alone. */
void segment_forget(struct segment *seg);

static inline struct seg_header *segment_header(const struct segment *seg)
{
	return (struct seg_header *)seg->base;
}

static inline struct lane *segment_lane(const struct segment *seg, unsigned int slot)
{
	return (struct lane *)(seg->base + SEG_LANE_OFF + slot % SEG_PEERS * SEG_LANE_SIZE);
}

/*
 * Returns the lane if it has memory, else NULL. A lane without memory must not be touched: that
 * would allocate from tmpfs, or raise SIGBUS if tmpfs is full.
 */
struct lane *segment_own_lane(struct segment *seg, unsigned int slot);

/*
 * Publishes a QP or its changed configuration. Returns EAGAIN if the table is full; the QP can then
 * be reached only by packets.
 */
int segment_publish_qp(struct segment *seg, const struct wq_qp *qp, struct seg_qp_facts facts);
void segment_retract_qp(struct segment *seg, uint32_t qpn);

/*
 * Keeps the progress word of a QP that ends, for a peer that has not read it: the QP receives
 * nothing more. segment_forget_qp() withdraws it; no effect if another QP has the number since.
 */
void segment_end_qp(struct segment *seg, uint32_t qpn);
void segment_forget_qp(struct segment *seg, uint32_t qpn);

/*
 * Returns the progress word of a published QP, for its owner (message.h); NULL: the QP is not in
 * the table.
 */
uint64_t *segment_progress(struct segment *seg, uint32_t qpn);

/* Returns the memory of entries [first, first + n) of the key table; NULL if tmpfs is full. */
struct mr_entry *segment_keys(struct segment *seg, uint32_t first, uint32_t n);

/* A peer's mapped segment: the header, the tables (read-only) and our lane. */
struct peer_map {
	struct seg_header *header;
	const struct seg_qp *qps;
	const struct mr_entry *keys;
	struct lane *lane;
	const uint32_t *asleep;
	const uint32_t *keeper;
	uint64_t incarnation;
	int32_t pid;
	void *tables;		/* mapping of both tables */
};

/*
 * Maps the segment of the process in `slot`, for the sender in slot `own`. Returns 0, ENOENT
 * (none), EPROTO (not a segment, or another layout version), EXDEV (another network or PID
 * namespace), ESTALE (another incarnation), ENOSPC (no memory for the lane), EFBIG (the
 * file size limit of the process), ENOMEM or an error of open().
 */
int peer_map_open(struct host *host, const struct segment *own, int own_slot, int slot,
		  uint64_t incarnation, struct peer_map *map);
void peer_map_close(struct peer_map *map);

/*
 * Copies a peer's QP consistently and returns its entry; NULL if there is no such QP, or if its
 * owner stands still in the middle of an update.
 */
const struct seg_qp *peer_map_qp(const struct peer_map *map, uint32_t qpn, struct seg_qp *copy);

/* Is there such a QP? Also true in the middle of an update. */
bool peer_map_has_qp(const struct peer_map *map, uint32_t qpn);

/* The same from its entry; false if the entry no longer belongs to the QP. */
static inline bool peer_map_qp_copy(const struct seg_qp *e, uint32_t qpn, struct seg_qp *copy)
{
	/* Bounded: if the owner died or stopped during an update, the QP counts as missing. */
	for (int tries = 0; tries < 1000; tries++) {
		uint32_t gen = load_acquire(&e->gen);

		if (gen % 2 == 0) {
			memcpy(copy, e, sizeof(*copy));
			acquire_fence();	/* orders the copy before the second load */
			if (load_relaxed(&e->gen) == gen)
				return copy->qpn == qpn;
		}
		cpu_relax();
	}
	return false;
}

/* True if the entry still equals the copy. */
static inline bool peer_map_qp_stands(const struct seg_qp *entry, const struct seg_qp *copy)
{
	return load_acquire(&entry->gen) == copy->gen && load_relaxed(&entry->qpn) == copy->qpn;
}

/* Returns an entry of the peer's key table; NULL if that part of the table has no memory. */
const struct mr_entry *peer_map_key(const struct peer_map *map, uint32_t index);

#endif
