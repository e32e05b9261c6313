/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings in memory for tests: each record's contents tell what must be read back. */
#ifndef TESTS_UNIT_RECORD_ENV_H
#define TESTS_UNIT_RECORD_ENV_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "record/reader.h"
#include "record/writer.h"

static const struct record_origin some_origin = {
	.started = 1000,
	.wall = 5000000,
	.boot_id = { 1, 2, 3 },
	.pid = 4711,
	.host = "left",
	.command = "a program",
};

/* Packets with a tail of bytes that follow from the record's number. */
static inline size_t numbered_len(uint64_t number)
{
	return sizeof(struct record_packet) + number % 100;
}

static inline bool write_numbered_at(struct record_writer *w, uint64_t number, uint64_t time)
{
	size_t len = numbered_len(number);
	struct record_packet *p = record_reserve(w, len);

	if (!p)
		return false;
	*p = (struct record_packet){ .qpn = w->tid, .index = (uint32_t)number, .length = 1 };
	memset(p + 1, (int)number, len - sizeof(*p));
	record_commit(w, RECORD_PACKET, len, time);
	return true;
}

static inline bool write_numbered(struct record_writer *w, uint64_t number)
{
	return write_numbered_at(w, number, 2000 + number);
}

/* Returns the number of a record from write_numbered(), and checks every byte of it. */
static inline uint64_t numbered(const struct record *got)
{
	const struct record_packet *p = got->body;
	const uint8_t *tail = got->tail;

	assert_int_equal(got->type, RECORD_PACKET);
	assert_int_equal(got->body_len + got->tail_len, numbered_len(p->index));
	assert_int_equal(p->qpn, got->tid);
	assert_int_equal(p->length, 1);
	for (size_t i = 0; i < got->tail_len; i++)
		assert_int_equal(tail[i], p->index & 0xff);
	return p->index;
}

/* Opens one file; the reader is at its first record. */
static inline struct record_reader *read_path(const char *path)
{
	struct record_reader *r = record_reader_new();

	assert_non_null(r);
	assert_int_equal(record_reader_add(r, open(path, O_RDONLY | O_CLOEXEC)), 0);
	assert_int_equal(record_reader_start(r, NULL), 0);
	return r;
}

#endif
