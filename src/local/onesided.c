/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks and system calls of one-sided access; onesided.h documents the protocol. */
#include "local/onesided.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "local/region_map.h"
#include "run/nofault.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

static inline bool accepts_requests(const struct seg_qp *target, const struct wq_qp *wq)
{
	if (target->type != wq->type || target->dest_qpn != wq->qpn ||
	    (wq->type != IBV_QPT_RC && wq->type != IBV_QPT_UC))
		return false;
	/* It was reset since, and would not take our packets. UC takes any PSN. */
	if (wq->type == IBV_QPT_RC && target->rq_psn != (uint16_t)wq->sq_psn)
		return false;
	/* In RTR the first request must be a packet, because the QP raises an event for it. */
	if (target->state != IBV_QPS_RTS && target->state != IBV_QPS_SQD &&
	    !(target->state == IBV_QPS_RTR && target->flags & SEG_QP_ESTABLISHED))
		return false;
	return memcmp(target->src_gid, wq->path.dst.raw, sizeof(target->src_gid)) == 0 &&
	       memcmp(target->dest_gid, wq->path.src.raw, sizeof(target->dest_gid)) == 0;
}

/* Does a remote QP with these rights and READ resources grant such requests? */
static bool may_access(uint32_t rights, bool reads, enum mem_access access)
{
	return rights & mem_access_right(access) && (access == MEM_REMOTE_WRITE || reads);
}

bool onesided_begin(struct onesided *o, struct local_peer *peer, const struct wq_qp *wq)
{
	o->peer = peer;
	o->n_op = o->n_local = o->n_remote = o->n_key = 0;
	o->total = 0;
	o->mapped = false;
	if (!load_relaxed(&peer->cma))
		return false;
	o->entry = peer_map_qp(&peer->map, wq->dest_qpn, &o->target);
	return o->entry != NULL && accepts_requests(&o->target, wq);
}

/*
 * Copies an entry; false if it is corrupted. Comparing it with the last valid copy is cheaper than
 * computing its digest.
 */
static bool copy_whole(struct local_peer *peer, const struct mr_entry *e, struct mr_entry *copy)
{
	memcpy(copy, e, sizeof(*copy));
	if (likely(memcmp(copy, &peer->whole_key, sizeof(*copy)) == 0))
		return true;
	if (copy->sum != mr_entry_sum(copy))
		return false;
	peer->whole_key = *copy;
	return true;
}

/*
 * L8. On success o->key is a copy of the entry, valid while our hazard is set. Returns false, with
 * no hazard set, if there is no such entry.
 */
static bool claim_key(struct onesided *o, uint32_t index)
{
	const struct mr_entry *e = peer_map_key(&o->peer->map, index);
	struct mr_entry copy;
	uint32_t *hazard, refs;

	if (e == NULL || o->n_key == LANE_HAZARDS)
		return false;
	hazard = &o->peer->map.lane->hazard[o->n_key];
	store_relaxed(hazard, index);
	full_fence();
	refs = load_acquire(&e->refs);
	if ((refs & MR_LIVE) && copy_whole(o->peer, e, &copy)) {
		o->key = copy;
		o->edition = refs & MR_EDITION;
		o->n_key++;
		return true;
	}
	store_release(hazard, 0);
	return false;
}

/* Most requests of a list name one key; a single hazard covers them. */
static bool granted(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		    enum mem_access access)
{
	bool known = o->n_key > 0 && o->key.rkey == rkey;

	return (known || claim_key(o, mr_key_index(rkey))) &&
	       mr_entry_check(&o->key, rkey, o->target.pdn, o->target.qpn, va, len, access) ==
		       REASON_NONE;
}

/*
 * Finds the region of a window, which stays registered while the window is bound. Returns its
 * edition or 0.
 */
static uint32_t region_of(const struct onesided *o, uint32_t index, struct mr_entry *region)
{
	const struct mr_entry *e = peer_map_key(&o->peer->map, index);
	uint32_t refs;

	if (e == NULL)
		return 0;
	refs = load_acquire(&e->refs);
	if (!(refs & MR_LIVE) || !copy_whole(o->peer, e, region))
		return 0;
	if (o->key.host < region->host || o->key.host - region->host > region->length ||
	    o->key.length > region->length - (o->key.host - region->host))
		return 0;
	return refs & MR_EDITION;
}

/*
 * Returns our mapping of byte va of the last key, contiguous with the rest of its range; NULL if it
 * is not mapped.
 */
static uint8_t *mapped_address(struct onesided *o, uint64_t va, enum mem_access access)
{
	uint32_t index = mr_key_index(o->key.rkey), edition = o->edition;
	uint64_t host = o->key.host + (va - o->key.va);
	const struct mr_entry *region = &o->key;
	struct local_peer *peer = o->peer;
	struct mr_entry of_window;
	uint8_t *base;

	if (peer->self)
		return (uint8_t *)(uintptr_t)host;
	if (unlikely(o->key.kind == MR_WINDOW)) {
		index = o->key.parent & MR_INDEX_MAX;
		region = &of_window;
		edition = region_of(o, index, &of_window);
	}
	if (likely(edition == 0))
		return NULL;
	if (unlikely(peer->regions == NULL))
		peer->regions = calloc(1, sizeof(*peer->regions));
	if (peer->regions == NULL)
		return NULL;
	base = region_map_find(peer->regions, &peer->map, index, edition, region, access,
			       o->mapped);
	return base != NULL ? base + (host - region->host) : NULL;
}

/* L8: the fence between the hazards of onesided_one() and the loads that may find the keys dead. */
static inline void claim_fence(const struct local_peer *peer)
{
	if (likely(load_relaxed(peer->own_heavy) && load_relaxed(&peer->map.header->heavy)))
		light_fence();
	else
		full_fence();
}

/* L8, as claim_key(), for both keys; the caller clears the hazards in any case. */
static inline bool claim_known(struct local_peer *peer, const struct region_map *m,
			       const struct onesided_request *r)
{
	if (r->own)
		store_relaxed(&peer->own_key, mr_key_index(r->lkey));
	store_relaxed(&peer->map.lane->hazard[0], m->index);
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

	if (!peer_map_qp_copy(r->entry, wq->dest_qpn, &found) || !accepts_requests(&found, wq))
		return false;
	*r->target = (struct onesided_target){
		.qpn = found.qpn, .gen = found.gen, .pdn = found.pdn, .access = found.access,
		.reads = found.max_dest_rd_atomic != 0,
	};
	return true;
}

bool onesided_one(struct local *l, struct local_peer *peer, const struct wq_qp *wq,
		  const struct onesided_request *r)
{
	const struct onesided_target *target = r->target;
	const struct region_map *m;
	bool done;

	if (peer->regions == NULL)
		return false;
	m = region_map_known(peer->regions, mr_key_index(r->rkey), r->access);
	if (m == NULL || (unlikely(!target_stands(r->entry, target)) && !find_target(r, wq)) ||
	    !may_access(target->access, target->reads, r->access) ||
	    mr_entry_check_remote(&m->key, r->rkey, target->pdn, target->qpn, r->va, r->len,
				  r->access) != REASON_NONE)
		return false;
	done = claim_known(peer, m, r) && target_stands(r->entry, target) &&
	       run_known(l, peer, wq, m, r);
	/* L8, release: as in onesided_end() */
	store_release(&peer->map.lane->hazard[0], 0);
	if (r->own)
		store_release(&peer->own_key, 0);
	return done;
}

enum reason onesided_reason(const struct local_peer *peer, const struct wq_qp *wq, uint32_t rkey,
			    uint64_t va, uint64_t len, enum mem_access access,
			    struct mr_entry *copy)
{
	const struct mr_entry *e = peer_map_key(&peer->map, mr_key_index(rkey));
	struct seg_qp target;

	*copy = (struct mr_entry){ .kind = MR_FREE };
	if (!peer_map_qp(&peer->map, wq->dest_qpn, &target))
		return REASON_NONE;
	if (!(target.access & mem_access_right(access)))
		return REASON_QP_ACCESS;
	if (e == NULL || !(load_acquire(&e->refs) & MR_LIVE))
		return REASON_RKEY_UNKNOWN;
	memcpy(copy, e, sizeof(*copy));
	if (copy->sum != mr_entry_sum(copy))
		return REASON_NONE;
	return mr_entry_check(copy, rkey, target.pdn, target.qpn, va, len, access);
}

/*
 * Programs spin on the last byte of a request, so it must be written last. The kernel copies local
 * segments in order, but the bytes within a segment in any order. So the last TAIL bytes form a
 * local segment of their own. On architectures with weak store order they form a remote segment of
 * their own as well: between two remote segments the kernel drops page references with atomics that
 * are full barriers.
 */
#define TAIL UINT64_C(8)

/*
 * A range that continues the previous segment extends it: each segment costs the kernel a page
 * lookup.
 */
static void add_remote(struct onesided *o, uint64_t addr, uint64_t len, uint64_t tail)
{
	if (STORES_IN_ORDER && o->n_remote > 0) {
		struct wq_seg *last = &o->remote_seg[o->n_remote - 1];

		if (last->addr + last->len == addr) {
			last->len += len;
			return;
		}
	}
	if (!STORES_IN_ORDER && len > tail) {
		o->remote_seg[o->n_remote++] = (struct wq_seg){ addr, len - tail };
		addr += len - tail;
		len = tail;
	}
	o->remote_seg[o->n_remote++] = (struct wq_seg){ addr, len };
}

static void add_local(struct onesided *o, const struct wq_seg *seg, unsigned int n)
{
	struct wq_seg *last;

	memcpy(&o->local_seg[o->n_local], seg, n * sizeof(*seg));
	o->n_local += n;
	last = &o->local_seg[o->n_local - 1];
	if (last->len > TAIL) {
		last->len -= TAIL;
		o->local_seg[o->n_local++] = (struct wq_seg){ last->addr + last->len, TAIL };
	}
}

static void add_mapped(struct onesided *o, uint8_t *at, const struct wq_seg *seg, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		o->local_seg[o->n_local] = seg[i];
		o->remote_seg[o->n_local++] = (struct wq_seg){ (uintptr_t)at, seg[i].len };
		at += seg[i].len;
	}
}

/* Adds a permitted request. Returns false if it cannot use the same method as those before it. */
static bool add_granted(struct onesided *o, uint64_t va, uint64_t len, enum mem_access access,
			const struct wq_seg *seg, unsigned int n)
{
	uint8_t *at = mapped_address(o, va, access);

	if (o->total > 0 && o->mapped != (at != NULL))
		return false;
	o->mapped = at != NULL;
	if (o->mapped) {
		add_mapped(o, at, seg, n);
		return true;
	}
	add_remote(o, o->key.host + (va - o->key.va), len, min(seg[n - 1].len, TAIL));
	add_local(o, seg, n);
	return true;
}

bool onesided_add(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		  enum mem_access access, const struct wq_seg *seg, unsigned int n)
{
	if (o->n_op == ONESIDED_OPS || o->n_local + n > ONESIDED_SEGS + o->n_op)
		return false;
	if (!may_access(o->target.access, o->target.max_dest_rd_atomic != 0, access))
		return false;
	if (len > 0) {
		if (!granted(o, rkey, va, len, access) ||
		    !add_granted(o, va, len, access, seg, n))
			return false;
	}
	o->total += len;
	o->end[o->n_op++] = o->total;
	return true;
}

static unsigned int to_iovec(struct iovec *v, const struct wq_seg *seg, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		v[i] = (struct iovec){ (void *)(uintptr_t)seg[i].addr, seg[i].len };
	return n;
}

typedef ssize_t (*move_fn)(pid_t pid, const struct iovec *local_iov, unsigned long n_local,
			   const struct iovec *remote_iov, unsigned long n_remote,
			   unsigned long flags);

/* Drops the segments that have been copied. */
static unsigned int advance(struct iovec *v, unsigned int n, uint64_t done)
{
	unsigned int gone = 0;

	while (gone < n && done >= v[gone].iov_len)
		done -= v[gone++].iov_len;
	n -= gone;
	memmove(v, v + gone, n * sizeof(*v));
	if (n > 0) {
		v[0].iov_base = (uint8_t *)v[0].iov_base + done;
		v[0].iov_len -= done;
	}
	return n;
}

/* The kernel's refusal does not depend on the address, so treat it as permanent. */
static void note_refusal(struct onesided *o, ssize_t result)
{
	if (result == -EPERM || result == -ENOSYS)
		store_relaxed(&o->peer->cma, false);
}

static unsigned int whole_requests(const struct onesided *o, uint64_t done)
{
	unsigned int n = o->n_op;

	while (n > 0 && o->end[n - 1] > done)
		n--;
	return n;
}

/*
 * Data read is valid only if the peer still owned the memory after the copy: the kernel marks a
 * process's keeper word before it unmaps the memory. A write needs no such check.
 */
static bool is_valid(const struct onesided *o, move_fn fn)
{
	return fn == process_vm_writev || peer_in_reach(o->peer);
}

/* One call copies everything, unless that exceeds about 2 GiB or a page is missing. */
static unsigned int move(struct onesided *o, move_fn fn)
{
	struct iovec local_iov[ARRAY_SIZE(o->local_seg)], remote_iov[ARRAY_SIZE(o->remote_seg)];
	unsigned int n_local = to_iovec(local_iov, o->local_seg, o->n_local);
	unsigned int n_remote = to_iovec(remote_iov, o->remote_seg, o->n_remote);
	uint64_t done = 0;

	/* L8: load after the fence of the last claim. */
	if (!peer_map_qp_stands(o->entry, &o->target))
		return 0;
	while (done < o->total && peer_in_reach(o->peer)) {
		ssize_t n = SYS_RESULT(fn(o->peer->map.pid, local_iov, n_local, remote_iov,
					  n_remote, 0));

		if (n <= 0) {
			note_refusal(o, n);
			break;
		}
		done += n;
		if (done < o->total) {
			n_local = advance(local_iov, n_local, n);
			n_remote = advance(remote_iov, n_remote, n);
		}
	}
	return is_valid(o, fn) ? whole_requests(o, done) : 0;
}

static void note_fault(struct onesided *o, const void *at, uint64_t len)
{
	if (o->peer->regions != NULL)
		region_map_faulted(o->peer->regions, at, len);
}

/* Copies the pieces in order, the last bytes of each piece last (vrb_guard_copy). */
static unsigned int move_mapped(struct onesided *o, bool write)
{
	uint64_t done = 0;

	/* L8: load after the fence of the last claim. */
	if (!peer_map_qp_stands(o->entry, &o->target) || !peer_in_reach(o->peer))
		return 0;
	for (unsigned int i = 0; i < o->n_local; i++) {
		void *here = (void *)(uintptr_t)o->local_seg[i].addr;
		void *there = (void *)(uintptr_t)o->remote_seg[i].addr;
		uint64_t len = o->local_seg[i].len;

		if (unlikely(!vrb_guard_copy(write ? there : here, write ? here : there, len))) {
			note_fault(o, there, len);
			break;
		}
		done += len;
	}
	return write || peer_in_reach(o->peer) ? whole_requests(o, done) : 0;
}

unsigned int onesided_write(struct onesided *o)
{
	return o->mapped ? move_mapped(o, true) : move(o, process_vm_writev);
}

unsigned int onesided_read(struct onesided *o)
{
	return o->mapped ? move_mapped(o, false) : move(o, process_vm_readv);
}

/* The lock excludes emulated atomics through registrations that other processes cannot map. */
static bool atomic_mapped(struct onesided *o, struct local *l, enum atomic_op op,
			  uint64_t compare_add, uint64_t swap, uint64_t *original)
{
	uint64_t *at = (uint64_t *)(uintptr_t)o->remote_seg[0].addr;
	bool ok = false;

	host_lock_atomics(l->host, (uintptr_t)at);
	if (peer_in_reach(o->peer))
		ok = op == ATOMIC_OP_FETCH_ADD ?
			     vrb_guard_fetch_add64(at, compare_add, original) :
			     vrb_guard_cmp_swap64(at, compare_add, swap, original);
	host_unlock_atomics(l->host, (uintptr_t)at);
	if (!ok)
		note_fault(o, at, sizeof(*at));
	return ok;
}

bool onesided_atomic(struct onesided *o, struct local *l, enum atomic_op op, uint64_t compare_add,
		     uint64_t swap, uint64_t *original)
{
	uint64_t value, address = o->remote_seg[0].addr;
	struct iovec local_iov = { &value, sizeof(value) };
	struct iovec remote_iov = { (void *)(uintptr_t)address, sizeof(value) };
	int32_t pid = o->peer->map.pid;
	ssize_t n = 0;

	if (address % sizeof(value) != 0 || !peer_map_qp_stands(o->entry, &o->target))
		return false;
	if (o->mapped)
		return atomic_mapped(o, l, op, compare_add, swap, original);
	host_lock_atomics(l->host, address);
	if (peer_in_reach(o->peer))
		n = SYS_RESULT(process_vm_readv(pid, &local_iov, 1, &remote_iov, 1, 0));
	if (n == sizeof(value)) {
		bool store = op == ATOMIC_OP_FETCH_ADD || value == compare_add;

		*original = value;
		value = op == ATOMIC_OP_FETCH_ADD ? value + compare_add : swap;
		if (store)
			n = SYS_RESULT(process_vm_writev(pid, &local_iov, 1, &remote_iov, 1, 0));
	}
	host_unlock_atomics(l->host, address);
	note_refusal(o, n);
	return n == sizeof(value);
}

void onesided_end(struct onesided *o)
{
	/* L8, release: finish the copies before the owner can see the keys as unused. */
	for (unsigned int i = 0; i < o->n_key; i++)
		store_release(&o->peer->map.lane->hazard[i], 0);
}
