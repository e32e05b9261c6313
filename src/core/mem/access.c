/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses by queue pairs to registered memory: key -> entry -> rights -> range -> guarded copy.
 *
 * From the check to the end of the copy, deregistration waits for the access. Short copies need
 * nothing for that but the locks that they run under, which deregistration takes in turn
 * (progress/drain.h): writes run under the lock of an RX queue, or belong to a request of the QP;
 * reads of requests run under the lock of their QP, which has been on the PD's list of senders
 * since it was posted. All other accesses, and those through windows, which end under a QP's lock,
 * hold a reference on the entry.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/state.h"
#include "core/mem/key_table.h"
#include "core/mem/mr.h"
#include "core/mem/mw.h"
#include "core/mem/refusal.h"
#include "host/host.h"
#include "run/nofault.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

/* The PD that the key must belong to. */
static uint32_t domain_of(const struct wq_qp *qp, enum mem_access access)
{
	if (mem_access_is_remote(access))
		return qp->pdn;
	return access == MEM_RECV_WRITE ? qp->recv_pdn : qp->send_pdn;
}

static enum reason refuse(const struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			  enum mem_access access, enum reason why, struct mr_entry *e)
{
	vrb_refusal_note(qp, key, va, len, access, why, e);
	if (e)
		mr_entry_put(e);
	return why;
}

static enum reason unknown(enum mem_access access)
{
	return mem_access_is_remote(access) ? REASON_RKEY_UNKNOWN : REASON_LKEY_UNKNOWN;
}

/* Returns a reference on the entry if it grants the access, or the reason it does not. */
static __attribute__((always_inline)) inline
enum reason acquire(const struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
		    enum mem_access access, struct mr_entry **out)
{
	struct mr_entry *e = mr_entry_get(key);
	enum reason why;

	if (unlikely(!e))
		return refuse(qp, key, va, len, access, unknown(access), NULL);
	why = mr_entry_check(e, key, domain_of(qp, access), qp->qpn, va, len, access);
	if (unlikely(why != REASON_NONE))
		return refuse(qp, key, va, len, access, why, e);
	*out = e;
	return REASON_NONE;
}

/*
 * As acquire(), for a short copy; *held: the entry has a reference, which the caller drops.
 */
static __attribute__((always_inline)) inline
enum reason find(const struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
		 enum mem_access access, struct mr_entry **out, bool *held)
{
	struct mr_entry *e = mr_entry_peek(key);

	*held = false;
	if (likely(e && mr_entry_check(e, key, domain_of(qp, access), qp->qpn, va, len, access) ==
				REASON_NONE)) {
		*out = e;
		return REASON_NONE;
	}
	*held = true;
	return acquire(qp, key, va, len, access, out);
}

static void *host_address(const struct mr_entry *e, uint64_t va)
{
	return (void *)(uintptr_t)(e->host + (va - e->va));
}

static enum reason unmapped(enum mem_access access)
{
	return mem_access_is_remote(access) ? REASON_RKEY_UNMAPPED : REASON_LKEY_UNMAPPED;
}

/* A zero-length access needs no valid key, so the key is not checked. */
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
	bool held = true;

	if (!len)
		return REASON_NONE;
	why = likely(access == MEM_LOCAL_READ) ? find(qp, key, va, len, access, &e, &held)
					       : acquire(qp, key, va, len, access, &e);
	if (unlikely(why != REASON_NONE))
		return why;
	if (unlikely(e->kind == MR_NULL))
		memset(dst, 0, len);
	else if (unlikely(!vrb_guard_copy(dst, host_address(e, va), len)))
		why = unmapped(access);
	if (held)
		mr_entry_put(e);
	return why;
}

enum reason vrb_mem_write(struct wq_qp *qp, uint32_t key, uint64_t va, const void *src,
			  uint32_t len, enum mem_access access)
{
	struct mr_entry *e;
	enum reason why;
	bool held;

	if (!len)
		return REASON_NONE;
	why = find(qp, key, va, len, access, &e, &held);
	if (unlikely(why != REASON_NONE))
		return why;
	if (likely(e->kind != MR_NULL) && unlikely(!vrb_guard_copy(host_address(e, va), src, len)))
		why = unmapped(access);
	if (unlikely(held))
		mr_entry_put(e);
	return why;
}

enum reason vrb_mem_pin(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
			enum mem_access access, struct wq_seg *seg, struct mr_entry **pin)
{
	enum reason why = acquire(qp, key, va, len, access, pin);

	if (why != REASON_NONE)
		return why;
	if ((*pin)->kind == MR_NULL) {
		mr_entry_put(*pin);
		return unmapped(access);
	}
	*seg = (struct wq_seg){ (uintptr_t)host_address(*pin, va), len };
	return REASON_NONE;
}

/*
 * A function of its own, not mr_entry_put(): callers that pin by key then do not depend on the key
 * table, and a pin can get a different representation.
 */
void vrb_mem_unpin(struct mr_entry *pin)
{
	mr_entry_put(pin);
}

bool vrb_mem_pinned(const struct wq_qp *qp, const struct mr_entry *pin, uint32_t key, uint64_t va,
		    uint64_t len, enum mem_access access, struct wq_seg *seg)
{
	if (mr_entry_check(pin, key, domain_of(qp, access), qp->qpn, va, len,
			   access) != REASON_NONE)
		return false;
	*seg = (struct wq_seg){ (uintptr_t)host_address(pin, va), len };
	return true;
}

static bool atomic_aligned(uint64_t *p, enum atomic_op op, uint64_t compare_add, uint64_t swap,
			   uint64_t *original)
{
	if (op == ATOMIC_OP_CMP_SWAP)
		return vrb_guard_cmp_swap64(p, compare_add, swap, original);
	return vrb_guard_fetch_add64(p, compare_add, original);
}

/*
 * The remote address is aligned but ours is not: the region's iova has a different alignment. The
 * lock excludes other RDMA atomics, but not the program's own.
 */
static bool atomic_unaligned(void *p, enum atomic_op op, uint64_t compare_add, uint64_t swap,
			     uint64_t *original)
{
	uint64_t next;
	bool ok;

	*original = 0;
	ok = vrb_guard_copy(original, p, sizeof(*original));
	if (op == ATOMIC_OP_FETCH_ADD)
		next = *original + compare_add;
	else
		next = *original == compare_add ? swap : *original;
	ok = ok && vrb_guard_copy(p, &next, sizeof(next));
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
	host_lock_atomics(vrb.host, (uintptr_t)p);
	if (likely((uintptr_t)p % sizeof(uint64_t) == 0))
		ok = atomic_aligned(p, op, compare_add, swap, original);
	else
		ok = atomic_unaligned(p, op, compare_add, swap, original);
	host_unlock_atomics(vrb.host, (uintptr_t)p);
	mr_entry_put(e);
	return ok ? REASON_NONE : REASON_RKEY_UNMAPPED;
}

enum reason vrb_mem_atomic_write(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t value)
{
	struct mr_entry *e;
	/* Annex A19: an ATOMIC WRITE needs remote write permission. */
	enum reason why = acquire(qp, rkey, va, sizeof(value), MEM_REMOTE_WRITE, &e);
	void *p;
	bool ok;

	if (why != REASON_NONE)
		return why;
	p = host_address(e, va);
	/*
	 * The lock keeps this store out of an atomic that a local peer is executing, which would
	 * undo it.
	 */
	host_lock_atomics(vrb.host, (uintptr_t)p);
	if (likely((uintptr_t)p % sizeof(uint64_t) == 0))
		ok = vrb_guard_store64(p, value);
	else
		ok = vrb_guard_copy(p, &value, sizeof(value));
	host_unlock_atomics(vrb.host, (uintptr_t)p);
	mr_entry_put(e);
	return ok ? REASON_NONE : REASON_RKEY_UNMAPPED;
}

bool (*vrb_mem_flush_async)(struct wq_qp *qp, struct mr_entry *e, void *from, size_t len);

/*
 * Memory is coherent, so global visibility only needs a fence. Persistence means writing back the
 * file behind the mapping: a helper thread does that and takes over the reference. Where it cannot,
 * we call msync() here. An XRC responder cannot defer because it may move to another process
 * meanwhile.
 */
static enum reason flush_range(struct wq_qp *qp, struct mr_entry *e, uint64_t va, uint64_t len,
			       uint8_t placement, bool *later)
{
	uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)host_address(e, va);
	uintptr_t from = start & ~(page - 1);
	int cancel, err;

	full_fence();
	if (!(placement & IBV_FLUSH_PERSISTENT) || e->kind == MR_DM)
		return REASON_NONE;
	*later = qp->type == IBV_QPT_RC &&
		 vrb_mem_flush_async &&
		 vrb_mem_flush_async(qp, e, (void *)from, start - from + len);
	if (*later)
		return REASON_NONE;
	cancel = cancel_off();
	err = msync((void *)from, start - from + len, MS_SYNC);
	cancel_on(cancel);
	return err == 0 ? REASON_NONE : REASON_RKEY_UNMAPPED;
}

enum reason vrb_mem_flush(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
			  uint8_t placement, uint8_t selectivity, bool *later)
{
	enum mem_access access = placement & IBV_FLUSH_PERSISTENT ? MEM_REMOTE_FLUSH_PERSISTENT
								  : MEM_REMOTE_FLUSH_GLOBAL;
	bool whole = selectivity == IBV_FLUSH_MR;
	struct mr_entry *e = mr_entry_get(rkey);
	enum reason why = REASON_NONE;

	if (!e)
		return REASON_RKEY_UNKNOWN;
	if (whole) {
		va = e->va;
		len = e->length;
	}
	why = mr_entry_check(e, rkey, qp->pdn, qp->qpn, va, len, access);
	if (why == REASON_NONE && (placement & IBV_FLUSH_GLOBAL) &&
	    !(e->access & IBV_ACCESS_FLUSH_GLOBAL))
		why = REASON_RKEY_ACCESS;
	if (why == REASON_NONE)
		why = flush_range(qp, e, va, len, placement, later);
	if (!*later)
		mr_entry_put(e);
	return why;
}
