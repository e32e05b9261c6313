/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/share.h"

#include <stdlib.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/hash.h"

/*
 * The numbers are written under the table's lock, all but `dst` and `zone`, and read without it: they
 * order nothing, and one that is old by a moment is as good.
 */
struct share {
	struct list node;
	struct net_addr dst;
	uint32_t zone;		/* interface, where the address means nothing without one */
	uint32_t refs;		/* under the lock */
	uint32_t period;	/* atomic; never 0 */
	uint32_t last, current;	/* atomic: who counted in the last period, and in this one */
	uint64_t ends;		/* atomic: this period */
};

void share_init(struct share_table *t)
{
	lock_init(&t->lock);
	for (unsigned int i = 0; i < SHARE_BUCKETS; i++)
		list_init(&t->bucket[i]);
}

static uint32_t zone_of(const struct net_path *path)
{
	return net_is_link_local(&path->dst) ? path->ifindex : 0;
}

static bool leads_to(const struct share *s, const struct net_path *path)
{
	return net_addr_equal(&s->dst, &path->dst) && s->zone == zone_of(path);
}

static struct list *bucket_of(struct share_table *t, const struct net_addr *dst)
{
	return &t->bucket[hash_bytes(HASH_START, dst->raw, sizeof(dst->raw)) % SHARE_BUCKETS];
}

/* Must hold the lock. NULL: no memory. */
static struct share *get(struct share_table *t, const struct net_path *path)
{
	struct list *bucket = bucket_of(t, &path->dst), *pos;
	struct share *s;

	list_for_each(pos, bucket) {
		s = list_entry(pos, struct share, node);
		if (leads_to(s, path)) {
			s->refs++;
			return s;
		}
	}
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct share){ .dst = path->dst, .zone = zone_of(path), .refs = 1, .period = 1 };
	list_add_tail(bucket, &s->node);
	return s;
}

/* Must hold the lock. */
static void put(struct share *s)
{
	if (--s->refs)
		return;
	list_del(&s->node);
	free(s);
}

void share_leave(struct share_table *t, struct share_ref *ref)
{
	if (!ref->share)
		return;
	lock_acquire(&t->lock);
	put(ref->share);
	lock_release(&t->lock);
	*ref = (struct share_ref){ 0 };
}

/* The QP's path is new, or another than before. */
static void meet(struct share_table *t, struct share_ref *ref, const struct net_path *path)
{
	share_leave(t, ref);
	lock_acquire(&t->lock);
	ref->share = get(t, path);
	lock_release(&t->lock);
}

uint32_t share_sharers(struct share_table *t, struct share_ref *ref, const struct net_path *path)
{
	uint32_t current;

	if (unlikely(!ref->share) || unlikely(!leads_to(ref->share, path)))
		meet(t, ref, path);
	if (unlikely(!ref->share))
		return 1;
	current = load_relaxed(&ref->share->current) +
		  (ref->period != load_relaxed(&ref->share->period));
	return max(current, load_relaxed(&ref->share->last));
}

/* Of those that were, half are believed in for another period: work comes in waves. Must hold the lock. */
static void begin_period(struct share *s, uint64_t rtt, uint64_t now)
{
	store_relaxed(&s->last, max(s->current, s->last / 2));
	store_relaxed(&s->current, 0);
	store_relaxed(&s->period, s->period + 1 ? s->period + 1 : 1);
	store_relaxed(&s->ends, time_after(now, max(2 * rtt, (uint64_t)SHARE_PERIOD)));
}

void share_count(struct share_table *t, struct share_ref *ref, uint64_t rtt, uint64_t now)
{
	struct share *s = ref->share;

	if (!s || likely(ref->period == load_relaxed(&s->period) && now < load_relaxed(&s->ends)))
		return;
	lock_acquire(&t->lock);
	if (now >= s->ends)
		begin_period(s, rtt, now);
	if (ref->period != s->period) {
		ref->period = s->period;
		store_relaxed(&s->current, s->current + 1);
	}
	lock_release(&t->lock);
}
