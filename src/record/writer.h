/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a recording (record/format.h) through a mapping: reserve, fill, commit.
 *
 * Each writer has a chunk of the file for itself, so no record takes a lock, a locked instruction
 * or a system call; a chunk takes one compare-and-swap, and in a file that grows three system
 * calls.
 *
 * KILLED AT ANY INSTRUCTION.  The stores of a killed process stay in the page cache, in program
 * order.  Commit stores the record's first word, with size and checksum, after all others, so a
 * record is complete or absent.  A release store enforces this order on the compiler and, for a
 * concurrent reader, on the processor.  The reader needs no barrier in return: it copies the record
 * and verifies the checksum of the copy.  Pages lost in a crash of the machine, and records
 * overwritten while they are read, fail the same check; one of 2^32 of them passes.
 *
 * COST.  A record of 64 bytes takes 78 instructions besides filling it.  It touches the writer's
 * own cache line, one or two lines of the file that no other thread uses, and, once per chunk, the
 * recording's shared line.
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
	dev_t dev; /* of fd: programs that close all descriptors close this one, too */
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
 * Creates a file, which must not exist; it gets its name once its header is complete.  A ring keeps
 * the last `size` bytes and allocates them at once; otherwise the file grows up to `size`, and only
 * address space is reserved.  size: at least two chunks.
 * Returns 0, EINVAL (size), ENAMETOOLONG, ENOMEM, EEXIST, ENOSPC, or the errno of open(2).
 */
int recording_open(struct recording *r, const char *path, uint64_t size, bool ring,
		   const struct record_origin *origin);

/* Unmaps and closes the file.  All writers must have ended. */
void recording_close(struct recording *r);

/* Starts a writer, which one thread at a time may use, but no signal handler. */
void record_writer_start(struct record_writer *w, struct recording *r, uint32_t tid);

/* Releases the writer's chunk: in a ring a chunk that is held is not reused. */
void record_writer_end(struct record_writer *w);

/*
 * Takes the next chunk with room for a body of len.  False: there is none, and the record is
 * counted as lost.
 */
bool record_writer_turn(struct record_writer *w, size_t len);

/*
 * Reserves the body of a record, len bytes aligned to 16, which the caller fills before it commits.
 * A record that is not committed does not exist.  NULL: no room; the record is counted as lost.
 */
static inline void *record_reserve(struct record_writer *w, size_t len)
{
	if (unlikely((size_t)(w->end - w->at) < record_size(len)) && !record_writer_turn(w, len))
		return NULL;
	return w->at + sizeof(struct record_head);
}

/*
 * Commits the record that was reserved with this len.  Times never decrease: one before that of the
 * last record is replaced by it.
 */
void record_commit(struct record_writer *w, enum record_type type, size_t len, uint64_t now);

#endif
