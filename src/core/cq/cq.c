/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: the ring, events and their moderation, overrun. Takes cq->lock, and the
 * channel's below it. vrb_cq_add() is called with a QP's lock held.
 */
#include "core/cq/cq.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/limits.h"
#include "core/base/object_timer.h"
#include "core/base/ring.h"
#include "core/base/rx_queues.h"
#include "core/cq/async_event.h"
#include "core/cq/comp_channel.h"
#include "core/cq/round.h"
#include "core/mem/pd.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/time.h"

__thread struct vrb_round *vrb_round;

enum {
	WC_FLAGS = IBV_CREATE_CQ_SUP_WC_FLAGS,
	CREATE_FLAGS = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	INIT_MASK = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
};

static uint32_t waiting(const struct vrb_cq *cq)
{
	return cq->head - cq->tail;
}

static bool entries_ok(uint32_t entries)
{
	return entries >= 1 && entries <= (uint32_t)vrb_device_limits.orig_attr.max_cqe;
}

static int check_attr(struct vrb_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->comp_mask & ~INIT_MASK || attr->wc_flags & ~(uint64_t)WC_FLAGS)
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && attr->flags & ~CREATE_FLAGS)
		return EOPNOTSUPP;
	if (!entries_ok(attr->cqe) ||
	    attr->comp_vector >= (uint32_t)ctx->vctx.context.num_comp_vectors) {
		log_info(LOG_CORE, "ibv_create_cq: cqe is %d, of 1 to %d; comp_vector is %d, of 0 "
				   "to %d", (int)attr->cqe, vrb_device_limits.orig_attr.max_cqe,
			 (int)attr->comp_vector, ctx->vctx.context.num_comp_vectors - 1);
		return EINVAL;
	}
	if (attr->channel && !vrb_live_has(attr->channel))
		return ENOENT;
	if (attr->channel && attr->channel->context != &ctx->vctx.context)
		return EINVAL;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || attr->parent_domain->context != &ctx->vctx.context ||
	     !to_vrb_pd(attr->parent_domain)->parent))
		return EINVAL;
	return 0;
}

/* The ring is a power of two, but a CQ must not report more than max_cqe. */
static void show_size(struct vrb_cq *cq)
{
	cq->ibv.cqe = min(cq->mask + 1, (uint32_t)vrb_device_limits.orig_attr.max_cqe);
}

static void init_public(struct vrb_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	cq->ibv.context = &cq->ctx->vctx.context;
	cq->ibv.channel = attr->channel;
	cq->ibv.cq_context = attr->cq_context;
	show_size(cq);
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	vrb_event_acks_init(&cq->comp_acks, &cq->ibv.mutex, &cq->ibv.cond,
			    &cq->ibv.comp_events_completed);
	vrb_event_acks_init(&cq->async_acks, &cq->ibv.mutex, &cq->ibv.cond,
			    &cq->ibv.async_events_completed);
}

static void take_references(struct vrb_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->channel) {
		cq->channel = to_vrb_channel(attr->channel);
		vrb_channel_attach(cq->channel);
	}
	if (cq->parent)
		vrb_pd_get(cq->parent);
}

static void drop_references(struct vrb_cq *cq)
{
	if (cq->channel)
		vrb_channel_detach(cq->channel);
	if (cq->parent)
		vrb_pd_put(cq->parent);
	vrb_context_give(cq->ctx, CTX_CQ);
}

/* Numbers the CQ and adds it to the context's list, for introspection. */
static void enlist(struct vrb_cq *cq)
{
	static uint32_t numbers;

	cq->ibv.handle = fetch_add_relaxed(&numbers, 1) + 1;
	pthread_mutex_lock(&cq->ctx->lock);
	list_add_tail(&cq->ctx->cqs, &cq->node);
	pthread_mutex_unlock(&cq->ctx->lock);
	vrb_live_add(&cq->live, cq, cq->ibv.context, cq->ibv.handle);
}

static void delist(struct vrb_cq *cq)
{
	vrb_live_del(&cq->live);
	pthread_mutex_lock(&cq->ctx->lock);
	list_del(&cq->node);
	if (cq->channel)
		vrb_channel_forget_left(cq->channel, cq);
	pthread_mutex_unlock(&cq->ctx->lock);
}

static struct vrb_cqe *ring_alloc(struct vrb_pd *parent, uint32_t size, bool *custom)
{
	return vrb_pd_memory(parent, size * sizeof(struct vrb_cqe), PD_MEMORY_CQ, custom);
}

static void ring_free(struct vrb_pd *parent, struct vrb_cqe *ring, bool custom)
{
	vrb_pd_memory_free(parent, ring, PD_MEMORY_CQ, custom);
}

static struct vrb_pd *parent_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? to_vrb_pd(attr->parent_domain) : NULL;
}

int vrb_cq_create(struct vrb_context *ctx, const struct ibv_cq_init_attr_ex *attr, bool is_ex,
		  void (*expire)(struct object_timer *d, struct expiry *e), struct vrb_cq **out)
{
	struct vrb_cq *cq;
	int ret = check_attr(ctx, attr);

	if (ret)
		return ret;
	ret = vrb_context_take(ctx, CTX_CQ, vrb_device_limits.orig_attr.max_cq);
	if (ret)
		return ret;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto give_count;
	cq->parent = parent_of(attr);
	cq->mask = ring_beyond(attr->cqe) - 1;
	cq->ring = ring_alloc(cq->parent, cq->mask + 1, &cq->custom);
	if (!cq->ring || vrb_timer_add(&cq->timer, expire))
		goto free_cq;
	cq->ctx = ctx;
	cq->is_ex = is_ex;
	cq->wc_flags = is_ex ? attr->wc_flags : 0;
	cq->create_flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	cq->comp_vector = attr->comp_vector;
	cq->moderation_due = VRB_NEVER;
	cq->left_due = VRB_NEVER;
	lock_init(&cq->lock);
	lock_init_shared(&cq->poll_lock);
	list_init(&cq->event_node);
	list_init(&cq->left_node);
	list_init(&cq->srqs);
	init_public(cq, attr);
	take_references(cq, attr);
	enlist(cq);
	*out = cq;
	return 0;
free_cq:
	ring_free(cq->parent, cq->ring, cq->custom);
	free(cq);
give_count:
	vrb_context_give(ctx, CTX_CQ);
	return ENOMEM;
}

/* No completion can be added now, but a round that added one may still hold the CQ. */
static void wait_for_rounds(struct vrb_cq *cq)
{
	bool held;

	lock_acquire(&cq->lock);
	held = cq->holds > 0;
	lock_release(&cq->lock);
	if (held) {
		vrb_rx_queues_lock();
		vrb_rx_queues_unlock();
	}
}

int vrb_cq_destroy(struct vrb_cq *cq)
{
	/* Pairs with fetch_sub in vrb_qp_destroy(). */
	uint32_t users = load_acquire(&cq->users);

	if (users)
		return vrb_in_use("ibv_destroy_cq", users, "send and receive queues of QPs, SRQs");
	wait_for_rounds(cq);
	delist(cq);
	vrb_timer_remove(&cq->timer);
	if (cq->channel)
		vrb_channel_forget(cq->channel, cq);
	vrb_event_forget(cq->ctx, &cq->ibv);
	vrb_event_wait_acked(&cq->comp_acks);
	vrb_event_wait_acked(&cq->async_acks);
	ring_free(cq->parent, cq->ring, cq->custom);
	drop_references(cq);
	pthread_mutex_destroy(&cq->ibv.mutex);
	pthread_cond_destroy(&cq->ibv.cond);
	lock_destroy(&cq->lock);
	lock_destroy(&cq->poll_lock);
	free(cq);
	return 0;
}

/* Moves the queued entries to a ring of another size. */
static void change_ring(struct vrb_cq *cq, struct vrb_cqe *ring, uint32_t mask)
{
	for (uint32_t i = cq->tail; i != cq->head; i++)
		ring[i & mask] = cq->ring[i & cq->mask];
	cq->ring = ring;
	cq->mask = mask;
	show_size(cq);
}

int vrb_cq_resize(struct vrb_cq *cq, uint32_t entries)
{
	struct vrb_cqe *ring, *unused;
	bool custom, unused_custom;
	uint32_t size;
	int ret = 0;

	if (!entries_ok(entries))
		return EINVAL;
	size = ring_beyond(entries);
	ring = ring_alloc(cq->parent, size, &custom);
	if (!ring)
		return ENOMEM;
	lock_acquire(&cq->lock);
	if (waiting(cq) > size) {
		unused = ring;
		unused_custom = custom;
		ret = EINVAL;
	} else {
		unused = cq->ring;
		unused_custom = cq->custom;
		change_ring(cq, ring, size - 1);
		cq->custom = custom;
	}
	lock_release(&cq->lock);
	ring_free(cq->parent, unused, unused_custom);
	return ret;
}

/*
 * Returns the slots up to the completed request to its queue. The release pairs with the acquire of
 * post: a slot may be overwritten only after its completion was polled.
 */
static void release_slots(const struct vrb_cqe *cqe)
{
	if (cqe->released)
		store_release(cqe->released, cqe->wc.release);
}

#define SAME_PLACE(wq_member, wc_member)                                                        \
	(offsetof(struct wq_cqe, wq_member) == offsetof(struct ibv_wc, wc_member) &&            \
	 sizeof(((struct wq_cqe *)0)->wq_member) == sizeof(((struct ibv_wc *)0)->wc_member))

_Static_assert(SAME_PLACE(wr_id, wr_id) && SAME_PLACE(status, status) &&
	       SAME_PLACE(opcode, opcode) && SAME_PLACE(reason, vendor_err) &&
	       SAME_PLACE(byte_len, byte_len) && SAME_PLACE(imm, imm_data) &&
	       SAME_PLACE(qp_num, qp_num) && SAME_PLACE(src_qp, src_qp) &&
	       SAME_PLACE(wc_flags, wc_flags) && SAME_PLACE(pkey_index, pkey_index) &&
	       SAME_PLACE(slid, slid) && SAME_PLACE(sl, sl) &&
	       SAME_PLACE(dlid_path_bits, dlid_path_bits) &&
	       sizeof(struct wq_cqe) >= sizeof(struct ibv_wc), "one begins like the other");

static void copy_out(struct ibv_wc *wc, const struct vrb_cqe *cqe)
{
	memcpy(wc, &cqe->wc, sizeof(*wc));
}

/* Removes the oldest entry. Must hold cq->lock. */
static struct vrb_cqe *pop(struct vrb_cq *cq)
{
	struct vrb_cqe *cqe = &cq->ring[cq->tail & cq->mask];

	store_relaxed(&cq->tail, cq->tail + 1);
	return cqe;
}

int vrb_cq_pop_some(struct vrb_cq *cq, int n, struct ibv_wc *wc)
{
	int taken = 0;

	lock_acquire(&cq->lock);
	while (taken < n && cq->tail != cq->shown) {
		struct vrb_cqe *cqe = pop(cq);

		copy_out(&wc[taken++], cqe);
		release_slots(cqe);
	}
	if (!taken && cq->overrun)
		taken = -1;
	lock_release(&cq->lock);
	return taken;
}

bool vrb_cq_take(struct vrb_cq *cq, struct vrb_cqe *cqe)
{
	bool any;

	if (vrb_cq_looks_empty(cq))
		return false;
	lock_acquire(&cq->lock);
	any = cq->tail != cq->shown;
	if (any) {
		*cqe = *pop(cq);
		release_slots(cqe);
	}
	lock_release(&cq->lock);
	return any;
}

static void raise_event(struct vrb_cq *cq)
{
	cq->armed = 0;
	cq->notified = cq->shown;
	cq->notified_tail = cq->tail;
	cq->moderated = 0;
	cq->moderation_due = VRB_NEVER;
	if (cq->channel)
		vrb_channel_raise(cq->channel, cq);
}

void vrb_cq_moderate(struct vrb_cq *cq, uint16_t count, uint16_t usec)
{
	lock_acquire(&cq->lock);
	cq->moderation_count = count;
	store_relaxed(&cq->moderation_usec, usec);	/* read by vrb_cq_uses_time() */
	if (cq->moderated && !count && !usec)
		raise_event(cq);
	lock_release(&cq->lock);
}

/* Counts a completion of an armed CQ; true if moderation delays its event. */
static bool held_back(struct vrb_cq *cq, uint64_t now)
{
	if (cq->moderation_count <= 1 && !cq->moderation_usec)
		return false;
	cq->moderated++;
	if (cq->moderation_count && cq->moderated >= cq->moderation_count)
		return false;
	if (cq->moderation_usec && cq->moderation_due == VRB_NEVER) {
		cq->moderation_due = time_after(now, cq->moderation_usec * VRB_USEC);
		vrb_timer_set(&cq->timer, min(cq->left_due, cq->moderation_due));
	}
	return true;
}

static void notify(struct vrb_cq *cq, const struct wq_cqe *wc, uint64_t now)
{
	if (!cq->armed)
		return;
	if (cq->armed == VRB_CQ_ARM_SOLICITED && !wc->solicited && wc->status == IBV_WC_SUCCESS)
		return;
	if (!held_back(cq, now))
		raise_event(cq);
}

/* Notifies of the entries from first to end. Must hold cq->lock. */
static __attribute__((noinline)) void notify_of(struct vrb_cq *cq, uint32_t first, uint32_t end,
						uint64_t now)
{
	for (uint32_t i = first; cq->armed && i != end; i++)
		notify(cq, &cq->ring[i & cq->mask].wc, now);
}

/* The first entry that was neither polled nor visible at the last event. Must hold cq->lock. */
static uint32_t first_unannounced(const struct vrb_cq *cq)
{
	uint32_t since_event = cq->shown - cq->notified, unpolled = cq->shown - cq->tail;

	return cq->shown - min(since_event, unpolled);
}

/*
 * A program that sleeps in poll() or epoll_wait() with completions left in an armed CQ gets an
 * event for them, too: mlx5 is armed with the consumer index, behind which they are. It comes late,
 * so that a program that polls until the CQ is empty gets none. Must hold cq->lock.
 */
static void look_later(struct vrb_cq *cq)
{
	if (cq->left_due != VRB_NEVER)
		return;
	cq->left_since = clock_now();
	cq->left_due = time_after(cq->left_since, LIMIT_CQ_LEFT);
	vrb_timer_set(&cq->timer, min(cq->left_due, cq->moderation_due));
}

/*
 * A program that has polled nothing since the event has not left the entries: it got no CPU since
 * it armed the CQ. An event now would be one too many for programs that poll once for each, such as
 * perftest, whose CQs then overrun. The next look is after as long again. Must hold cq->lock.
 */
static void look_at_left(struct vrb_cq *cq, uint64_t now)
{
	uint64_t wait = min(max(time_since(cq->left_since, now), LIMIT_CQ_LEFT), LIMIT_CQ_LEFT_MAX);

	cq->left_due = VRB_NEVER;
	if (cq->tail != cq->notified_tail)
		notify_of(cq, cq->tail, cq->shown, now);
	else if (cq->armed && cq->tail != cq->shown)
		cq->left_due = time_after(now, wait);
}

/*
 * A completion that came before, but after the last event, raises the event at once, unless it was
 * polled. The specification allows it, and UCX, which does not poll again after arming, expects it.
 */
void vrb_cq_arm_only(struct vrb_cq *cq, bool solicited_only)
{
	uint8_t wanted = solicited_only ? VRB_CQ_ARM_SOLICITED : VRB_CQ_ARM_NEXT;
	uint64_t now = unlikely(vrb_cq_uses_time(cq)) ? clock_now() : 0;
	uint32_t first;

	lock_acquire(&cq->lock);
	/* NEXT_COMP includes SOLICITED, so a weaker request does not replace a stronger one. */
	cq->armed = max(cq->armed, wanted);
	first = first_unannounced(cq);
	if (unlikely(first != cq->shown))
		notify_of(cq, first, cq->shown, now);
	if (cq->channel && cq->armed && cq->tail != cq->shown) {
		if (!cq->noted_left)
			vrb_channel_note_left(cq->channel, cq);
		cq->noted_left = true;
		look_later(cq);
	}
	lock_release(&cq->lock);
}

void vrb_cq_raise_left(struct vrb_cq *cq)
{
	uint64_t now = unlikely(vrb_cq_uses_time(cq)) ? clock_now() : 0;

	lock_acquire(&cq->lock);
	cq->noted_left = false;
	notify_of(cq, cq->tail, cq->shown, now);
	lock_release(&cq->lock);
}

/* Must hold cq->lock. */
static void fail(struct vrb_cq *cq, uint64_t now)
{
	/* Programs that do not read events see nothing else. */
	log_warn(LOG_CORE, "CQ %u: reason %u: %s, %u; it and its queue pairs are in error",
		 cq->ibv.handle, REASON_CQ_OVERRUN, reason_str(REASON_CQ_OVERRUN), cq->mask + 1);
	store_relaxed(&cq->overrun, true);	/* relaxed: a flag that publishes no data */
	vrb_event_cq(&cq->ibv, &cq->async_acks, IBV_EVENT_CQ_ERR);
	vrb_timer_set(&cq->timer, now);
}

void vrb_cq_fail(struct vrb_cq *cq, uint64_t now)
{
	lock_acquire(&cq->lock);
	if (!cq->overrun)
		fail(cq, now);
	lock_release(&cq->lock);
}

/* Ensures room for one entry; false if the CQ accepts none. */
static bool make_room(struct vrb_cq *cq, uint64_t now)
{
	if (cq->overrun)
		return false;
	if (waiting(cq) <= cq->mask)
		return true;
	if (cq->create_flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) {
		if (cq->shown == cq->tail)
			store_relaxed(&cq->shown, cq->shown + 1);
		release_slots(pop(cq));
		return true;
	}
	fail(cq, now);
	return false;
}

/*
 * The poll loop reads the clock before it takes packets, so `now` may be older than the request
 * that completes. The time of a packet may be older than the last stamp.
 */
static uint64_t stamp(struct vrb_cq *cq, const struct wq_cqe *wc, uint64_t now)
{
	cq->newest = max(cq->newest, wc->timed ? now : clock_now());
	return cq->newest;
}

/* Makes the added entries visible to pollers and raises the event. Must hold cq->lock. */
static inline void show(struct vrb_cq *cq, uint64_t now)
{
	uint32_t first = cq->shown;

	store_relaxed(&cq->shown, cq->head);
	if (unlikely(cq->armed))
		notify_of(cq, first, cq->head, now);
}

void vrb_cq_show(struct vrb_cq *cq, const struct vrb_round *round)
{
	lock_acquire(&cq->lock);
	if (cq->held_by == round)
		cq->held_by = NULL;
	if (--cq->holds == 0)
		show(cq, round->now);
	lock_release(&cq->lock);
}

/* Delays visibility to the end of the calling thread's round. Must hold cq->lock. */
static void hold(struct vrb_cq *cq, struct vrb_round *round)
{
	if (!round || cq->held_by == round || round->n == ROUND_CQS)
		return;
	cq->held_by = round;
	cq->holds++;
	round->cqs[round->n++] = cq;
}

void vrb_cq_add(struct vrb_cq *cq, const void *owner, uint32_t *released, uint32_t qp_num,
		const struct wq_cqe *wc, uint64_t now)
{
	lock_acquire(&cq->lock);
	if (make_room(cq, now)) {
		struct vrb_cqe *cqe = &cq->ring[cq->head & cq->mask];

		cq->head++;
		cqe->wc = *wc;
		cqe->owner = owner;
		cqe->released = released;
		cqe->wc.qp_num = qp_num;
		cqe->time_ns = cq->wc_flags & VRB_CQ_TIMESTAMPS ? stamp(cq, wc, now) : 0;
		if (wc->recv && !wc->acked)
			hold(cq, vrb_round);
		if (!cq->holds)
			show(cq, now);
	}
	lock_release(&cq->lock);
}

bool vrb_cq_releases(struct vrb_cq *cq, const uint32_t *released)
{
	bool found = false;

	lock_acquire(&cq->lock);
	for (uint32_t i = cq->tail; !found && i != cq->head; i++)
		found = cq->ring[i & cq->mask].released == released;
	lock_release(&cq->lock);
	return found;
}

void vrb_cq_purge(struct vrb_cq *cq, const void *owner)
{
	uint32_t kept, shown, notified;

	lock_acquire(&cq->lock);
	kept = cq->tail;
	shown = cq->shown;
	notified = cq->notified;
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		struct vrb_cqe *cqe = &cq->ring[i & cq->mask];

		if (i == cq->shown)
			shown = kept;
		if (i == cq->notified)
			notified = kept;
		if (cqe->owner != owner)
			cq->ring[kept++ & cq->mask] = *cqe;
	}
	store_relaxed(&cq->shown, cq->shown == cq->head ? kept : shown);
	cq->notified = cq->notified == cq->head ? kept : notified;
	cq->head = kept;
	lock_release(&cq->lock);
}

bool vrb_cq_timeout(struct vrb_cq *cq, uint64_t now)
{
	bool overrun;

	lock_acquire(&cq->lock);
	if (time_reached(cq->moderation_due, now))
		raise_event(cq);
	if (time_reached(cq->left_due, now))
		look_at_left(cq, now);
	vrb_timer_set(&cq->timer, min(cq->left_due, cq->moderation_due));
	overrun = cq->overrun && !cq->overrun_reported;
	cq->overrun_reported = cq->overrun;
	lock_release(&cq->lock);
	return overrun;
}
