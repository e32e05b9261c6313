/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A single one-sided request of one piece, without lists, under a key of which this process has a
 * copy: of a mapped region, or the last one.
 */
#include "local/onesided.h"

#include <string.h>
#include <sys/uio.h>

#include "host/host.h"
#include "local/onesided_rules.h"
#include "local/parts.h"
#include "local/peer.h"
#include "local/region_map.h"
#include "run/nofault.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

/* L8: the fence between the hazards of onesided_one() and the loads that may find the keys dead. */
static inline void claim_fence(const struct local_peer *peer)
{
	if (likely(load_relaxed(peer->own_heavy) && load_relaxed(&peer->map.header->heavy)))
		light_fence();
	else
		full_fence();
}

/* L8, as claim_key(), for both keys; the caller makes the fence, and clears the hazards. */
static inline void set_hazards(struct local_peer *peer, uint32_t index,
			       const struct onesided_request *r)
{
	if (r->own)
		store_relaxed(&peer->own_key, mr_key_index(r->lkey));
	store_relaxed(&peer->map.lane->hazard[0], index);
}

/* L8, release: as in onesided_end() */
static inline void clear_hazards(struct local_peer *peer, const struct onesided_request *r)
{
	store_release(&peer->map.lane->hazard[0], 0);
	if (r->own)
		store_release(&peer->own_key, 0);
}

static inline bool claim_known(struct local_peer *peer, const struct region_map *m,
			       const struct onesided_request *r)
{
	set_hazards(peer, m->index, r);
	claim_fence(peer);
	return region_map_lives(m);
}

/* Returns the memory at this end; NULL: its key does not clearly grant the access. */
static inline void *own_memory(const struct wq_qp *wq, const struct onesided_request *r)
{
	enum mem_access access = r->access == MEM_REMOTE_WRITE ? MEM_LOCAL_READ : MEM_LOCAL_WRITE;
	const struct mr_entry *e = r->own;

	if (!e)
		return (void *)(uintptr_t)r->addr;
	if (!(load_acquire(&e->refs) & MR_LIVE) || e->kind == MR_NULL ||
	    mr_entry_check_local(e, r->lkey, wq->send_pdn, r->addr, r->len, access) != REASON_NONE)
		return NULL;
	return (void *)(uintptr_t)(e->host + (r->addr - e->va));
}

/* What an atomic makes of a word. */
static inline uint64_t atomic_result(const struct onesided_request *r, uint64_t original)
{
	if (r->op == ATOMIC_OP_FETCH_ADD)
		return original + r->compare_add;
	return original == r->compare_add ? r->swap : original;
}

/*
 * The original value is in its place before the atomic happens, so if that place faults, none has
 * happened. A loop, because instructions of programs may change the word meanwhile.
 */
static inline bool guard_atomic(uint64_t *there, void *here, const struct onesided_request *r)
{
	uint64_t found, original;

	if (!vrb_guard_copy(&found, there, sizeof(found)))
		return false;
	do {
		original = found;
		if (!vrb_guard_copy(here, &original, sizeof(original)) ||
		    !vrb_guard_cmp_swap64(there, original, atomic_result(r, original), &found))
			return false;
	} while (unlikely(found != original));
	return true;
}

/* The lock excludes emulated atomics through registrations that other processes cannot map. */
static inline bool run_atomic(struct local *l, void *there, void *here,
			      const struct onesided_request *r)
{
	bool done;

	if (unlikely((r->va | (uintptr_t)there) % sizeof(uint64_t)))
		return false;
	host_lock_atomics(l->host, (uintptr_t)there);
	done = guard_atomic(there, here, r);
	host_unlock_atomics(l->host, (uintptr_t)there);
	return done;
}

static inline bool run_guarded(struct local *l, void *there, void *here,
			       const struct onesided_request *r)
{
	switch (r->access) {
	case MEM_REMOTE_WRITE:
		return r->past ? vrb_guard_copy_past(there, here, r->len) :
				 vrb_guard_copy(there, here, r->len);
	case MEM_REMOTE_READ:
		return vrb_guard_copy(here, there, r->len);
	default:
		return run_atomic(l, there, here, r);
	}
}

static inline bool run_known(struct local *l, struct local_peer *peer, const struct wq_qp *wq,
			     const struct region_map *m, const struct onesided_request *r)
{
	void *here = own_memory(wq, r), *there = m->bytes + (r->va - m->key.va);

	if (unlikely(!here || !peer_in_reach(peer)))
		return false;
	if (unlikely(!run_guarded(l, there, here, r))) {
		region_map_faulted(peer->regions, there, r->len);
		return false;
	}
	return r->access != MEM_REMOTE_READ || peer_in_reach(peer);
}

static inline bool target_stands(const struct seg_qp *entry, const struct onesided_target *t)
{
	return load_acquire(&entry->gen) == t->gen && load_relaxed(&entry->qpn) == t->qpn;
}

static __attribute__((noinline)) bool find_target(const struct onesided_request *r,
						  const struct wq_qp *wq)
{
	struct seg_qp found;

	if (!peer_map_qp_copy(r->entry, wq->dest_qpn, &found) || !onesided_accepts(&found, wq))
		return false;
	*r->target = (struct onesided_target){
		.qpn = found.qpn, .gen = found.gen, .pdn = found.pdn, .access = found.access,
		.reads = found.max_dest_rd_atomic != 0,
	};
	return true;
}

/*
 * The peer's QP as it was last, or as it is now, and the key, which may have ended meanwhile, grant
 * the request.
 */
static inline bool grants(const struct mr_entry *key, const struct wq_qp *wq,
			  const struct onesided_request *r)
{
	const struct onesided_target *target = r->target;

	return (likely(target_stands(r->entry, target)) || find_target(r, wq)) &&
	       onesided_permits(target->access, target->reads, r->access) &&
	       mr_entry_check_remote(key, r->rkey, target->pdn, target->qpn, r->va, r->len,
				     r->access) == REASON_NONE;
}

/* Is the last key still what it was then? */
static bool last_key_lives(struct local_peer *peer, const struct mr_entry *e)
{
	struct mr_entry now;

	if (!(load_acquire(&e->refs) & MR_LIVE))
		return false;
	memcpy(&now, e, sizeof(now));
	return !memcmp(&now, &peer->whole_key, sizeof(now));
}

static bool move_one(struct local_peer *peer, uint64_t there, void *here,
		     const struct onesided_request *r)
{
	bool write = r->access == MEM_REMOTE_WRITE;
	uint64_t tail = write && r->len > ONESIDED_TAIL ? ONESIDED_TAIL : 0, body = r->len - tail;
	struct iovec local[] = { { here, body }, { (uint8_t *)here + body, tail } };
	struct iovec remote[] = { { (void *)(uintptr_t)there, STORES_IN_ORDER ? r->len : body },
				  { (void *)(uintptr_t)(there + body), tail } };
	onesided_move fn = write ? process_vm_writev : process_vm_readv;
	ssize_t n = SYS_RESULT(fn(peer->map.pid, local, tail ? 2 : 1, remote,
				  tail && !STORES_IN_ORDER ? 2 : 1, 0));

	onesided_note_refusal(peer, n);
	return n == (ssize_t)r->len && (write || peer_in_reach(peer));
}

static bool run_last(struct local *l, struct local_peer *peer, const struct wq_qp *wq,
		     const struct onesided_request *r)
{
	uint64_t there = peer->whole_key.host + (r->va - peer->whole_key.va);
	void *here = own_memory(wq, r);

	if (unlikely(!here || !peer_in_reach(peer)))
		return false;
	if (peer->self)
		return run_guarded(l, (void *)(uintptr_t)there, here, r);
	return move_one(peer, there, here, r);
}

/*
 * Under the last key, of a region that cannot be mapped. The fence is a full one, because owners
 * make heavy ones only while regions are mapped.
 */
static __attribute__((noinline)) bool one_by_last_key(struct local *l, struct local_peer *peer,
						      const struct wq_qp *wq,
						      const struct onesided_request *r)
{
	const struct mr_entry *e = peer_map_key(&peer->map, mr_key_index(r->rkey));
	const struct mr_entry *key = &peer->whole_key;
	bool done;

	if (e == NULL || key->rkey != r->rkey || key->kind != MR_REGION ||
	    !load_relaxed(&peer->cma))
		return false;
	if (!peer->self && (key->refs & MR_EDITION || r->access == MEM_REMOTE_ATOMIC))
		return false;
	if (!grants(key, wq, r))
		return false;
	set_hazards(peer, mr_key_index(r->rkey), r);
	full_fence();
	done = last_key_lives(peer, e) && target_stands(r->entry, r->target) &&
	       run_last(l, peer, wq, r);
	clear_hazards(peer, r);
	return done;
}

bool onesided_one(struct local *l, struct local_peer *peer, const struct wq_qp *wq,
		  const struct onesided_request *r)
{
	const struct region_map *m = NULL;
	bool done;

	if (peer->regions != NULL)
		m = region_map_known(peer->regions, mr_key_index(r->rkey), r->access);
	if (m == NULL)
		return one_by_last_key(l, peer, wq, r);
	if (!grants(&m->key, wq, r))
		return false;
	done = claim_known(peer, m, r) && target_stands(r->entry, r->target) &&
	       run_known(l, peer, wq, m, r);
	clear_hazards(peer, r);
	return done;
}
