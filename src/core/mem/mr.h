/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and the key table.
 *
 * One table per process maps keys to entries (wq/key.h). Entries are never freed, so that a stale
 * key finds a dead entry instead of freed memory.
 *
 * Deregistration marks the entry dead and waits for the accesses in flight: short copies, which
 * queue pairs make under locks that it takes in turn, and others, which hold a reference on the
 * entry (access.c).
 *
 *	mr.c	regions: registration, its checks, deregistration, advice, import
 *	key_table.c	the table: keys, references
 *	access.c	the accesses of queue pairs through the table
 *	mw.c	windows; dm.c device memory
 */
#ifndef VRB_CORE_MEM_MR_H
#define VRB_CORE_MEM_MR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/live_objects.h"
#include "wq/qp.h"

struct mr_entry;
struct vrb_dm;
struct vrb_pd;

struct vrb_mr {
	struct ibv_mr ibv;
	uint32_t index; /* in the key table */
	uint32_t access;
	bool imported; /* shares the entry of another vrb_mr */
	bool plain;    /* from ibv_reg_mr() or a variant; only these can be re-registered */
	struct vrb_live live;
};

static inline struct vrb_mr *to_vrb_mr(struct ibv_mr *mr)
{
	return (struct vrb_mr *)mr;
}

/* All return 0 or an errno value. */
int vrb_mr_reg(struct vrb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
	       struct vrb_mr **mr);
int vrb_mr_reg_dmabuf(struct vrb_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      unsigned int access, struct vrb_mr **mr);
int vrb_mr_reg_dm(struct vrb_pd *pd, struct vrb_dm *dm, uint64_t offset, size_t length,
		  unsigned int access, struct vrb_mr **mr);
int vrb_mr_alloc_null(struct vrb_pd *pd, struct vrb_mr **mr);
int vrb_mr_import(struct vrb_pd *pd, uint32_t handle, struct vrb_mr **mr);
void vrb_mr_unimport(struct vrb_mr *mr);

/* What the end of a region, or of a window, waits for (progress/drain.h). */
struct vrb_mr_waits {
	/* posted requests that name the region */
	void (*requests)(struct vrb_pd *pd, uint32_t lkey);
	/* copies by QPs that have begun and have no reference on the entry (access.c) */
	void (*copies)(struct vrb_pd *pd);
};

/*
 * For plain regions only. pd may be NULL to keep the PD. EBUSY if windows are bound; on failure the
 * region is unchanged.
 */
int vrb_mr_rereg(struct vrb_mr *mr, int flags, struct vrb_pd *pd, void *addr, size_t length,
		 unsigned int access, const struct vrb_mr_waits *waits);

/* EBUSY while windows are bound to it; waits for accesses in flight. */
int vrb_mr_dereg(struct vrb_mr *mr, const struct vrb_mr_waits *waits);

int vrb_mr_advise(struct vrb_pd *pd, uint32_t advice, uint32_t flags, const struct ibv_sge *sge,
		  uint32_t num_sge);

/*
 * For transports that move bytes themselves: checks like vrb_mem_read() and vrb_mem_write(), and
 * returns the address. The region stays registered until vrb_mem_unpin(), the counterpart that
 * keeps callers independent of the key table. A null region has no memory and cannot be pinned.
 */
enum reason vrb_mem_pin(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			enum mem_access access, struct wq_seg *seg, struct mr_entry **pin);
void vrb_mem_unpin(struct mr_entry *pin);

/*
 * The entry of a key's index, live or not, for a copy that keeps it registered by a hazard instead
 * (local/onesided.h); NULL if the index was never allocated.
 */
const struct mr_entry *vrb_mem_entry(uint32_t key);

/*
 * Another range of a pinned region. Returns false if the region has died or does not grant the
 * access.
 */
bool vrb_mem_pinned(const struct wq_qp *qp, const struct mr_entry *pin, uint32_t key, uint64_t va,
		    uint64_t len, enum mem_access access, struct wq_seg *seg);

/*
 * The memory operations of wq_ops. They may be called from any thread that holds the QP's lock, and
 * survive faults on memory that the program has unmapped.
 */
enum reason vrb_mem_check(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			  enum mem_access access);
enum reason vrb_mem_read(struct wq_qp *qp, uint32_t key, uint64_t va, void *dst, uint32_t len,
			 enum mem_access access);
enum reason vrb_mem_write(struct wq_qp *qp, uint32_t key, uint64_t va, const void *src,
			  uint32_t len, enum mem_access access);
enum reason vrb_mem_atomic(struct wq_qp *qp, uint32_t rkey, uint64_t va, enum atomic_op op,
			   uint64_t compare_add, uint64_t swap, uint64_t *original);
enum reason vrb_mem_atomic_write(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t value);
enum reason vrb_mem_flush(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
			  uint8_t placement, uint8_t selectivity, bool *later);

/*
 * Set by the room that owns the write-back thread: takes over the reference on `e` and notifies the
 * QP when the memory has been written back. Returns false, without the reference, if it cannot.
 * Must hold qp->lock.
 */
extern bool (*vrb_mem_flush_async)(struct wq_qp *qp, struct mr_entry *e, void *from, size_t len);
enum reason vrb_mem_invalidate(struct wq_qp *qp, uint32_t rkey, bool remote);
enum reason vrb_mem_bind(struct wq_qp *qp, const struct send_wqe *wqe);

#endif
