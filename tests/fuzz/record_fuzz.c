/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the reader of recordings.  Input: one byte of choices, then a file; or what it
 * holds, chunk by chunk and record by record, whose checksums are made right.
 *
 * Records come in the order of time, fit their types and lie in memory; a second reading shows the
 * same.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "record/reader.h"
#include "util/hash.h"

enum {
	CHOICE_RAW = 1, /* the input is the file, but for the front of its header */
	CHOICE_TWO_FILES = 2,
	CHOICE_OFFSETS = 4,
	CHUNKS = 2,
};

static uint64_t long_word(struct input *in)
{
	return (uint64_t)word(in) << 32 | word(in);
}

/* Short values mostly: those far off are refused at once. */
static uint64_t some_time(struct input *in)
{
	return byte(in) % 8 ? byte(in) : long_word(in);
}

/* The end of the record, or of the chunk. */
static size_t put_record(struct input *in, uint8_t *chunk, size_t at, uint64_t seed)
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

static void put_chunk(struct input *in, int fd, uint64_t n)
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

static int make_file(struct input *in, bool raw)
{
	struct record_file_header h = { .magic = RECORD_MAGIC, .version = RECORD_VERSION };
	int fd = memfd_create("recording", MFD_CLOEXEC);

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

static uint64_t check_record(const struct record *got, uint64_t hash)
{
	const struct record_type_info *type = record_type_info(got->type);

	FUZZ_CHECK((uintptr_t)got->body % RECORD_ALIGN == 0);
	FUZZ_CHECK(got->body_len + got->tail_len <= RECORD_MAX_LEN);
	FUZZ_CHECK((const uint8_t *)got->body + got->body_len == got->tail);
	if (type) {
		FUZZ_CHECK(got->body_len == type->size);
		FUZZ_CHECK(type->unit ? got->tail_len % type->unit == 0 : !got->tail_len);
	}
	hash = hash_bytes(hash, got->body, got->body_len + got->tail_len);
	return hash_bytes(hash, &got->time, sizeof(got->time));
}

static uint64_t read_all(struct record_reader *r, const int64_t *ahead)
{
	uint64_t hash = HASH_START, time = 0;
	struct record got;
	int err = record_reader_start(r, ahead);

	FUZZ_CHECK(err == 0);
	while ((err = record_reader_next(r, &got)) == 0) {
		FUZZ_CHECK(got.time >= time && got.file < record_reader_files(r));
		time = got.time;
		hash = check_record(&got, hash);
	}
	FUZZ_CHECK(err == ENODATA);
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct record_reader *r = record_reader_new();
	int64_t ahead[2] = { 0 };
	uint8_t choice = byte(&in);
	uint64_t hash;

	FUZZ_CHECK(r);
	if (choice & CHOICE_OFFSETS)
		for (int i = 0; i < 2; i++)
			ahead[i] = (int64_t)some_time(&in);
	for (int i = 0; i < (choice & CHOICE_TWO_FILES ? 2 : 1); i++) {
		int fd = make_file(&in, choice & CHOICE_RAW);

		if (record_reader_add(r, fd))
			close(fd);
	}
	hash = read_all(r, ahead);
	FUZZ_CHECK(read_all(r, ahead) == hash);
	record_reader_free(r);
	return 0;
}
