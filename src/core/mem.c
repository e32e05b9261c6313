/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses of queue pairs to registered memory: key -> entry -> rights -> range -> guarded copy.
 *
 * Each access holds a reference on its entry from the check to the end of the copy, so that deregistration waits for it.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/mr.h"
#include "core/mrtab.h"
#include "core/mw.h"
#include "core/qp.h"
#include "util/atomic.h"
#include "util/compiler.h"

/* What enum mem_access means for the entry. */
static const struct {
	uint32_t need;
	bool remote;
} access_rules[] = {
	[MEM_LOCAL_READ] = { 0, false },
	[MEM_LOCAL_WRITE] = { IBV_ACCESS_LOCAL_WRITE, false },
	[MEM_REMOTE_READ] = { IBV_ACCESS_REMOTE_READ, true },
	[MEM_REMOTE_WRITE] = { IBV_ACCESS_REMOTE_WRITE, true },
	[MEM_REMOTE_ATOMIC] = { IBV_ACCESS_REMOTE_ATOMIC, true },
	[MEM_REMOTE_FLUSH_GLOBAL] = { IBV_ACCESS_FLUSH_GLOBAL, true },
	[MEM_REMOTE_FLUSH_PERSISTENT] = { IBV_ACCESS_FLUSH_PERSISTENT, true },
};

/* Atomics on addresses that are aligned for the peer but not in our memory (regions with an iova of another alignment). */
static pthread_mutex_t unaligned_lock = PTHREAD_MUTEX_INITIALIZER;

static bool in_range(const struct mr_entry *e, uint64_t va, uint64_t len)
{
	return va >= e->va && len <= e->length && va - e->va <= e->length - len;
}

static enum reason check_local(const struct mr_entry *e, uint32_t key, uint32_t pdn, uint32_t need,
			       uint64_t va, uint64_t len)
{
	if (e->kind == MR_WINDOW || e->lkey != key)
		return REASON_LKEY_UNKNOWN;
	if (e->pdn != pdn)
		return REASON_LKEY_PD;
	if (need & ~e->access)
		return REASON_LKEY_ACCESS;
	return in_range(e, va, len) ? REASON_NONE : REASON_LKEY_RANGE;
}

static enum reason check_remote(const struct mr_entry *e, uint32_t key, uint32_t pdn, uint32_t qpn,
				uint32_t need, uint64_t va, uint64_t len)
{
	if (e->rkey != key || e->kind == MR_NULL)
		return REASON_RKEY_UNKNOWN;
	if (e->pdn != pdn)
		return REASON_RKEY_PD;
	if (e->kind == MR_WINDOW && e->mw_type == IBV_MW_TYPE_2 && e->qpn != qpn)
		return REASON_RKEY_WINDOW_QP;
	if (need & ~e->access)
		return REASON_RKEY_ACCESS;
	return in_range(e, va, len) ? REASON_NONE : REASON_RKEY_RANGE;
}

/* A reference on the entry that grants the access, or why not. */
static enum reason acquire(const struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			   enum mem_access access, struct mr_entry **out)
{
	uint32_t pdn = container_of(qp, struct vrb_qp, wq)->pdn;
	bool remote = access_rules[access].remote;
	uint32_t need = access_rules[access].need;
	struct mr_entry *e = mr_entry_get(key);
	enum reason why;

	if (unlikely(!e))
		return remote ? REASON_RKEY_UNKNOWN : REASON_LKEY_UNKNOWN;
	why = remote ? check_remote(e, key, pdn, qp->qpn, need, va, len) :
		       check_local(e, key, pdn, need, va, len);
	if (unlikely(why != REASON_NONE)) {
		mr_entry_put(e);
		return why;
	}
	*out = e;
	return REASON_NONE;
}

static void *host_address(const struct mr_entry *e, uint64_t va)
{
	return (void *)(uintptr_t)(e->host + (va - e->va));
}

static enum reason unmapped(enum mem_access access)
{
	return access_rules[access].remote ? REASON_RKEY_UNMAPPED : REASON_LKEY_UNMAPPED;
}

/* A length of zero touches nothing, and its key is not looked at: a zero-length request needs none. */
enum reason vrb_mem_check(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			  enum mem_access access)
{
	struct mr_entry *e;
	enum reason why;

	if (!len)
		return REASON_NONE;
	why = acquire(qp, key, va, len, access, &e);
	if (why == REASON_NONE)
		mr_entry_put(e);
	return why;
}

enum reason vrb_mem_read(struct wq_qp *qp, uint32_t key, uint64_t va, void *dst, uint32_t len,
			 enum mem_access access)
{
	struct mr_entry *e;
	enum reason why;

	if (!len)
		return REASON_NONE;
	why = acquire(qp, key, va, len, access, &e);
	if (unlikely(why != REASON_NONE))
		return why;
	if (unlikely(e->kind == MR_NULL))
		memset(dst, 0, len);
	else if (unlikely(!vrb_guard_copy(dst, host_address(e, va), len)))
		why = unmapped(access);
	mr_entry_put(e);
	return why;
}

enum reason vrb_mem_write(struct wq_qp *qp, uint32_t key, uint64_t va, const void *src, uint32_t len,
			  enum mem_access access)
{
	struct mr_entry *e;
	enum reason why;

	if (!len)
		return REASON_NONE;
	why = acquire(qp, key, va, len, access, &e);
	if (unlikely(why != REASON_NONE))
		return why;
	if (likely(e->kind != MR_NULL) && unlikely(!vrb_guard_copy(host_address(e, va), src, len)))
		why = unmapped(access);
	mr_entry_put(e);
	return why;
}

static bool atomic_aligned(uint64_t *p, enum atomic_op op, uint64_t compare_add, uint64_t swap,
			   uint64_t *original)
{
	if (op == ATOMIC_OP_CMP_SWAP)
		return vrb_guard_cmp_swap64(p, compare_add, swap, original);
	return vrb_guard_fetch_add64(p, compare_add, original);
}

/* IBV_ATOMIC_HCA: excluded against the other atomics of the device, which meet it here. */
static bool atomic_unaligned(void *p, enum atomic_op op, uint64_t compare_add, uint64_t swap,
			     uint64_t *original)
{
	uint64_t next;
	bool ok;

	*original = 0;
	pthread_mutex_lock(&unaligned_lock);
	ok = vrb_guard_copy(original, p, sizeof(*original));
	if (op == ATOMIC_OP_FETCH_ADD)
		next = *original + compare_add;
	else
		next = *original == compare_add ? swap : *original;
	ok = ok && vrb_guard_copy(p, &next, sizeof(next));
	pthread_mutex_unlock(&unaligned_lock);
	return ok;
}

enum reason vrb_mem_atomic(struct wq_qp *qp, uint32_t rkey, uint64_t va, enum atomic_op op,
			   uint64_t compare_add, uint64_t swap, uint64_t *original)
{
	struct mr_entry *e;
	enum reason why = acquire(qp, rkey, va, sizeof(uint64_t), MEM_REMOTE_ATOMIC, &e);
	void *p;
	bool ok;

	if (why != REASON_NONE)
		return why;
	p = host_address(e, va);
	if (likely((uintptr_t)p % sizeof(uint64_t) == 0))
		ok = atomic_aligned(p, op, compare_add, swap, original);
	else
		ok = atomic_unaligned(p, op, compare_add, swap, original);
	mr_entry_put(e);
	return ok ? REASON_NONE : REASON_RKEY_UNMAPPED;
}

enum reason vrb_mem_atomic_write(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t value)
{
	struct mr_entry *e;
	/* Annex A19: an ATOMIC WRITE needs the right to write. */
	enum reason why = acquire(qp, rkey, va, sizeof(value), MEM_REMOTE_WRITE, &e);
	void *p;
	bool ok;

	if (why != REASON_NONE)
		return why;
	p = host_address(e, va);
	if (likely((uintptr_t)p % sizeof(uint64_t) == 0))
		ok = vrb_guard_store64(p, value);
	else
		ok = vrb_guard_copy(p, &value, sizeof(value));
	mr_entry_put(e);
	return ok ? REASON_NONE : REASON_RKEY_UNMAPPED;
}

/* Memory is coherent: visibility needs no more than a fence. Persistence is that of the file behind the mapping. */
static bool flush_range(const struct mr_entry *e, uint64_t va, uint64_t len, uint8_t placement)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)host_address(e, va);
	uintptr_t from = start & ~(page - 1);

	full_fence();
	if (!(placement & IBV_FLUSH_PERSISTENT) || e->kind == MR_DM)
		return true;
	return msync((void *)from, start - from + len, MS_SYNC) == 0;
}

enum reason vrb_mem_flush(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
			  uint8_t placement, uint8_t selectivity)
{
	enum mem_access access = placement & IBV_FLUSH_PERSISTENT ? MEM_REMOTE_FLUSH_PERSISTENT :
								    MEM_REMOTE_FLUSH_GLOBAL;
	bool whole = selectivity == IBV_FLUSH_MR;
	struct mr_entry *e = mr_entry_get(rkey);
	enum reason why = REASON_NONE;

	if (!e)
		return REASON_RKEY_UNKNOWN;
	if (whole) {
		va = e->va;
		len = e->length;
	}
	why = check_remote(e, rkey, container_of(qp, struct vrb_qp, wq)->pdn, qp->qpn,
			   access_rules[access].need, va, len);
	if (why == REASON_NONE && (placement & IBV_FLUSH_GLOBAL) &&
	    !(e->access & IBV_ACCESS_FLUSH_GLOBAL))
		why = REASON_RKEY_ACCESS;
	if (why == REASON_NONE && !flush_range(e, va, len, placement))
		why = REASON_RKEY_UNMAPPED;
	mr_entry_put(e);
	return why;
}
