/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks and system calls of one-sided access; onesided.h has the protocol. */
#include "local/onesided.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "util/atomic.h"

/* What the QP at the other end must allow; see qp_access_flags. */
static uint32_t qp_right(enum mem_access access)
{
	switch (access) {
	case MEM_REMOTE_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case MEM_REMOTE_READ:
		return IBV_ACCESS_REMOTE_READ;
	default:
		return IBV_ACCESS_REMOTE_ATOMIC;
	}
}

static bool listens(const struct seg_qp *target, const struct wq_qp *wq)
{
	if (target->type != IBV_QPT_RC || target->dest_qpn != wq->qpn || wq->type != IBV_QPT_RC)
		return false;
	/* The first request comes as a packet, because its QP raises an event for it. */
	if (target->state != IBV_QPS_RTS && target->state != IBV_QPS_SQD &&
	    !(target->state == IBV_QPS_RTR && target->established))
		return false;
	return memcmp(target->src_gid, wq->path.dst.raw, sizeof(target->src_gid)) == 0 &&
	       memcmp(target->dest_gid, wq->path.src.raw, sizeof(target->dest_gid)) == 0;
}

bool onesided_begin(struct onesided *o, struct local_peer *peer, const struct wq_qp *wq)
{
	o->peer = peer;
	o->n_op = o->n_near = o->n_far = o->n_key = 0;
	o->total = 0;
	if (!load_relaxed(&peer->cma))
		return false;
	o->entry = peer_map_qp(&peer->map, wq->dest_qpn, &o->target);
	return o->entry != NULL && listens(&o->target, wq);
}

/* L8. o->key is the entry as it is while our hazard stands; false, and no hazard stands, if there is none. */
static bool claim_key(struct onesided *o, uint32_t index)
{
	const struct mr_entry *e = peer_map_key(&o->peer->map, index);
	struct mr_entry copy;
	uint32_t *hazard;

	if (e == NULL || o->n_key == LANE_HAZARDS)
		return false;
	hazard = &o->peer->map.lane->hazard[o->n_key];
	store_relaxed(hazard, index);
	full_fence();
	if (load_acquire(&e->refs) & MR_LIVE) {
		memcpy(&copy, e, sizeof(copy));
		if (copy.sum == mr_entry_sum(&copy)) {
			o->key = copy;
			o->n_key++;
			return true;
		}
	}
	store_release(hazard, 0);
	return false;
}

/* The requests of a list mostly name one key: its hazard stands for all of them. */
static bool granted(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		    enum mem_access access)
{
	bool known = o->n_key > 0 && o->key.rkey == rkey;

	return (known || claim_key(o, mr_key_index(rkey))) &&
	       mr_entry_check(&o->key, rkey, o->target.pdn, o->target.qpn, va, len, access) ==
		       REASON_NONE;
}

enum reason onesided_reason(const struct local_peer *peer, const struct wq_qp *wq, uint32_t rkey,
			    uint64_t va, uint64_t len, enum mem_access access, struct mr_entry *copy)
{
	const struct mr_entry *e = peer_map_key(&peer->map, mr_key_index(rkey));
	struct seg_qp target;

	*copy = (struct mr_entry){ .kind = MR_FREE };
	if (!peer_map_qp(&peer->map, wq->dest_qpn, &target))
		return REASON_NONE;
	if (!(target.access & qp_right(access)))
		return REASON_QP_ACCESS;
	if (e == NULL || !(load_acquire(&e->refs) & MR_LIVE))
		return REASON_RKEY_UNKNOWN;
	memcpy(copy, e, sizeof(*copy));
	if (copy->sum != mr_entry_sum(copy))
		return REASON_NONE;
	return mr_entry_check(copy, rkey, target.pdn, target.qpn, va, len, access);
}

/*
 * The last bytes of a request travel as a piece of their own, on our side: the kernel copies our pieces in order, but the bytes of one in any
 * order, and programs spin on the last.  Where stores are not seen in the order they were made, they are one on the other side, too: when the
 * kernel is done with one piece there it gives the references on its pages back, by atomics that are full barriers, before it copies the next.
 */
#define TAIL UINT64_C(8)

/* What continues the piece before needs none of its own: for each the kernel looks up its page. */
static void add_far(struct onesided *o, uint64_t addr, uint64_t len, uint64_t tail)
{
	if (STORES_IN_ORDER && o->n_far > 0) {
		struct wq_seg *last = &o->far_seg[o->n_far - 1];

		if (last->addr + last->len == addr) {
			last->len += len;
			return;
		}
	}
	if (!STORES_IN_ORDER && len > tail) {
		o->far_seg[o->n_far++] = (struct wq_seg){ addr, len - tail };
		addr += len - tail;
		len = tail;
	}
	o->far_seg[o->n_far++] = (struct wq_seg){ addr, len };
}

static void add_near(struct onesided *o, const struct wq_seg *seg, unsigned int n)
{
	struct wq_seg *last;

	memcpy(&o->near_seg[o->n_near], seg, n * sizeof(*seg));
	o->n_near += n;
	last = &o->near_seg[o->n_near - 1];
	if (last->len > TAIL) {
		last->len -= TAIL;
		o->near_seg[o->n_near++] = (struct wq_seg){ last->addr + last->len, TAIL };
	}
}

bool onesided_add(struct onesided *o, uint32_t rkey, uint64_t va, uint64_t len,
		  enum mem_access access, const struct wq_seg *seg, unsigned int n)
{
	if (o->n_op == ONESIDED_OPS || o->n_near + n > ONESIDED_SEGS + o->n_op)
		return false;
	if (!(o->target.access & qp_right(access)))
		return false;
	if (access != MEM_REMOTE_WRITE && o->target.max_dest_rd_atomic == 0)
		return false;
	if (len > 0) {
		if (!granted(o, rkey, va, len, access))
			return false;
		add_far(o, o->key.host + (va - o->key.va), len, min(seg[n - 1].len, TAIL));
		add_near(o, seg, n);
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

typedef ssize_t (*move_fn)(pid_t pid, const struct iovec *near, unsigned long n_near,
			   const struct iovec *far, unsigned long n_far, unsigned long flags);

/* Drops the pieces that have been moved. */
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

/* Refused once, refused always: what the kernel allows does not depend on the bytes. */
static void note_refusal(struct onesided *o)
{
	if (errno == EPERM || errno == ENOSYS)
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
 * What was read is believed only if it can still be itself that it was read from: the kernel says that a process leaves its memory before it
 * does.  A write has happened by then, right or wrong.
 */
static bool believed(const struct onesided *o, move_fn fn)
{
	return fn == process_vm_writev || peer_in_reach(o->peer);
}

/* One call moves all, unless it is more than just under 2 GiB or a page is missing. */
static unsigned int move(struct onesided *o, move_fn fn)
{
	struct iovec near[ARRAY_SIZE(o->near_seg)], far[ARRAY_SIZE(o->far_seg)];
	unsigned int n_near = to_iovec(near, o->near_seg, o->n_near);
	unsigned int n_far = to_iovec(far, o->far_seg, o->n_far);
	uint64_t done = 0;

	/* L8: behind the fence of the last claim. */
	if (!peer_map_qp_stands(o->entry, &o->target))
		return 0;
	while (done < o->total && peer_in_reach(o->peer)) {
		ssize_t n = fn(o->peer->map.pid, near, n_near, far, n_far, 0);

		if (n <= 0) {
			note_refusal(o);
			break;
		}
		done += n;
		if (done < o->total) {
			n_near = advance(near, n_near, n);
			n_far = advance(far, n_far, n);
		}
	}
	return believed(o, fn) ? whole_requests(o, done) : 0;
}

unsigned int onesided_write(struct onesided *o)
{
	return move(o, process_vm_writev);
}

unsigned int onesided_read(struct onesided *o)
{
	return move(o, process_vm_readv);
}

bool onesided_atomic(struct onesided *o, struct local *l, enum atomic_op op, uint64_t compare_add,
		     uint64_t swap, uint64_t *original)
{
	uint64_t value, address = o->far_seg[0].addr;
	struct iovec near = { &value, sizeof(value) };
	struct iovec far = { (void *)(uintptr_t)address, sizeof(value) };
	int32_t pid = o->peer->map.pid;
	bool ok;

	if (address % sizeof(value) != 0 || !peer_map_qp_stands(o->entry, &o->target))
		return false;
	host_lock_atomics(l->host, address);
	ok = peer_in_reach(o->peer) &&
	     process_vm_readv(pid, &near, 1, &far, 1, 0) == sizeof(value);
	if (ok) {
		bool store = op == ATOMIC_OP_FETCH_ADD || value == compare_add;

		*original = value;
		value = op == ATOMIC_OP_FETCH_ADD ? value + compare_add : swap;
		if (store)
			ok = process_vm_writev(pid, &near, 1, &far, 1, 0) == sizeof(value);
	}
	host_unlock_atomics(l->host, address);
	if (!ok)
		note_refusal(o);
	return ok;
}

void onesided_end(struct onesided *o)
{
	/* Release: the copies are done before the owner may see the keys unused. */
	for (unsigned int i = 0; i < o->n_key; i++)
		store_release(&o->peer->map.lane->hazard[i], 0);
}
