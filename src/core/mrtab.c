/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key table.  `table.lock` serialises writers; readers use the chunk pointers (release/acquire) and the entries' reference counts.
 *
 * The table is private memory.  What neighbours may know is a copy, written when an entry goes live and never read back: nothing they write
 * can harm us.
 */
#include "core/mrtab.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "run/config.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	CHUNK_BITS = 10,
	CHUNK = 1 << CHUNK_BITS,
	CHUNKS = 1 << (MR_INDEX_BITS - CHUNK_BITS),
	REUSE_DELAY = 4096,	/* freed entries that wait before the first of them is used again */
	DRAIN_SPINS = 128,	/* before a waiter gives its processor away */
	CHUNK_BYTES = CHUNK * (sizeof(struct mr_entry) + sizeof(void *)),	/* entries, then where each was made */
};

static struct {
	pthread_mutex_t lock;
	struct mr_entry *chunk[CHUNKS];
	struct mr_entry *copy[CHUNKS];	/* as neighbours see it; NULL: they do not */
	uint32_t fresh;		/* the next index never used; 0 is never used */
	uint32_t free_head, free_tail;	/* FIFO of free indices, linked through mr_entry.parent; 0 = empty */
	uint32_t n_free;
	mr_chunk_fn source;
	mr_wait_fn wait;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER, .fresh = 1 };

struct mr_entry *mr_entry_at(uint32_t index)
{
	return &load_acquire(&table.chunk[index >> CHUNK_BITS])[index & (CHUNK - 1)];
}

static const void **site_of(uint32_t index)
{
	struct mr_entry *chunk = load_acquire(&table.chunk[index >> CHUNK_BITS]);

	return (const void **)(chunk + CHUNK) + (index & (CHUNK - 1));
}

void mr_site_set(uint32_t index, const void *site)
{
	store_relaxed(site_of(index), site);
}

const void *mr_site(uint32_t key)
{
	uint32_t index = mr_key_index(key);

	return load_acquire(&table.chunk[index >> CHUNK_BITS]) ? load_relaxed(site_of(index)) : NULL;
}

/* Makes sure the chunk of an index exists. */
static bool have_chunk(uint32_t index)
{
	struct mr_entry **slot = &table.chunk[index >> CHUNK_BITS];
	void *mem;

	if (*slot)
		return true;
	mem = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return false;
	if (table.source)
		table.copy[index >> CHUNK_BITS] = table.source(index & ~(CHUNK - 1u), CHUNK);
	store_release(slot, (struct mr_entry *)mem);	/* pairs with the acquire of readers */
	return true;
}

static uint32_t pop_free(void)
{
	uint32_t index = table.free_head;

	table.free_head = mr_entry_at(index)->parent;
	if (!table.free_head)
		table.free_tail = 0;
	table.n_free--;
	return index;
}

/* Must hold table.lock. 0: none. */
static uint32_t take_index(void)
{
	if (table.n_free <= REUSE_DELAY && table.fresh <= MR_INDEX_MAX && have_chunk(table.fresh))
		return table.fresh++;
	return table.n_free ? pop_free() : 0;
}

/*
 * One number as lkey and rkey, as on mlx5 and rxe.  Its random part is unlike the one before, so that a stale key is none of the new entry
 * whatever tag a window's user gave it.
 */
static void make_key(struct mr_entry *e, uint32_t index)
{
	uint32_t old = e->lkey;

	do {
		uint64_t r = config_random();

		e->lkey = e->rkey = (uint32_t)(r & 0xf) << 28 | index << 8 | (r >> 8 & 0xff);
	} while (e->lkey >> 28 == old >> 28);
}

struct mr_entry *mr_entry_alloc(uint32_t *index)
{
	struct mr_entry *e = NULL;

	pthread_mutex_lock(&table.lock);
	*index = take_index();
	if (*index) {
		e = mr_entry_at(*index);
		make_key(e, *index);
		mr_site_set(*index, NULL);
	}
	pthread_mutex_unlock(&table.lock);
	return e;
}

void mr_entry_free(uint32_t index)
{
	struct mr_entry *e = mr_entry_at(index);

	pthread_mutex_lock(&table.lock);
	e->kind = MR_FREE;
	e->parent = 0;
	if (table.free_tail)
		mr_entry_at(table.free_tail)->parent = index;
	else
		table.free_head = index;
	table.free_tail = index;
	table.n_free++;
	pthread_mutex_unlock(&table.lock);
}

uint32_t mr_table_end(void)
{
	uint32_t end;

	pthread_mutex_lock(&table.lock);
	end = table.fresh;
	pthread_mutex_unlock(&table.lock);
	return end;
}

/* What neighbours see of an entry, or NULL. The lkey names the index: it stays while an entry is in use. */
static struct mr_entry *copy_of(const struct mr_entry *e)
{
	uint32_t index = mr_key_index(e->lkey);
	struct mr_entry *chunk = table.copy[index >> CHUNK_BITS];

	return chunk ? &chunk[index & (CHUNK - 1)] : NULL;
}

void mr_entry_publish(struct mr_entry *e)
{
	struct mr_entry *copy = copy_of(e);

	if (copy) {
		const size_t refs = sizeof(copy->refs);

		memcpy((uint8_t *)copy + refs, (const uint8_t *)e + refs, sizeof(*e) - refs);
		copy->sum = mr_entry_sum(copy);
		store_release(&copy->refs, MR_LIVE);	/* pairs with the load in local/onesided.c */
	}
	fetch_or_acq_rel(&e->refs, MR_LIVE);	/* release: pairs with mr_entry_get() */
}

void mr_entry_retract(struct mr_entry *e)
{
	struct mr_entry *copy = copy_of(e);

	fetch_and_acq_rel(&e->refs, ~MR_LIVE);
	if (copy) {
		store_relaxed(&copy->refs, 0);	/* the fence in wait() is behind it */
		table.wait(mr_key_index(e->lkey));
	}
	/* acquire: what the accesses did happens before what comes after this; pairs with mr_entry_put() */
	for (unsigned int spins = 0; load_acquire(&e->refs) & ~MR_LIVE; spins++) {
		if (spins < DRAIN_SPINS)
			cpu_relax();
		else
			sched_yield();
	}
}

struct mr_entry *mr_entry_get(uint32_t key)
{
	uint32_t index = mr_key_index(key);
	struct mr_entry *chunk = load_acquire(&table.chunk[index >> CHUNK_BITS]);
	struct mr_entry *e;

	if (unlikely(!chunk))
		return NULL;
	e = &chunk[index & (CHUNK - 1)];
	/* acquire: pairs with mr_entry_publish(), so that the fields are the ones published */
	if (likely(fetch_add_acq_rel(&e->refs, 1) & MR_LIVE))
		return e;
	mr_entry_put(e);
	return NULL;
}

struct mr_entry *mr_entry_find(uint32_t key)
{
	uint32_t index = mr_key_index(key);

	return index && index < table.fresh ? mr_entry_at(index) : NULL;
}

void mr_entry_put(struct mr_entry *e)
{
	fetch_sub_release(&e->refs, 1);	/* pairs with mr_entry_retract() */
}

void mr_table_lock(void)
{
	pthread_mutex_lock(&table.lock);
}

void mr_table_unlock(void)
{
	pthread_mutex_unlock(&table.lock);
}

void mr_table_reset(void)
{
	pthread_mutex_init(&table.lock, NULL);
	for (unsigned int i = 0; i < CHUNKS && table.chunk[i]; i++) {
		munmap(table.chunk[i], CHUNK_BYTES);
		table.chunk[i] = table.copy[i] = NULL;
	}
	table.fresh = 1;
	table.free_head = table.free_tail = table.n_free = 0;
	table.source = NULL;
	table.wait = NULL;
}

void mr_table_source(mr_chunk_fn chunk, mr_wait_fn wait)
{
	table.source = chunk;
	table.wait = wait;
}
