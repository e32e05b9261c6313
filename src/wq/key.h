/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory keys: their entries and the access check, the only one.
 *
 * A key is random:4 | index:20 | tag:8. A region's lkey and rkey are the same number; a window has
 * only an rkey, whose tag belongs to its user. Entries hold no pointers into the library: other
 * processes of the host see copies of them (local/layout.h), and make the same check before they
 * access the owner's memory themselves.
 */
#ifndef VRB_WQ_KEY_H
#define VRB_WQ_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "wq/reason.h"

/* Kinds of access to registered memory. The check returns a reason (REASON_NONE: granted). */
enum mem_access {
	MEM_LOCAL_READ,		/* key is an lkey, any region of the PD */
	MEM_LOCAL_WRITE,	/* key is an lkey, needs IBV_ACCESS_LOCAL_WRITE */
	/* as MEM_LOCAL_WRITE, for a receive: the region is in the receive queue's PD */
	MEM_RECV_WRITE,
	MEM_REMOTE_READ,	/* key is an rkey of a region or window */
	MEM_REMOTE_WRITE,
	MEM_REMOTE_ATOMIC,
	MEM_REMOTE_FLUSH_GLOBAL,
	MEM_REMOTE_FLUSH_PERSISTENT,
};

enum mr_kind {
	MR_FREE,
	MR_REGION,
	MR_WINDOW,
	MR_NULL,	/* reads return zeros, writes are discarded */
	MR_DM,		/* device memory, addressed from 0 */
};

#define MR_LIVE 0x80000000u

/*
 * A region of a shared file gets a new edition each time it goes live. So peers notice when the
 * region that they have mapped is no longer the one that the key names. 0: peers must not map it.
 */
#define MR_EDITION (~MR_LIVE)

enum {
	MR_INDEX_BITS = 20,
	MR_INDEX_MAX = (1 << MR_INDEX_BITS) - 1,	/* index 0 is never used */
};

struct mr_entry {
	/*
	 * atomic: bit 31 live, low bits number of accesses in flight in the owner's threads; in the
	 * copy for others, the edition
	 */
	uint32_t refs;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t pdn;
	uint32_t access;	/* IBV_ACCESS_* */
	uint8_t kind;		/* enum mr_kind */
	uint8_t mw_type;	/* windows: enum ibv_mw_type; type 2 is 2B */
	uint8_t bound;		/* windows: has a binding */
	uint8_t zero_based : 1;
	uint8_t shared : 1;	/* regions: the memory is a shared mapping of one file */
	uint64_t va;		/* start address as peers use it (iova) */
	uint64_t length;
	uint64_t host;		/* start address in the owner's memory */
	uint32_t parent;	/* windows: index of the region it is bound to */
	/* regions: number of bound windows (atomic); dereg fails unless 0 */
	uint32_t windows;
	uint32_t qpn;		/* windows type 2: QP it is bound to */
	uint32_t sum;		/* in the copy for others: mr_entry_sum() */
};

/*
 * Tables of entries begin at a page. The type itself requires no alignment, because copies of it
 * are in thread-local storage (core/qp/error_report.c).
 */
_Static_assert(sizeof(struct mr_entry) == 64, "one entry, one cache line");

static inline uint32_t mr_key_index(uint32_t key)
{
	return key >> 8 & MR_INDEX_MAX;
}

static inline bool mem_access_is_remote(enum mem_access access)
{
	return access >= MEM_REMOTE_READ;
}

/*
 * Detects corrupted entries: a digest of everything after refs. Against accidents, not attacks: a
 * process that can write here can write to the owner's memory anyway.
 */
uint32_t mr_entry_sum(const struct mr_entry *e);

static inline bool mr_entry_spans(const struct mr_entry *e, uint64_t va, uint64_t len)
{
	return va >= e->va && len <= e->length && va - e->va <= e->length - len;
}

static inline enum reason mr_entry_check_local(const struct mr_entry *e, uint32_t key, uint32_t pdn,
					       uint64_t va, uint64_t len, enum mem_access access)
{
	uint32_t need = access == MEM_LOCAL_READ ? 0 : IBV_ACCESS_LOCAL_WRITE;

	if (e->kind == MR_WINDOW || e->lkey != key)
		return REASON_LKEY_UNKNOWN;
	if (e->pdn != pdn)
		return REASON_LKEY_PD;
	if (need & ~load_relaxed(&e->access))	/* ibv_rereg_mr() may change it */
		return REASON_LKEY_ACCESS;
	return mr_entry_spans(e, va, len) ? REASON_NONE : REASON_LKEY_RANGE;
}

/* What a remote access needs: of the key's entry and, up to atomics, of the QP. */
static inline uint32_t mem_access_right(enum mem_access access)
{
	switch (access) {
	case MEM_REMOTE_READ:
		return IBV_ACCESS_REMOTE_READ;
	case MEM_REMOTE_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case MEM_REMOTE_ATOMIC:
		return IBV_ACCESS_REMOTE_ATOMIC;
	case MEM_REMOTE_FLUSH_GLOBAL:
		return IBV_ACCESS_FLUSH_GLOBAL;
	default:
		return IBV_ACCESS_FLUSH_PERSISTENT;
	}
}

static inline enum reason mr_entry_check_remote(const struct mr_entry *e, uint32_t key,
						uint32_t pdn, uint32_t qpn, uint64_t va,
						uint64_t len, enum mem_access access)
{
	if (e->rkey != key || e->kind == MR_NULL)
		return REASON_RKEY_UNKNOWN;
	if (e->pdn != pdn)
		return REASON_RKEY_PD;
	if (e->kind == MR_WINDOW && e->mw_type == IBV_MW_TYPE_2 && e->qpn != qpn)
		return REASON_RKEY_WINDOW_QP;
	if (mem_access_right(access) & ~load_relaxed(&e->access))
		return REASON_RKEY_ACCESS;
	return mr_entry_spans(e, va, len) ? REASON_NONE : REASON_RKEY_RANGE;
}

/*
 * May a QP of protection domain pdn, with number qpn (the owner's), use `key` for this access to
 * [va, va + len)? The entry is live, or a copy of one that was.
 */
static inline enum reason mr_entry_check(const struct mr_entry *e, uint32_t key, uint32_t pdn,
					 uint32_t qpn, uint64_t va, uint64_t len,
					 enum mem_access access)
{
	if (mem_access_is_remote(access))
		return mr_entry_check_remote(e, key, pdn, qpn, va, len, access);
	return mr_entry_check_local(e, key, pdn, va, len, access);
}

#endif
