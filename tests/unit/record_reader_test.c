/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader of recordings: truncated, damaged and forged files, several files at once, and the
 * order of time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "unit/record_env.h"

#include "unit/random.h"

enum { NUMBERS = 1000, IMAGE = RECORD_HEADER_LEN + 4 * RECORD_CHUNK_LEN };

static uint8_t image[IMAGE]; /* two chunks, the first one closed, with NUMBERS records in all */
static size_t image_len;

static int memory_file(const void *data, size_t len)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, data, len, 0), len);
	return fd;
}

/* Returns a copy of a recording in memory, and closes its file. */
static void *written(struct recording *r, const struct record_origin *origin)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/record_reader_test.%d", getpid());
	assert_int_equal(recording_open(r, path, 4 * RECORD_CHUNK_LEN, true, origin), 0);
	unlink(path);
	return r->base;
}

static int make_image(void **state)
{
	struct record_writer w;
	struct recording r;
	void *base = written(&r, &some_origin);

	record_writer_start(&w, &r, 1);
	for (uint64_t i = 0; i < NUMBERS / 2; i++)
		write_numbered(&w, i);
	record_writer_turn(&w, 0);
	for (uint64_t i = NUMBERS / 2; i < NUMBERS; i++)
		write_numbered(&w, i);
	image_len = (size_t)(w.at - r.base);
	memcpy(image, base, image_len);
	recording_close(&r);
	return 0;
}

/* Opens a reader of these bytes at the first record; NULL: the file is refused as a whole. */
static struct record_reader *read_image(const void *data, size_t len, int *err)
{
	struct record_reader *r = record_reader_new();
	int fd = memory_file(data, len);

	*err = record_reader_add(r, fd);
	if (*err) {
		close(fd);
		record_reader_free(r);
		return NULL;
	}
	assert_int_equal(record_reader_start(r, NULL), 0);
	return r;
}

/* Every record in it is one that was written, once. */
static size_t whole_records(struct record_reader *r)
{
	bool had[NUMBERS] = { false };
	struct record got;
	size_t n = 0;

	for (; record_reader_next(r, &got) == 0; n++) {
		uint64_t number = numbered(&got);

		assert_true(number < NUMBERS && !had[number]);
		assert_int_equal(got.time, 2000 + number);
		had[number] = true;
	}
	return n;
}

static void origin(void **state)
{
	const struct record_file *file;
	struct record_reader *r;
	int err;

	r = read_image(image, image_len, &err);
	assert_int_equal(record_reader_files(r), 1);
	file = record_reader_file(r, 0);
	assert_memory_equal(&file->origin, &some_origin, sizeof(some_origin));
	assert_true(file->ring);
	assert_int_equal(whole_records(r), NUMBERS);
	record_reader_free(r);
}

static void headers(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
		int err;
	} rows[] = {
		{ 0, 0, EINVAL },
		{ offsetof(struct record_file_header, version), 0, ENOTSUP },
		{ offsetof(struct record_file_header, version), 2, ENOTSUP },
		{ offsetof(struct record_file_header, chunks), RECORD_MAX_CHUNKS + 1, EFBIG },
		{ offsetof(struct record_file_header, chunks), 0, 0 },
		{ offsetof(struct record_file_header, flags), 0xffffffff, 0 },
		{ offsetof(struct record_file_header, origin.host) + 60, 0xffffffff, 0 },
		{ offsetof(struct record_file_header, origin.command) + 252, 0xffffffff, 0 },
	};
	uint8_t copy[IMAGE];
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct record_reader *r;

		memcpy(copy, image, image_len);
		memcpy(copy + rows[i].at, &rows[i].value, 4);
		r = read_image(copy, image_len, &err);
		assert_int_equal(err, rows[i].err);
		if (!r)
			continue;
		assert_true(strlen(record_reader_file(r, 0)->origin.host) < 64);
		assert_true(strlen(record_reader_file(r, 0)->origin.command) < 256);
		assert_int_equal(whole_records(r), NUMBERS);
		record_reader_free(r);
	}
}

static void no_regular_file(void **state)
{
	struct record_reader *r = record_reader_new();
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(record_reader_add(r, fd), EINVAL);
	assert_int_equal(record_reader_add(r, -1), EBADF);
	close(fd);
	record_reader_free(r);
}

static void truncated(void **state)
{
	size_t before = 0;

	random_start();
	for (size_t len = 0; len < image_len; len += 1 + random_below(700)) {
		struct record_reader *r;
		size_t n;
		int err;

		r = read_image(image, len, &err);
		assert_int_equal(err, len < sizeof(struct record_file_header) ? EINVAL : 0);
		if (!r)
			continue;
		n = whole_records(r);
		assert_true(n >= before && n < NUMBERS);
		assert_int_equal(record_reader_file(r, 0)->torn,
				 len >= RECORD_HEADER_LEN + sizeof(struct record_chunk) &&
					 n < NUMBERS / 2);
		before = n;
		record_reader_free(r);
	}
	assert_true(before > NUMBERS - 50);
}

/* A damaged byte loses the rest of its chunk, and is never returned. */
static void damaged(void **state)
{
	uint8_t copy[IMAGE];

	for (int i = 0; i < 1000; i++) {
		size_t at = RECORD_HEADER_LEN + random_below(image_len - RECORD_HEADER_LEN);
		struct record_reader *r;
		int err;

		memcpy(copy, image, image_len);
		copy[at] ^= (uint8_t)(1 + random_below(255));
		r = read_image(copy, image_len, &err);
		assert_true(whole_records(r) <= NUMBERS);
		record_reader_free(r);
	}
}

/* Pages that were not written before the machine crashed, or were copied at different times. */
static void torn(void **state)
{
	uint8_t copy[IMAGE];

	for (size_t page = RECORD_HEADER_LEN; page + 4096 < image_len; page += 4096) {
		struct record_reader *r;
		bool used;
		int err;

		memcpy(copy, image, image_len);
		memset(copy + page, 0, 4096);
		used = memcmp(copy, image, image_len) != 0;
		r = read_image(copy, image_len, &err);
		assert_int_equal(whole_records(r) < NUMBERS, used);
		record_reader_free(r);
	}
	/* the records of the first chunk under the header of the second, and vice versa */
	for (int second = 0; second < 2; second++) {
		size_t from = record_chunk_offset(second), to = record_chunk_offset(!second);
		struct record_reader *r;
		int err;

		memcpy(copy, image, image_len);
		memcpy(copy + to + 32, image + from + 32, image_len - record_chunk_offset(1) - 32);
		r = read_image(copy, image_len, &err);
		assert_int_equal(whole_records(r), NUMBERS / 2);
		record_reader_free(r);
	}
}

/* ---- forged files with correct checksums ---- */

/* Writes a record into an image, whatever its fields; returns its size. */
static size_t forge(uint8_t *chunk, size_t at, uint16_t size, uint8_t type, uint8_t pad,
		    uint64_t time)
{
	struct record_chunk *c = (struct record_chunk *)chunk;
	struct record_head h = { .size = size, .type = type, .pad = pad, .time = time };
	uint64_t first;

	memcpy(&first, &h, sizeof(first));
	memcpy(chunk + at, &h, sizeof(h));
	h.check = record_check(record_seed(c->state, c->time, c->tid), first, chunk + at, size);
	memcpy(chunk + at, &h, sizeof(h));
	return size;
}

static void forged_records(void **state)
{
	static const struct {
		uint16_t size;
		uint8_t type, pad;
		bool good;
	} rows[] = {
		{ 16, RECORD_STACK, 0, true },
		{ 32, RECORD_STACK, 0, true },
		{ 32, RECORD_STACK, 4, false }, /* not a whole number of addresses */
		{ 16, RECORD_SEND, 0, false },
		{ 64, RECORD_SEND, 0, true },
		{ 64, RECORD_SEND, 1, false },
		{ 80, RECORD_SEND, 0, false }, /* a tail that the type does not have */
		{ 48, RECORD_PACKET, 8, true },
		{ 48, RECORD_PACKET, 0, true },
		{ 32, RECORD_PACKET, 0, false },
		{ 48, RECORD_VERB, 8, true },
		{ 48, RECORD_VERB, 9, false },
		{ 48, 0, 3, true }, /* types of later versions */
		{ 16, 255, 0, true },
	};
	static uint64_t aligned[IMAGE / 8];
	uint8_t *copy = (uint8_t *)aligned, *chunk = copy + RECORD_HEADER_LEN;
	size_t at = sizeof(struct record_chunk), bad = 0;
	struct record_reader *r;
	struct record got;
	int err;

	memcpy(copy, image, RECORD_HEADER_LEN + sizeof(struct record_chunk));
	((struct record_chunk *)chunk)->state |= RECORD_OPEN;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		at += forge(chunk, at, rows[i].size, rows[i].type, rows[i].pad, 2000 + i);
	r = read_image(copy, RECORD_HEADER_LEN + at, &err);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bad += !rows[i].good;
		if (!rows[i].good)
			continue;
		assert_int_equal(record_reader_next(r, &got), 0);
		assert_int_equal(got.time, 2000 + i);
		assert_int_equal(got.type, rows[i].type);
		assert_int_equal(got.body_len + got.tail_len, rows[i].size - 16u - rows[i].pad);
	}
	assert_int_equal(record_reader_next(r, &got), ENODATA);
	assert_int_equal(record_reader_next(r, &got), ENODATA);
	assert_int_equal(record_reader_file(r, 0)->bad, bad);
	record_reader_free(r);
}

/* Invalid lengths at the end of the data. */
static void forged_lengths(void **state)
{
	static const struct {
		uint16_t size;
		uint8_t pad;
	} rows[] = {
		{ 0, 0 }, { 8, 0 }, { 24, 0 }, { 16, 1 }, { 48, 16 }, { 65520, 0 }, { 64, 0 }
	};
	static uint64_t aligned[IMAGE / 8];
	uint8_t *copy = (uint8_t *)aligned, *chunk = copy + RECORD_HEADER_LEN;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct record_reader *r;
		struct record got;
		int err;

		memcpy(copy, image, RECORD_HEADER_LEN + sizeof(struct record_chunk));
		forge(chunk, sizeof(struct record_chunk), rows[i].size, RECORD_STACK, rows[i].pad,
		      1);
		r = read_image(copy, RECORD_HEADER_LEN + sizeof(struct record_chunk) + 48, &err);
		assert_int_equal(record_reader_next(r, &got), ENODATA);
		record_reader_free(r);
	}
}

/* Time never goes back, whatever chunks and records say. */
static void forged_times(void **state)
{
	static const uint64_t times[] = { 500, 2000, 100, 0, UINT64_MAX, 3000 };
	static uint64_t aligned[IMAGE / 8];
	uint8_t *copy = (uint8_t *)aligned, *chunk = copy + RECORD_HEADER_LEN;
	size_t at = sizeof(struct record_chunk);
	struct record_reader *r;
	struct record got;
	uint64_t last = 0;
	int err;

	memcpy(copy, image, RECORD_HEADER_LEN + sizeof(struct record_chunk));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		at += forge(chunk, at, 16, RECORD_STACK, 0, times[i]);
	((struct record_chunk *)chunk)->used = (uint32_t)at;
	r = read_image(copy, RECORD_HEADER_LEN + at, &err);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		assert_int_equal(record_reader_next(r, &got), 0);
		assert_true(got.time >= last);
		last = got.time;
	}
	assert_int_equal(record_reader_next(r, &got), ENODATA);
	record_reader_free(r);
}

/* ---- several files ---- */

/*
 * A file whose records have the times first, first + step, ...: as many as fill two chunks and
 * more.
 */
static void add_file(struct record_reader *reader, uint64_t first, uint64_t step)
{
	struct record_origin origin = { .started = first };
	struct record_engine e = { .what = NOTE_CNP_SENT };
	struct record_writer w;
	struct recording r;
	uint8_t *base = written(&r, &origin);
	int fd;

	record_writer_start(&w, &r, 1);
	for (uint64_t i = 0; i < 5000; i++) {
		memcpy(record_reserve(&w, sizeof(e)), &e, sizeof(e));
		record_commit(&w, RECORD_ENGINE, sizeof(e), first + i * step);
	}
	record_writer_end(&w);
	fd = memory_file(base, IMAGE);
	recording_close(&r);
	assert_int_equal(record_reader_add(reader, fd), 0);
}

static void files_are_merged(void **state)
{
	const uint64_t first[] = { 1000000, 5000000, 20 }, step[] = { 7, 11, 13 };
	const int64_t ahead[] = { 0, 4000000, -999980 };
	struct record_reader *reader = record_reader_new();
	uint64_t next[3] = { 0 }, time = 0;
	struct record got;

	for (size_t i = 0; i < 3; i++)
		add_file(reader, first[i], step[i]);
	for (int again = 0; again < 2; again++) {
		memset(next, 0, sizeof(next));
		time = 0;
		assert_int_equal(record_reader_start(reader, ahead), 0);
		while (record_reader_next(reader, &got) == 0) {
			assert_int_equal(got.time, 1000000 + next[got.file]++ * step[got.file]);
			assert_true(got.time >= time);
			time = got.time;
		}
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(next[i], 5000);
	}
	record_reader_free(reader);
}

static void offsets_beyond_time(void **state)
{
	const int64_t ahead[] = { INT64_MAX, INT64_MIN, INT64_MIN };
	const uint64_t first[] = { 5, 5, UINT64_MAX - 5 };
	const uint64_t want[] = { 0, 5 + (1ull << 63), UINT64_MAX };
	struct record_reader *reader = record_reader_new();
	bool had[3] = { false };
	struct record got;

	for (size_t i = 0; i < 3; i++)
		add_file(reader, first[i], 0);
	assert_int_equal(record_reader_start(reader, ahead), 0);
	while (record_reader_next(reader, &got) == 0) {
		assert_int_equal(got.time, want[got.file]);
		had[got.file] = true;
	}
	assert_true(had[0] && had[1] && had[2]);
	record_reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(origin),
		cmocka_unit_test(headers),
		cmocka_unit_test(no_regular_file),
		cmocka_unit_test(truncated),
		cmocka_unit_test(damaged),
		cmocka_unit_test(torn),
		cmocka_unit_test(forged_records),
		cmocka_unit_test(forged_lengths),
		cmocka_unit_test(forged_times),
		cmocka_unit_test(files_are_merged),
		cmocka_unit_test(offsets_beyond_time),
	};

	return cmocka_run_group_tests(tests, make_image, NULL);
}
