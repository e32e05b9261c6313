/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/own_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct block {
	struct block *next;	/* of this thread */
	void (*forget)(void);
	_Alignas(max_align_t) uint8_t data[];
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;	/* one for all such memory: a process has 1,024 */
static bool has_key;

static void free_all(void *first)
{
	for (struct block *b = first, *next; b; b = next) {
		next = b->next;
		b->forget();
		free(b);
	}
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, free_all) == 0;
}

void *own_memory(size_t size, void (*forget)(void))
{
	struct block *b = malloc(sizeof(*b) + size);

	if (!b)
		return NULL;
	pthread_once(&key_once, make_key);
	b->forget = forget;
	b->next = has_key ? pthread_getspecific(key) : NULL;
	if (has_key && pthread_setspecific(key, b)) {
		free(b);
		return NULL;
	}
	return b->data;
}
