/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads recordings, one or several as one, in the order of time.  Files are untrusted: they may be
 * cut off, damaged, forged, or written while they are read.  Each chunk is copied, then checked,
 * then read from the copy; what is not whole is counted and not shown.
 *
 * Memory: one chunk per thread that was writing at the time, and some 70 bytes for each chunk of
 * the files.
 */
#ifndef VRB_RECORD_READER_H
#define VRB_RECORD_READER_H

#include <stdbool.h>

#include "record/format.h"

struct record_reader;

struct record_file {
	struct record_origin origin; /* its strings end, wherever they came from */
	bool ring;
	uint64_t lost; /* records that the writers had no room for */
	uint64_t torn; /* chunks that ended early, of those read to their end; in a ring */
		       /* that is written meanwhile also some that were overwritten */
	uint64_t bad;  /* records that do not fit their type, of those read */
};

/* Valid until the next call. */
struct record {
	uint64_t time; /* never before that of the last record */
	size_t file;   /* in the order in which files were added */
	uint32_t tid;
	uint8_t type;     /* enum record_type, or one of a later version */
	const void *body; /* the struct of the type; aligned to 16 bytes */
	const void *tail;
	size_t body_len, tail_len; /* of an unknown type all is body */
};

/* NULL: memory is out. */
struct record_reader *record_reader_new(void);
void record_reader_free(struct record_reader *r);

/*
 * Adds a file, which the reader owns from then on.
 * 0, EINVAL (no recording), ENOTSUP (another version), EFBIG, ENOMEM, or what read() says.
 */
int record_reader_add(struct record_reader *r, int fd);

/* How many were added; one of them, for as long as no other is added. */
size_t record_reader_files(const struct record_reader *r);
const struct record_file *record_reader_file(const struct record_reader *r, size_t file);

/*
 * To the first record; again, to read again, with what was written since.  ahead, or NULL: by how
 * much the clock of each file is ahead of the time to show (record/align.h).  0, ENOMEM, or what
 * read() says.
 */
int record_reader_start(struct record_reader *r, const int64_t *ahead);

/* 0, ENODATA (no more), ENOMEM, or what read() says. */
int record_reader_next(struct record_reader *r, struct record *record);

#endif
