/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads one or several recordings and merges them in the order of time.  Files are untrusted: they
 * may be cut off, damaged, forged, or written while they are read.  Each chunk is copied, then
 * checked, then read from the copy; incomplete records are counted and skipped.
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
	struct record_origin origin; /* its strings are terminated, in damaged files too */
	bool ring;
	uint64_t lost; /* records that the writers had no room for */
	uint64_t torn; /* chunks that ended early, of those read to their end; in a ring */
		       /* that is written meanwhile also some that were overwritten */
	uint64_t bad;  /* records whose length does not fit their type, of those read */
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

/* NULL: out of memory. */
struct record_reader *record_reader_new(void);
void record_reader_free(struct record_reader *r);

/*
 * Adds a file, whose descriptor the reader owns from then on, unless it fails.
 * Returns 0, EINVAL (no recording), ENOTSUP (another version), EFBIG, ENOMEM, or the errno of
 * read(2).
 */
int record_reader_add(struct record_reader *r, int fd);

/* The number of files; and one of them, valid until another one is added. */
size_t record_reader_files(const struct record_reader *r);
const struct record_file *record_reader_file(const struct record_reader *r, size_t file);

/*
 * Moves to the first record.  Called again, it includes records written since.  ahead, or NULL: by
 * how much the clock of each file is ahead of the time to show (record/align.h).  Returns 0,
 * ENOMEM, or the errno of read(2).
 */
int record_reader_start(struct record_reader *r, const int64_t *ahead);

/* By how much a clock is ahead of the time to show, ns, at a time of its own. */
struct record_lead {
	uint64_t time;
	int64_t ahead;
};

/*
 * For a clock that runs at another rate: n > 0 leads, in order of their times, of which the lead
 * grows less than the time. In between it changes in proportion, outside it is that of the first or
 * last. From the next start on it replaces `ahead`. `lead` must stay valid.
 */
void record_reader_set_clock(struct record_reader *r, size_t file, const struct record_lead *lead,
			     size_t n);

/* Returns 0, ENODATA (no more records), ENOMEM, or the errno of read(2). */
int record_reader_next(struct record_reader *r, struct record *record);

#endif
