/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and the key table.
 *
 * One table per process maps keys to entries (wq/key.h).  Entries are never freed, so that a stale
 * key finds a dead entry instead of freed memory.
 *
 * An access takes a reference on the entry (one atomic add), checks, copies, and drops it;
 * deregistration marks the entry dead and waits for the references to drain.
 *
 *	mr.c	regions: registration, its checks, deregistration, advice, import
 *	mrtab.c	the table: keys, references
 *	mem.c	the accesses of queue pairs through the table
 *	mw.c	windows; dm.c device memory
 */
#ifndef VRB_CORE_MR_H
#define VRB_CORE_MR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/live.h"
#include "wq/qp.h"

struct vrb_dm;
struct vrb_pd;

struct vrb_mr {
	struct ibv_mr ibv;
	uint32_t index; /* in the table */
	uint32_t access;
	void *mapping; /* dma-buf mapped for it, or NULL */
	size_t mapping_len;
	struct vrb_dm *dm; /* device memory it shows, or NULL */
	bool imported;     /* shares the entry of another vrb_mr */
	bool plain;        /* made by ibv_reg_mr() and its kind; only these can be changed */
	struct vrb_live live;
};

static inline struct vrb_mr *to_vrb_mr(struct ibv_mr *mr)
{
	return (struct vrb_mr *)mr;
}

/* Regions. All return 0 or an errno value. */
int vrb_mr_reg(struct vrb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
	       struct vrb_mr **mr);
int vrb_mr_reg_dmabuf(struct vrb_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      unsigned int access, struct vrb_mr **mr);
int vrb_mr_reg_dm(struct vrb_pd *pd, struct vrb_dm *dm, uint64_t offset, size_t length,
		  unsigned int access, struct vrb_mr **mr);
int vrb_mr_alloc_null(struct vrb_pd *pd, struct vrb_mr **mr);
int vrb_mr_import(struct vrb_pd *pd, uint32_t handle, struct vrb_mr **mr);
void vrb_mr_unimport(struct vrb_mr *mr);

/* Of plain regions. pd may be NULL (keep); EBUSY with windows bound. The region is unchanged on failure. */
int vrb_mr_rereg(struct vrb_mr *mr, int flags, struct vrb_pd *pd, void *addr, size_t length,
		 unsigned int access);

/* EBUSY while windows are bound to it; waits for accesses in flight. */
int vrb_mr_dereg(struct vrb_mr *mr);

int vrb_mr_advise(struct vrb_pd *pd, uint32_t advice, uint32_t flags, const struct ibv_sge *sge,
		  uint32_t num_sge);

/*
 * For transports that move bytes themselves: checks as vrb_mem_read() and vrb_mem_write() do, and
 * says where the bytes are.  The region stays until vrb_mem_unpin().  What has no memory of its own
 * (a null region) cannot be pinned.
 */
enum reason vrb_mem_pin(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			enum mem_access access, struct wq_seg *seg, struct mr_entry **pin);
void vrb_mem_unpin(struct mr_entry *pin);

/* Another piece of a region that is pinned already; false: it is not, or does not grant that. */
bool vrb_mem_pinned(const struct wq_qp *qp, const struct mr_entry *pin, uint32_t key, uint64_t va,
		    uint64_t len, enum mem_access access, struct wq_seg *seg);

/*
 * The wq_ops memory calls, implemented here over the table for a QP of protection domain wq->...
 * (see vrb_qp.pdn). They may be called from any thread that holds the QP's lock, and never fault on
 * memory that the program unmapped.
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
enum reason vrb_mem_invalidate(struct wq_qp *qp, uint32_t rkey, bool remote);
enum reason vrb_mem_bind(struct wq_qp *qp, const struct send_wqe *wqe);

#endif
