/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of one-sided requests: checks and system calls; onesided.h documents the protocol. */
#include "local/onesided.h"

#include <stdlib.h>
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

bool onesided_begin(struct onesided *o, struct local_peer *peer, const struct wq_qp *wq)
{
	o->peer = peer;
	o->n_op = o->n_local = o->n_remote = o->n_key = 0;
	o->total = 0;
	o->mapped = false;
	if (!load_relaxed(&peer->cma))
		return false;
	o->entry = peer_map_qp(&peer->map, wq->dest_qpn, &o->target);
	return o->entry != NULL && onesided_accepts(&o->target, wq);
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
	if (last->len > ONESIDED_TAIL) {
		last->len -= ONESIDED_TAIL;
		o->local_seg[o->n_local++] =
			(struct wq_seg){ last->addr + last->len, ONESIDED_TAIL };
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
	add_remote(o, o->key.host + (va - o->key.va), len, min(seg[n - 1].len, ONESIDED_TAIL));
	add_local(o, seg, n);
	return true;
}

bool onesided_add(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		  enum mem_access access, const struct wq_seg *seg, unsigned int n)
{
	if (o->n_op == ONESIDED_OPS || o->n_local + n > ONESIDED_SEGS + o->n_op)
		return false;
	if (!onesided_permits(o->target.access, o->target.max_dest_rd_atomic != 0, access))
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
static bool is_valid(const struct onesided *o, onesided_move fn)
{
	return fn == process_vm_writev || peer_in_reach(o->peer);
}

/* One call copies everything, unless that exceeds about 2 GiB or a page is missing. */
static unsigned int move(struct onesided *o, onesided_move fn)
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
			onesided_note_refusal(o->peer, n);
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
	onesided_note_refusal(o->peer, n);
	return n == sizeof(value);
}

void onesided_end(struct onesided *o)
{
	/* L8, release: finish the copies before the owner can see the keys as unused. */
	for (unsigned int i = 0; i < o->n_key; i++)
		store_release(&o->peer->map.lane->hazard[i], 0);
}
