/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/path_flows.h"

#include <stdlib.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/hash.h"
#include "util/tuning.h"

/*
 * Written under the table's lock (`dst` and `zone` are immutable), read without it: the counts
 * order no other accesses, and a slightly stale value is harmless.
 */
struct path_flows {
	struct list node;
	struct net_addr dst;
	uint32_t zone;		/* interface, for link-local addresses */
	uint32_t refs;		/* under the lock */
	uint32_t period;	/* atomic; never 0 */
	uint32_t last, current;	/* atomic: flows counted in the last period and in this one */
	uint64_t ends;		/* atomic: end of this period */
};

void path_table_init(struct path_table *t)
{
	lock_init(&t->lock);
	for (unsigned int i = 0; i < PATH_BUCKETS; i++)
		list_init(&t->bucket[i]);
}

static uint32_t zone_of(const struct net_path *path)
{
	return net_is_link_local(&path->dst) ? path->ifindex : 0;
}

static bool leads_to(const struct path_flows *s, const struct net_path *path)
{
	return net_addr_equal(&s->dst, &path->dst) && s->zone == zone_of(path);
}

static struct list *bucket_of(struct path_table *t, const struct net_addr *dst)
{
	return &t->bucket[hash_bytes(HASH_START, dst->raw, sizeof(dst->raw)) % PATH_BUCKETS];
}

/* Returns NULL if memory is exhausted. Must hold the lock. */
static struct path_flows *get(struct path_table *t, const struct net_path *path)
{
	struct list *bucket = bucket_of(t, &path->dst), *pos;
	struct path_flows *s;

	list_for_each(pos, bucket) {
		s = list_entry(pos, struct path_flows, node);
		if (leads_to(s, path)) {
			s->refs++;
			return s;
		}
	}
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct path_flows){ .dst = path->dst, .zone = zone_of(path), .refs = 1, .period = 1 };
	list_add_tail(bucket, &s->node);
	return s;
}

/* Must hold the lock. */
static void put(struct path_flows *s)
{
	if (--s->refs)
		return;
	list_del(&s->node);
	free(s);
}

void path_leave(struct path_table *t, struct path_ref *ref)
{
	if (!ref->flows)
		return;
	lock_acquire(&t->lock);
	put(ref->flows);
	lock_release(&t->lock);
	*ref = (struct path_ref){ 0 };
}

/* Called when the QP's path is new or has changed. */
static void meet(struct path_table *t, struct path_ref *ref, const struct net_path *path)
{
	path_leave(t, ref);
	lock_acquire(&t->lock);
	ref->flows = get(t, path);
	lock_release(&t->lock);
}

uint32_t path_active_qps(struct path_table *t, struct path_ref *ref, const struct net_path *path)
{
	uint32_t current;

	if (unlikely(!ref->flows) || unlikely(!leads_to(ref->flows, path)))
		meet(t, ref, path);
	if (unlikely(!ref->flows))
		return 1;
	current = load_relaxed(&ref->flows->current) +
		  (ref->period != load_relaxed(&ref->flows->period));
	return max(current, load_relaxed(&ref->flows->last));
}

/*
 * Decay: keep half of the last period's senders, because traffic is bursty. Must hold the lock.
 */
static void begin_period(struct path_flows *s, uint64_t rtt, uint64_t now)
{
	store_relaxed(&s->last, max(s->current, s->last / 2));
	store_relaxed(&s->current, 0);
	store_relaxed(&s->period, s->period + 1 ? s->period + 1 : 1);
	store_relaxed(&s->ends, time_after(now, max(2 * rtt, (uint64_t)TUNE_FLOWS_PERIOD)));
}

void path_mark_active(struct path_table *t, struct path_ref *ref, uint64_t rtt, uint64_t now)
{
	struct path_flows *s = ref->flows;

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
