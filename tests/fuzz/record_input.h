/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recordings out of a fuzzer's input: a file as it is, or what it holds, chunk by chunk and record
 * by record, whose checksums are made right.
 */
#ifndef TESTS_FUZZ_RECORD_INPUT_H
#define TESTS_FUZZ_RECORD_INPUT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "record/format.h"

enum { CHUNKS = 2 };

static inline uint64_t long_word(struct input *in)
{
	return (uint64_t)word(in) << 32 | word(in);
}

/* Short values mostly: those far off are refused at once. */
static inline uint64_t some_time(struct input *in)
{
	return byte(in) % 8 ? byte(in) : long_word(in);
}

/* The end of the record, or of the chunk. */
static inline size_t put_record(struct input *in, uint8_t *chunk, size_t at, uint64_t seed)
{
	uint8_t choice = byte(in);
	struct record_head h = {
		.size = choice & 1 ? (uint16_t)word(in) : (uint16_t)(16 * (1 + byte(in) % 16)),
		.type = choice & 2 ? byte(in) : (uint8_t)(1 + byte(in) % (RECORD_TYPES - 1)),
		.pad = choice & 4 ? byte(in) % 20 : 0,
	};
	uint64_t first;

	h.time = some_time(in);
	memcpy(&first, &h, sizeof(first));
	if (h.size < sizeof(h) || at + h.size > RECORD_CHUNK_LEN)
		return RECORD_CHUNK_LEN;
	memcpy(chunk + at, &h, sizeof(h));
	for (size_t i = sizeof(h); i < h.size && i < 64; i++)
		chunk[at + i] = byte(in);
	if (h.size % RECORD_ALIGN == 0 && choice != 255)
		h.check = record_check(seed, first, chunk + at, h.size);
	memcpy(chunk + at, &h, sizeof(h));
	return at + h.size;
}

static inline void put_chunk(struct input *in, int fd, uint64_t n)
{
	uint8_t *chunk = calloc(1, RECORD_CHUNK_LEN);
	struct record_chunk c = { .time = some_time(in), .state = byte(in), .tid = byte(in) };
	uint64_t seed = record_seed(c.state, c.time, c.tid);
	size_t at = sizeof(c), len;
	uint8_t records = byte(in) % 32;

	FUZZ_CHECK(chunk);
	while (records-- && at < RECORD_CHUNK_LEN)
		at = put_record(in, chunk, at, seed);
	c.used = byte(in) % 8 ? (uint32_t)at : word(in);
	memcpy(chunk, &c, sizeof(c));
	len = byte(in) % 8 ? at : word(in) % (at + 1);
	FUZZ_CHECK(pwrite(fd, chunk, len, (off_t)record_chunk_offset(n)) == (ssize_t)len);
	free(chunk);
}

/* raw: the input is the file, but for the front of its header. */
static inline int make_file(struct input *in, bool raw)
{
	struct record_file_header h = { .version = RECORD_VERSION };
	int fd = memfd_create("recording", MFD_CLOEXEC);

	memcpy(h.magic, RECORD_MAGIC, sizeof(h.magic));
	FUZZ_CHECK(fd >= 0);
	if (raw) {
		size_t at = sizeof(h.magic) + byte(in) % 64, left = (size_t)(in->end - in->p);

		FUZZ_CHECK(pwrite(fd, &h, sizeof(h), 0) == sizeof(h));
		FUZZ_CHECK(pwrite(fd, in->p, left, (off_t)at) == (ssize_t)left);
		return fd;
	}
	FUZZ_CHECK(pwrite(fd, &h, sizeof(h), 0) == sizeof(h));
	for (uint64_t n = 0; n < CHUNKS && more(in); n++)
		put_chunk(in, fd, n);
	return fd;
}

#endif
