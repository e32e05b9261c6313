/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/live_objects.h"

#include <pthread.h>

/* 128 KiB of lazily allocated pages; keeps chains short for about 100,000 objects. */
enum { BUCKET_BITS = 14 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vrb_live *buckets[1 << BUCKET_BITS];

static struct vrb_live **bucket_of(const void *object)
{
	return &buckets[(uintptr_t)object * 0x9e3779b97f4a7c15ull >> (64 - BUCKET_BITS)];
}

void vrb_live_add(struct vrb_live *l, const void *object, const struct ibv_context *context,
		  uint32_t handle)
{
	struct vrb_live **bucket = bucket_of(object);

	l->object = object;
	l->context = context;
	l->handle = handle;
	pthread_mutex_lock(&lock);
	l->next = *bucket;
	*bucket = l;
	pthread_mutex_unlock(&lock);
}

void vrb_live_del(struct vrb_live *l)
{
	struct vrb_live **at;

	if (!l->object)
		return;
	pthread_mutex_lock(&lock);
	for (at = bucket_of(l->object); *at != l; at = &(*at)->next)
		;
	*at = l->next;
	pthread_mutex_unlock(&lock);
	l->object = NULL;
}

/* Must hold lock. */
static const struct vrb_live *find(const void *object)
{
	const struct vrb_live *l = *bucket_of(object);

	while (l && l->object != object)
		l = l->next;
	return l;
}

bool vrb_live_has(const void *object)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = find(object) != NULL;
	pthread_mutex_unlock(&lock);
	return has;
}

bool vrb_live_is(const void *object, const struct ibv_context *context, uint32_t handle)
{
	const struct vrb_live *l;
	bool same;

	pthread_mutex_lock(&lock);
	l = find(object);
	same = l && l->context == context && l->handle == handle;
	pthread_mutex_unlock(&lock);
	return same;
}

void vrb_live_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}
