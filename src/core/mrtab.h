/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key table behind regions and windows; mr.h says what a key and an entry are.
 *
 * Writers (allocate, free, publish, retract) hold the table's lock; accesses take none:  they take a reference by index and then look.
 *
 *	publish: write the fields, then set the live bit (release)  --  pairs with mr_entry_get (acquire)
 *	retract: clear the live bit, then wait until no reference is left, then change the fields
 */
#ifndef VRB_CORE_MRTAB_H
#define VRB_CORE_MRTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mr.h"

/*
 * Takes a free index and gives its entry a fresh key, lkey and rkey in one (never 0, unlike the one before). The entry is not live.
 * NULL when the table is full or memory is out.
 */
struct mr_entry *mr_entry_alloc(uint32_t *index);

/* Returns a retracted entry's index; reused as late as possible. */
void mr_entry_free(uint32_t index);

/* Every index in use is below this. */
uint32_t mr_table_end(void);

void mr_entry_publish(struct mr_entry *e);

/* Clears the live bit and waits for accesses in flight. No access starts afterwards. Must hold no reference. */
void mr_entry_retract(struct mr_entry *e);

/* The entry of an index that is known to be allocated. */
struct mr_entry *mr_entry_at(uint32_t index);

/* The entry of a key's index, live or not; NULL: there never was one. Must hold the table's lock. */
struct mr_entry *mr_entry_find(uint32_t key);

/* A reference on the live entry that a key's index names; NULL if there is none. The key itself is not compared. */
struct mr_entry *mr_entry_get(uint32_t key);
void mr_entry_put(struct mr_entry *e);

/* Where in the program a region was registered (a return address), for messages; by index, and by any key. NULL: not known. */
void mr_site_set(uint32_t index, const void *site);
const void *mr_site(uint32_t key);

/*
 * Serialises changes of windows: who changes a window, or reads one that may not be live, holds it.  Nothing but mr_entry_find(), _get(),
 * _put(), _publish() and _retract() may be called meanwhile.
 */
void mr_table_lock(void);
void mr_table_unlock(void);

/*
 * Where the copies for other processes go: fn(first, n) returns zeroed memory for entries [first, first + n), or NULL, and then they stay
 * unknown to others.  Set while the table is empty; mr_table_reset() ends it.
 */
typedef struct mr_entry *(*mr_chunk_fn)(uint32_t first, uint32_t n);

/* Called after an entry was made dead: waits until no other process uses it. */
typedef void (*mr_wait_fn)(uint32_t index);

void mr_table_source(mr_chunk_fn chunk, mr_wait_fn wait);

/* A forked child starts with an empty table: the parent's keys are not its own. Called with no other thread alive. */
void mr_table_reset(void);

#endif
