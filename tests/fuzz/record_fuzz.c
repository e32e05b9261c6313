/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the reader of recordings.  Input: one byte of choices, then a file; or what it
 * holds, chunk by chunk and record by record, whose checksums are made right.
 *
 * Records come in the order of time, fit their types and lie in memory; a second reading shows the
 * same.
 */
#include <errno.h>

#include "fuzz/record_input.h"
#include "record/reader.h"
#include "util/hash.h"

enum {
	CHOICE_RAW = 1, /* the input is the file, but for the front of its header */
	CHOICE_TWO_FILES = 2,
	CHOICE_OFFSETS = 4,
};

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
