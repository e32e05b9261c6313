/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key table. `table.lock` protects the free entries, and changes of windows; readers use the
 * chunk pointers (release/acquire) and the entries' reference counts.
 *
 * The table is private memory. Local peers see a copy, written when an entry goes live and never
 * read back, so nothing that they write can harm us.
 */
#include "core/mem/key_table.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "run/config.h"
#include "util/atomic.h"
#include "util/compiler.h"

struct beside {
	const void *site; /* atomic */
	struct mr_holds holds;
};

enum {
	REUSE_DELAY = 4096,	/* entries kept free before the oldest is reused */
	DRAIN_SPINS = 128,	/* before a waiter yields its CPU */
	IDLE_SPINS = 10000,	/* before mr_entry_idle() gives up */
	/* entries, then what belongs to each */
	CHUNK_BYTES = MR_CHUNK * (sizeof(struct mr_entry) + sizeof(struct beside)),
};

struct mr_entry *mr_chunks[MR_CHUNKS];

static struct {
	pthread_mutex_t lock;
	struct mr_entry *copy[MR_CHUNKS];	/* what local peers see; NULL: not shared */
	uint32_t fresh;		/* the lowest index never used; 0 is reserved */
	/* FIFO of free indices, linked through mr_entry.parent; 0 = empty */
	uint32_t free_head, free_tail;
	uint32_t n_free;
	uint32_t editions;	/* atomic: the newest, see MR_EDITION */
	mr_chunk_fn source;
	mr_wait_fn wait;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER, .fresh = 1 };

struct mr_entry *mr_entry_at(uint32_t index)
{
	return &load_acquire(&mr_chunks[index >> MR_CHUNK_BITS])[index & (MR_CHUNK - 1)];
}

static struct beside *beside(uint32_t index)
{
	struct mr_entry *chunk = load_acquire(&mr_chunks[index >> MR_CHUNK_BITS]);

	return (struct beside *)(chunk + MR_CHUNK) + (index & (MR_CHUNK - 1));
}

struct mr_holds *mr_entry_holds(uint32_t index)
{
	return &beside(index)->holds;
}

void mr_site_set(uint32_t index, const void *site)
{
	store_relaxed(&beside(index)->site, site);
}

const void *mr_site(uint32_t key)
{
	uint32_t index = mr_key_index(key);

	if (!load_acquire(&mr_chunks[index >> MR_CHUNK_BITS]))
		return NULL;
	return load_relaxed(&beside(index)->site);
}

/* Allocates the chunk of an index if it does not exist. */
static bool have_chunk(uint32_t index)
{
	struct mr_entry **slot = &mr_chunks[index >> MR_CHUNK_BITS];
	void *mem;

	if (*slot)
		return true;
	mem = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return false;
	if (table.source)
		table.copy[index >> MR_CHUNK_BITS] =
			table.source(index & ~(MR_CHUNK - 1u), MR_CHUNK);
	store_release(slot, (struct mr_entry *)mem);	/* pairs with load_acquire() in readers */
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

/* Returns 0 if none is left. Must hold table.lock. */
static uint32_t take_index(void)
{
	if (table.n_free <= REUSE_DELAY && table.fresh <= MR_INDEX_MAX && have_chunk(table.fresh))
		return table.fresh++;
	return table.n_free ? pop_free() : 0;
}

/*
 * One number serves as lkey and rkey, as on mlx5 and rxe. The random part always differs from the
 * previous one: a stale key never matches the new entry, whatever tag the owner of a window chose.
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

/*
 * The shared copy of an entry, or NULL. The lkey gives the index; it does not change while the
 * entry is in use.
 */
static struct mr_entry *copy_of(const struct mr_entry *e)
{
	uint32_t index = mr_key_index(e->lkey);
	struct mr_entry *chunk = table.copy[index >> MR_CHUNK_BITS];

	return chunk ? &chunk[index & (MR_CHUNK - 1)] : NULL;
}

/* 0 if others may not map the memory. Wraps after 2^31 registrations of shared memory. */
static uint32_t new_edition(const struct mr_entry *e)
{
	uint32_t edition = 0;

	while (e->shared && edition == 0)
		edition = (fetch_add_relaxed(&table.editions, 1) + 1) & MR_EDITION;
	return edition;
}

void mr_entry_publish(struct mr_entry *e)
{
	struct mr_entry *copy = copy_of(e);

	if (copy) {
		const size_t refs = sizeof(copy->refs);

		memcpy((uint8_t *)copy + refs, (const uint8_t *)e + refs, sizeof(*e) - refs);
		copy->sum = mr_entry_sum(copy);
		/* pairs with the load in local/onesided.c */
		store_release(&copy->refs, MR_LIVE | new_edition(e));
	}
	fetch_or_acq_rel(&e->refs, MR_LIVE);	/* pairs with mr_entry_get() */
}

/* Others no longer see the entry, and have ended what they began by it. */
static void hide(struct mr_entry *e)
{
	struct mr_entry *copy = copy_of(e);

	if (copy)
		store_relaxed(&copy->refs, 0);	/* ordered by the fence in table.wait() */
	if (table.wait)
		table.wait(mr_key_index(e->lkey), e->shared);
}

/* Waits until the entry has no references; false if it still has some after so many looks. */
static bool drained(const struct mr_entry *e, unsigned int looks)
{
	for (unsigned int spins = 0; spins < looks; spins++) {
		/* Pairs with mr_entry_put(): accesses happen before whatever follows. */
		if (!(load_acquire(&e->refs) & ~MR_LIVE))
			return true;
		if (spins < DRAIN_SPINS)
			cpu_relax();
		else
			sched_yield();
	}
	return false;
}

void mr_entry_retract(struct mr_entry *e)
{
	fetch_and_acq_rel(&e->refs, ~MR_LIVE);
	hide(e);
	while (!drained(e, IDLE_SPINS))
		;
}

void mr_entry_set_access(struct mr_entry *e, uint32_t access)
{
	store_relaxed(&e->access, access);
	/*
	 * Changes nothing, but is ordered with the references: mr_entry_get() either came before,
	 * so that mr_entry_idle() sees it, or reads the new rights.
	 */
	fetch_or_acq_rel(&e->refs, MR_LIVE);
	hide(e);
}

bool mr_entry_idle(const struct mr_entry *e)
{
	return drained(e, IDLE_SPINS);
}

const struct mr_entry *vrb_mem_entry(uint32_t key)
{
	return mr_entry_of_key(key);
}

bool mr_entry_was(uint32_t key, struct mr_entry *copy)
{
	struct mr_entry *e;
	bool was;

	/* Its holder may be waiting for a reference that this thread has. */
	if (pthread_mutex_trylock(&table.lock))
		return false;
	e = mr_entry_find(key);
	was = e && !(load_acquire(&e->refs) & MR_LIVE) && e->lkey == key && e->kind == MR_FREE &&
	      e->length;
	if (was)
		*copy = *e;
	pthread_mutex_unlock(&table.lock);
	return was;
}

struct mr_entry *mr_entry_find(uint32_t key)
{
	uint32_t index = mr_key_index(key);

	return index && index < table.fresh ? mr_entry_at(index) : NULL;
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
	for (unsigned int i = 0; i < MR_CHUNKS && mr_chunks[i]; i++) {
		munmap(mr_chunks[i], CHUNK_BYTES);
		mr_chunks[i] = table.copy[i] = NULL;
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
