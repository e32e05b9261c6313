/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared table: owners of slots and of blocks of QP numbers.  docs/HOST.md draws it.
 *
 * It is a file that is read and written in place, not mapped: with a mapping, a full file system or
 * a truncated file would cause SIGBUS. Reading also copies, and the functions here check the copy.
 *
 * Locks are open-file-description locks on bytes far beyond the data, which the kernel releases
 * when their process ends:
 *	TABLE_LOCK_AT			held while owners are changed, or a slot is taken or cleared
 *	TABLE_STEER_LOCK_AT		held while a steering program is built and installed, or
 *					a socket in it is closed
 *	TABLE_SLOT_LOCK_AT + slot	held by the slot's process for as long as it lives
 *	TABLE_MARK_AT + name		shared by all that have the mark
 * They do not exclude threads of one process: host->lock must be held where it uses them.
 */
#ifndef VRB_HOST_TABLE_H
#define VRB_HOST_TABLE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/host.h"
#include "util/time.h"

#define TABLE_MAGIC 0x54534f4842525635ull	/* "5VRBHOST" as bytes on a little-endian machine */

enum {
	TABLE_VERSION = 2,	/* version of everything in the run directory */
	TABLE_SLOTS_AT = 4096,
};

struct table_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint32_t blocks;
	uint32_t slot_size;
	uint32_t owner_size;
	uint32_t reserved;
};
static_assert(sizeof(struct table_header) == 32, "table header");

enum {
	TABLE_MANAGER = 1,	/* the process manages connections */
	TABLE_LISTENER = 2,	/* it has listened for requests */
};

/*
 * Only the slot's process writes it while it lives, but for its positions, which one that closes a
 * socket may change; the process that reclaims it clears it.
 */
struct table_slot {
	uint64_t incarnation;	/* 0: empty */
	uint64_t netns;
	uint32_t pid;
	uint16_t udp_port;
	uint16_t flags;		/* TABLE_MANAGER, TABLE_LISTENER */
	int32_t steer[2];	/* positions of shard 0 */
	/* positions of the other shards, plus one; 0: as shard 0 */
	uint16_t shard[HOST_SHARDS - 1][2];
};
static_assert(sizeof(struct table_slot) == 64, "table slot");
static_assert(offsetof(struct table_slot, steer) == 24, "table slot: steer");
static_assert(offsetof(struct table_slot, shard) == 32, "table slot: shard");

/* The owner of one block of QP numbers. Written under the table lock. */
struct table_owner {
	uint16_t slot_plus_1;	/* 0: free */
	uint16_t shard;		/* the owner's shard; 0 if invalid */
	/* time of the last release, in seconds of CLOCK_MONOTONIC; 0: never */
	uint32_t freed_at;
};
static_assert(sizeof(struct table_owner) == 8, "table owner");

enum {
	TABLE_OWNERS_AT = TABLE_SLOTS_AT + HOST_SLOTS * 64,
	TABLE_SIZE = TABLE_OWNERS_AT + HOST_BLOCKS * 8,
	/* what is read at once, into a small stack: one page of owners or slots */
	TABLE_CHUNK = 512,
	TABLE_SLOTS = 64,
	/* the same into other memory, where all are read: a read is a system call */
	TABLE_MAP_CHUNK = 4096,
	TABLE_MAP_SLOTS = 512,
};
static_assert(TABLE_OWNERS_AT == 69632 && TABLE_SIZE == 593920, "table layout, docs/HOST.md");
static_assert(HOST_BLOCKS % TABLE_CHUNK == 0 && HOST_SLOTS % TABLE_SLOTS == 0 &&
	      HOST_BLOCKS % TABLE_MAP_CHUNK == 0 && HOST_SLOTS % TABLE_MAP_SLOTS == 0,
	      "whole chunks");

#define TABLE_LOCK_AT      (1ll << 40)
#define TABLE_STEER_LOCK_AT (TABLE_LOCK_AT + 1)
#define TABLE_SLOT_LOCK_AT (TABLE_LOCK_AT + 4096)
#define TABLE_MARK_AT      (1ll << 61)
#define TABLE_MARK_MASK    ((1ull << 60) - 1)

/*
 * Time limits for one holder of the lock that lives, though it is stopped or has no CPU; for one
 * that nobody sees; and for all of them together.
 */
#define TABLE_LOCK_TIMEOUT (30 * VRB_SECOND)
#define TABLE_GONE_TIMEOUT (3 * VRB_SECOND)
#define TABLE_CLEANUP_TIMEOUT VRB_SECOND
#define TABLE_WAIT_MAX (120 * VRB_SECOND)

struct table {
	int fd;
	uint32_t pid_ns;	/* inode of this process's PID namespace; 0: unknown */
};

/* A wait for the lock; the caller sets `timeout`, the rest is 0. */
struct table_wait {
	uint64_t timeout;
	uint64_t checked;	/* when */
	uint64_t total, holder;	/* waited since it began, and since the holder last changed */
	uint64_t turn;
};

/* The lock is held by the holder of this turn: returns true if the wait has timed out. */
bool table_wait_over(struct table_wait *wait, uint64_t turn, uint64_t now);

/* How long to wait for the lock's holder at most. */
uint64_t table_patience(const struct table *t);

/*
 * Opens or creates the table in the run directory. An invalid table, or one of another version, is
 * recreated if no live process uses it. Returns 0, EPROTO (another version's that is in use),
 * EBADMSG (invalid but in use, or of another user), EBUSY (its lock is held for long), EFBIG
 * (beyond the process's file size limit), or another errno value.
 */
int table_open(struct table *t, int dirfd);
void table_close(struct table *t);	/* drops its locks */

/*
 * Returns true if another open file has a lock in it, as every process has that uses a table of any
 * version.
 */
bool table_in_use(const struct table *t);

/*
 * Waits while the lock changes hands. Returns EBUSY if one holder, which may be stopped, keeps it.
 */
int table_lock(struct table *t);

/* As table_lock(), with the caller's timeout for one holder, in ns. */
int table_lock_within(struct table *t, uint64_t timeout);
void table_unlock(struct table *t);

/* The same for TABLE_STEER_LOCK_AT; returns false if it could not be had within a second or so. */
bool table_steer_lock(struct table *t);
void table_steer_unlock(struct table *t);

/*
 * The turn changes whenever the lock is taken or released, and when a process that has changed its
 * own slot advances it. It tells waiters that others go on, and readers that what they have read
 * may be old.
 */
uint64_t table_turn(const struct table *t);
void table_advance_turn(struct table *t);

/* Changes when a process has closed its UDP sockets, or one that had some has died. */
uint64_t table_departures(const struct table *t);
void table_note_departure(struct table *t);

/* Takes a slot's life lock; returns false if a live process has it. */
bool table_take_slot(struct table *t, int slot);
void table_drop_slot(struct table *t, int slot);

/* Returns true if another open file has the slot's life lock. */
bool table_slot_locked(const struct table *t, int slot);
bool table_slot_free(const struct table *t, int slot);	/* neither: nobody can tell */

/* Marks of host.h. Test and set is atomic only under the table lock. */
bool table_marked(const struct table *t, uint64_t name);	/* by another open file */
int table_mark(struct table *t, uint64_t name);
void table_unmark(struct table *t, uint64_t name);

/* Reads a slot; an empty one reads as zero. Returns false for an unreadable one, zero as well. */
bool table_read_slot(const struct table *t, int slot, struct table_slot *s);
int table_write_slot(struct table *t, int slot, const struct table_slot *s);
int table_write_steer(struct table *t, int slot, const struct table_slot *s);	/* positions */

/* As table_read_slot(), for n slots: reads all or none. */
void table_read_slots(const struct table *t, int first, unsigned int n, struct table_slot *s);

/* Returns the owner of a block: its slot, or HOST_NO_SLOT. */
int table_owner_of(const struct table *t, uint32_t block);
int table_write_owner(struct table *t, uint32_t block, const struct table_owner *o);

/* Reads n owners; values above HOST_SLOTS read as free. */
void table_read_owners(const struct table *t, uint32_t first, unsigned int n,
		       struct table_owner *o);

/* Frees all blocks of a slot. Must hold the table lock. */
void table_free_blocks(struct table *t, int slot);

/* Returns CLOCK_MONOTONIC in seconds, never 0. */
uint32_t table_now(void);

#endif
