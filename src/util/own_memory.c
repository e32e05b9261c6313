/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/own_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/atomic.h"
#include "util/compiler.h"

/* The loser of a race gives its key back. */
static bool make_key(struct own_memory *o)
{
	uint32_t none = 0;
	pthread_key_t key;

	if (pthread_key_create(&key, free))
		return false;
	if (!cas_acq_rel(&o->key, &none, key + 1))	/* pairs with the load below */
		pthread_key_delete(key);
	return true;
}

void *own_memory(struct own_memory *o)
{
	uint32_t key = load_acquire(&o->key);
	void *p;

	if (unlikely(!key) && !make_key(o))
		return NULL;
	key = load_acquire(&o->key) - 1;
	p = pthread_getspecific(key);
	if (likely(p != NULL))
		return p;
	p = calloc(1, o->size);
	if (p && pthread_setspecific(key, p)) {
		free(p);
		p = NULL;
	}
	return p;
}
