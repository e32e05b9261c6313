/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a recording (record/format.h) through a mapping: reserve, fill, commit.
 *
 * Each writer has a chunk of the file for itself, so no record takes a lock, a locked instruction
 * or a system call; a chunk takes one compare-and-swap, and in a file that grows three system
 * calls.
 *
 * KILLED AT ANY INSTRUCTION.  What a process stored before it died stays in the page cache, in
 * program order as far as it came.  Commit stores the record's first word, with size and checksum,
 * after all others, so a record is there or not.  The release order keeps the compiler and, for
 * those who read while it is written, the processor to that.  The reader needs no barrier in
 * return: it copies, and the checksum tells whether it copied a record whole.  Pages that a crash
 * of the machine left out, and records half overwritten under the reader, fail the same check,
 * with 2^-32 for each to pass.
 *
 * COST.  A record of 64 bytes takes 78 instructions besides filling it, and touches the writer's
 * own cache line and one or two of the file, that no other thread has; the recording's shared line
 * once per chunk.
 */
#ifndef VRB_RECORD_WRITER_H
#define VRB_RECORD_WRITER_H

#include <stdbool.h>
#include <sys/types.h>

#include "record/format.h"
#include "util/compiler.h"

/* The recording of this process.  After fork() the child makes its own. */
struct recording {
	uint8_t *base; /* immutable, as all of this line */
	uint64_t chunks;
	uint64_t started;
	int fd;    /* -1 in a ring */
	dev_t dev; /* of fd: a program that closes all it has closes this, too */
	ino_t ino;
	bool ring;
	uint64_t next cacheline_aligned; /* atomic: number of the next chunk */
	bool full;                       /* atomic: the file does not grow any more */
};

/* One thread's place in it. */
struct record_writer {
	struct recording *recording;
	struct record_chunk *chunk; /* NULL: none yet */
	uint8_t *at, *end;          /* where the next record goes, where the chunk ends */
	uint64_t seed;              /* of the chunk's checks */
	uint64_t last;              /* time of the last record */
	uint32_t tid;
} cacheline_aligned;

/*
 * Makes a file, which must not be there; it has its name only once it is readable.  A ring keeps
 * the last `size` bytes, which are taken at once; otherwise the file grows up to `size`, of which
 * only addresses are taken.  At least two chunks.
 * 0, EINVAL (size), ENAMETOOLONG, ENOMEM, EEXIST, ENOSPC, or what open() says.
 */
int recording_open(struct recording *r, const char *path, uint64_t size, bool ring,
		   const struct record_origin *origin);

/* All writers have ended. */
void recording_close(struct recording *r);

/* A writer is used by one thread at a time, and not by signal handlers. */
void record_writer_start(struct record_writer *w, struct recording *r, uint32_t tid);

/* Gives its chunk back: in a ring a chunk that is held is not used again. */
void record_writer_end(struct record_writer *w);

/* Takes the next chunk with room for a body of len; false, and counted as lost: there is none. */
bool record_writer_turn(struct record_writer *w, size_t len);

/*
 * Room for the body of a record, aligned to 16 bytes, all of len to be filled before the commit;
 * one that is not committed is not there.  NULL: no room, counted as lost.
 */
static inline void *record_reserve(struct record_writer *w, size_t len)
{
	if (unlikely((size_t)(w->end - w->at) < record_size(len)) && !record_writer_turn(w, len))
		return NULL;
	return w->at + sizeof(struct record_head);
}

/* Of the len that was reserved.  A time before that of the last record becomes that. */
void record_commit(struct record_writer *w, enum record_type type, size_t len, uint64_t now);

#endif
