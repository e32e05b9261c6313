/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key table behind regions and windows; mr.h defines keys and entries.
 *
 * To allocate or free an entry takes the table's lock, and windows are published and retracted
 * under it; regions need none for that, as only their owner does it. Accesses take no lock: they
 * take a reference by index, or peek (mr_entry_peek()), then check the entry.
 *
 *	publish: write the fields, then set the live bit (release); pairs with mr_entry_get()
 *	retract: clear the live bit, then wait until no reference is left, then change the fields
 */
#ifndef VRB_CORE_MEM_KEY_TABLE_H
#define VRB_CORE_MEM_KEY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mem/mr.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	MR_CHUNK_BITS = 10,
	MR_CHUNK = 1 << MR_CHUNK_BITS,
	MR_CHUNKS = 1 << (MR_INDEX_BITS - MR_CHUNK_BITS),
};

/* atomic; indexed by the upper bits of an entry's index; NULL: not allocated yet */
extern struct mr_entry *mr_chunks[MR_CHUNKS];

/*
 * Takes a free index and gives its entry a fresh key, the same for lkey and rkey: never 0, and
 * different from the entry's previous key. The entry is not live. Returns NULL if the table is full
 * or memory is exhausted.
 */
struct mr_entry *mr_entry_alloc(uint32_t *index);

/*
 * Returns a retracted entry's index to the FIFO of free indices. Nothing may use the entry by
 * mr_entry_peek() any more.
 */
void mr_entry_free(uint32_t index);

/* An upper bound: every index in use is below it. */
uint32_t mr_table_end(void);

void mr_entry_publish(struct mr_entry *e);

/*
 * Clears the live bit and waits for accesses in flight. No access starts afterwards. The caller
 * must hold no reference.
 */
void mr_entry_retract(struct mr_entry *e);

/*
 * New rights for a live entry: accesses that old and new rights allow never fail. Others do not see
 * the entry until mr_entry_publish() and send their requests here. What began before may go on with
 * the old rights: then wait as after mr_entry_retract(), and for mr_entry_idle().
 */
void mr_entry_set_access(struct mr_entry *e, uint32_t access);

/* Waits for a moment without references; false if none came soon. */
bool mr_entry_idle(const struct mr_entry *e);

/* The entry of an index; the index must be allocated. */
struct mr_entry *mr_entry_at(uint32_t index);

/*
 * The entry of a key's index, live or not; NULL if the index was never allocated. Must hold the
 * table's lock.
 */
struct mr_entry *mr_entry_find(uint32_t key);

/*
 * For the log: is this the key of a deregistered region whose entry has not been used again? Then
 * *copy is what it was. False also while another thread has the table's lock.
 */
bool mr_entry_was(uint32_t key, struct mr_entry *copy);

/*
 * mr_entry_get() returns a reference on the live entry that a key's index names, or NULL. It does
 * not compare the key itself.
 */
static inline void mr_entry_put(struct mr_entry *e)
{
	fetch_sub_release(&e->refs, 1);	/* pairs with mr_entry_retract() */
}

static inline struct mr_entry *mr_entry_of_key(uint32_t key)
{
	uint32_t index = mr_key_index(key);
	struct mr_entry *chunk = load_acquire(&mr_chunks[index >> MR_CHUNK_BITS]);

	return likely(chunk != NULL) ? &chunk[index & (MR_CHUNK - 1)] : NULL;
}

static inline struct mr_entry *mr_entry_get(uint32_t key)
{
	struct mr_entry *e = mr_entry_of_key(key);

	if (unlikely(!e))
		return NULL;
	/* Pairs with mr_entry_publish(): the published fields are visible. */
	if (likely(fetch_add_acq_rel(&e->refs, 1) & MR_LIVE))
		return e;
	mr_entry_put(e);
	return NULL;
}

/*
 * As mr_entry_get(), without a reference, but for regions only: the entry keeps its fields while
 * the caller holds a lock that the end of a region takes (struct vrb_mr_waits).
 */
static inline struct mr_entry *mr_entry_peek(uint32_t key)
{
	struct mr_entry *e = mr_entry_of_key(key);
	uint8_t kind;

	/* Pairs with mr_entry_publish(). */
	if (unlikely(!e || !(load_acquire(&e->refs) & MR_LIVE)))
		return NULL;
	kind = load_relaxed(&e->kind);
	/* MR_FREE: a window that is just being deallocated */
	return kind != MR_WINDOW && kind != MR_FREE ? e : NULL;
}

/*
 * What a region holds until it is deregistered, through whichever of its handles. Written while the
 * entry is not live; peers do not see it.
 */
struct mr_holds {
	struct vrb_pd *pd;
	struct dm_memory *dm; /* the device memory behind it, or NULL */
	void *mapping;        /* mapping of a dma-buf, or NULL */
	size_t mapping_len;
};

/* The index must be allocated. */
struct mr_holds *mr_entry_holds(uint32_t index);

/*
 * Where the program registered a region (a return address), for messages. Set by index, looked up
 * by any key; NULL: unknown.
 */
void mr_site_set(uint32_t index, const void *site);
const void *mr_site(uint32_t key);

/*
 * Serialises changes of windows. Needed to change a window, or to read one that may not be live.
 * While holding it, call only mr_entry_find(), _get(), _put(), _publish() and _retract().
 */
void mr_table_lock(void);
void mr_table_unlock(void);

/*
 * Where to put the copies for other processes: fn(first, n) returns zeroed memory for entries
 * [first, first + n), or NULL, and then other processes cannot see them. Set it while the table is
 * empty; mr_table_reset() clears it.
 */
typedef struct mr_entry *(*mr_chunk_fn)(uint32_t first, uint32_t n);

/*
 * Called after an entry has died: waits until no thread or process uses it without a reference.
 * shared: others may have mapped its memory.
 */
typedef void (*mr_wait_fn)(uint32_t index, bool shared);

void mr_table_source(mr_chunk_fn chunk, mr_wait_fn wait);

/*
 * A forked child starts with an empty table: the parent's keys are not valid in it. No other thread
 * may exist.
 */
void mr_table_reset(void);

#endif
