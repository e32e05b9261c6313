/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The writer of recordings: every record type, rings that wrap, files that grow and cannot grow,
 * many threads, and processes that end between any two instructions or at random.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit/record_env.h"

#include "left_out.h"
#include "unit/random.h"
#include "util/atomic.h"

enum { RING = 4 * RECORD_CHUNK_LEN, LARGE = 1024 * RECORD_CHUNK_LEN };

static char path[64];

static void open_recording(struct recording *r, uint64_t size, bool ring)
{
	unlink(path);
	assert_int_equal(recording_open(r, path, size, ring, &some_origin), 0);
}

static void every_type_is_read_back(void **state)
{
	struct record_reader *reader;
	struct record_writer w;
	struct recording r;
	struct record got;

	open_recording(&r, RING, true);
	record_writer_start(&w, &r, 7);
	for (unsigned int type = 1; type < RECORD_TYPES; type++) {
		const struct record_type_info *info = record_type_info(type);
		size_t len = info->size + 3u * info->unit;

		memset(record_reserve(&w, len), (int)type, len);
		record_commit(&w, type, len, 5000 + type);
	}
	reader = read_path(path); /* while the file is being written */
	for (unsigned int type = 1; type < RECORD_TYPES; type++) {
		const struct record_type_info *info = record_type_info(type);
		const uint8_t *body;

		assert_int_equal(record_reader_next(reader, &got), 0);
		assert_int_equal(got.type, type);
		assert_int_equal(got.tid, 7);
		assert_int_equal(got.time, 5000 + type);
		assert_int_equal(got.body_len, info->size);
		assert_int_equal(got.tail_len, 3 * info->unit);
		body = got.body;
		for (size_t i = 0; i < got.body_len + got.tail_len; i++)
			assert_int_equal(body[i], type);
	}
	assert_int_equal(record_reader_next(reader, &got), ENODATA);
	record_reader_free(reader);
	record_writer_end(&w);
	recording_close(&r);
	assert_null(record_type_info(0));
	assert_null(record_type_info(RECORD_TYPES));
	assert_string_equal(record_verb_name(VERB_create_qp), "create_qp");
	assert_null(record_verb_name(0));
	assert_null(record_verb_name(60000));
}

static void files_that_cannot_be_opened(void **state)
{
	struct recording r;

	open_recording(&r, RING, true);
	recording_close(&r);
	assert_int_equal(recording_open(&r, path, RING, true, &some_origin), EEXIST);
	unlink(path);
	assert_int_equal(recording_open(&r, path, RECORD_CHUNK_LEN, true, &some_origin), EINVAL);
	assert_int_equal(recording_open(&r, path, UINT64_MAX, false, &some_origin), EINVAL);
	assert_int_equal(recording_open(&r, "/nowhere/at/all", RING, true, &some_origin), ENOENT);
	assert_int_equal(access(path, F_OK), -1);
}

/* Checks that the numbers in a file with one writer have no gap up to `last`; returns the first. */
static uint64_t check_newest(uint64_t last)
{
	struct record_reader *reader = read_path(path);
	uint64_t first, number;
	struct record got;

	assert_int_equal(record_reader_next(reader, &got), 0);
	first = number = numbered(&got);
	while (record_reader_next(reader, &got) == 0)
		assert_int_equal(numbered(&got), ++number);
	assert_int_equal(number, last);
	assert_int_equal(record_reader_file(reader, 0)->torn, 0);
	record_reader_free(reader);
	return first;
}

/*
 * Thousands of records have the same time, so the clock does not distinguish the rounds of the
 * ring.
 */
static void ring_keeps_the_newest(void **state)
{
	struct record_writer w;
	struct recording r;
	uint64_t first = 0;

	open_recording(&r, RING, true);
	record_writer_start(&w, &r, 1);
	for (uint64_t i = 0; i < 20000; i++) {
		assert_true(write_numbered_at(&w, i, 2000 + i / 7000));
		if (i % 1999 == 0)
			first = check_newest(i);
	}
	/* three chunks are full of records of at most 144 bytes */
	assert_true(first > 0 && first <= 19990 - 3 * (RECORD_CHUNK_LEN / 144 - 1));
	record_writer_end(&w);
	recording_close(&r);
}

static size_t count_of(struct record_reader *reader, uint32_t tid)
{
	struct record got;
	size_t n = 0;

	assert_int_equal(record_reader_start(reader, NULL), 0);
	while (record_reader_next(reader, &got) == 0)
		n += got.tid == tid;
	return n;
}

/*
 * A thread that writes nothing keeps its chunk; threads without a chunk lose records, and record
 * how many.
 */
static void held_chunks(void **state)
{
	struct record_writer silent[4], w;
	struct record_reader *reader;
	struct recording r;

	open_recording(&r, RING, true);
	for (uint32_t i = 0; i < 3; i++) {
		record_writer_start(&silent[i], &r, i);
		assert_true(write_numbered(&silent[i], i));
	}
	record_writer_start(&w, &r, 9);
	for (uint64_t i = 0; i < 5000; i++)
		assert_true(write_numbered(&w, i));
	reader = read_path(path);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(count_of(reader, i), 1);
	assert_true(count_of(reader, 9) > 0);

	record_writer_start(&silent[3], &r, 3);
	assert_false(write_numbered(&silent[3], 0));
	assert_null(record_reserve(&w, RECORD_MAX_LEN + 1));
	record_writer_end(&silent[1]);
	assert_true(write_numbered(&silent[3], 0));
	assert_int_equal(count_of(reader, 3), 1);
	assert_int_equal(record_reader_file(reader, 0)->lost, 2);
	record_reader_free(reader);
	recording_close(&r);
}

/* Writes from number n on; returns the first that is lost. */
static uint64_t write_until_lost(struct record_writer *w, uint64_t n)
{
	while (write_numbered(w, n))
		n++;
	return n;
}

static void file_grows_to_its_limit(void **state)
{
	struct record_writer w;
	struct recording r;
	struct stat st;
	uint64_t n;

	open_recording(&r, RING, false);
	record_writer_start(&w, &r, 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, RECORD_HEADER_LEN);
	n = write_until_lost(&w, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, RECORD_HEADER_LEN + RING);
	assert_int_equal(check_newest(n - 1), 0);
	recording_close(&r);
}

/* A full file system acts like this limit: no signal is raised, and written records are kept. */
static void file_cannot_grow(void **state)
{
	struct rlimit old, two = { 0 };
	struct record_writer w;
	struct recording r;
	uint64_t n;

	open_recording(&r, LARGE, false);
	record_writer_start(&w, &r, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	two.rlim_cur = record_chunk_offset(2) + 1;
	two.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &two), 0);
	n = write_until_lost(&w, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_true(n > 2 * (RECORD_CHUNK_LEN / 144 - 1));
	assert_int_equal(check_newest(n - 1), 0);
	recording_close(&r);
}

/*
 * Programs may close descriptors that they did not open, and get the same numbers for other files.
 */
static void descriptor_of_another_file(void **state)
{
	FILE *other = tmpfile();
	struct record_writer w;
	struct recording r;
	struct stat st;
	uint64_t n;

	open_recording(&r, LARGE, false);
	record_writer_start(&w, &r, 1);
	assert_true(write_numbered(&w, 0));
	assert_int_equal(dup2(fileno(other), r.fd), r.fd);
	n = write_until_lost(&w, 1);
	assert_int_equal(check_newest(n - 1), 0);
	assert_int_equal(fstat(fileno(other), &st), 0);
	assert_int_equal(st.st_size, 0);
	fclose(other);
	recording_close(&r);
	assert_int_equal(close(r.fd), 0);	/* it was not closed */
}

enum { THREADS = 8, EACH = 5000 };

static void *write_many(void *arg)
{
	struct recording *r = arg;
	static uint32_t tids; /* atomic: only numbers them */
	struct record_writer w;

	record_writer_start(&w, r, fetch_add_relaxed(&tids, 1) % THREADS);
	for (uint64_t i = 0; i < EACH; i++)
		write_numbered(&w, i);
	record_writer_end(&w);
	return NULL;
}

/* Each thread's records are in its order, and all records in the order of time. */
static void check_threads(bool all, bool ended)
{
	struct record_reader *reader = read_path(path);
	uint64_t next[THREADS] = { 0 }, time = 0;
	size_t count = 0;
	struct record got;

	while (record_reader_next(reader, &got) == 0) {
		uint64_t number = numbered(&got);

		assert_true(got.tid < THREADS && got.time >= time);
		assert_true(all ? number == next[got.tid] : number >= next[got.tid]);
		next[got.tid] = number + 1;
		time = got.time;
		count++;
	}
	if (all)
		assert_int_equal(count, THREADS * EACH);
	if (ended)
		assert_true(count > 0 && record_reader_file(reader, 0)->torn == 0);
	assert_int_equal(record_reader_file(reader, 0)->bad, 0);
	record_reader_free(reader);
}

static void run_threads(uint64_t size, bool ring)
{
	pthread_t threads[THREADS];
	struct recording r;

	open_recording(&r, size, ring);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &r), 0);
	if (ring)
		check_threads(false, false);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check_threads(!ring, true);
	recording_close(&r);
}

static void many_threads_grow(void **state)
{
	run_threads(LARGE, false);
}

/* More threads than chunks: records are lost, but records of threads are not mixed. */
static void many_threads_in_a_small_ring(void **state)
{
	run_threads(RING, true);
}

/* ---- processes that are killed ---- */

/* A child that ends when this test ends, however it ends. */
static pid_t fork_child(void)
{
	pid_t parent = getpid(), child = fork();

	assert_true(child >= 0);
	if (!child && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(1);
	return child;
}

static void write_forever(uint64_t *count)
{
	struct record_writer w;
	struct recording r;

	if (recording_open(&r, path, RING, true, &some_origin))
		_exit(1);
	record_writer_start(&w, &r, 1);
	for (uint64_t i = 0;; i++) {
		write_numbered(&w, i);
		store_release(count, i + 1); /* pairs with the parent's load */
	}
}

static void killed_at_random(void **state)
{
	uint64_t *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	random_start();
	for (int i = 0; i < 20; i++) {
		uint64_t enough = 1 + random_below(20000);
		struct record_reader *reader;
		uint64_t number = 0, records = 0;
		struct record got;
		pid_t child;
		int status;

		unlink(path);
		store_relaxed(count, 0);
		child = fork_child();
		if (!child)
			write_forever(count);
		while (load_acquire(count) < enough && waitpid(child, &status, WNOHANG) == 0)
			sched_yield();
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));

		reader = read_path(path);
		for (; record_reader_next(reader, &got) == 0; records++) {
			assert_true(records == 0 || numbered(&got) == number + 1);
			number = numbered(&got);
		}
		assert_in_range(number + 1, *count, *count + 1);
		assert_int_equal(record_reader_file(reader, 0)->torn, 0);
		record_reader_free(reader);
	}
	munmap(count, sizeof(*count));
}

enum { STEPPED = 4 };

/* The last record takes a new chunk, which had records before. */
static void write_few(struct record_writer *w)
{
	for (uint64_t i = 0; i < STEPPED; i++) {
		if (i == STEPPED - 1)
			record_writer_turn(w, 0);
		write_numbered(w, 100 + i);
	}
}

/*
 * Returns how many records of write_few() a file has; all of them must be whole, in order, and the
 * newest.
 */
static uint64_t stepped_records(void)
{
	struct record_reader *reader = read_path(path);
	uint64_t next = 0, number;
	struct record got;

	while (record_reader_next(reader, &got) == 0) {
		number = numbered(&got);
		assert_true(number < 100 || number == 100 + next);
		next += number >= 100;
	}
	assert_int_equal(record_reader_file(reader, 0)->torn, 0);
	record_reader_free(reader);
	return next;
}

/* The contents of the file after each single instruction are what a kill would leave there. */
static void killed_at_every_instruction(void **state)
{
	uint64_t seen = 0, now, steps = 0;
	struct record_writer w;
	struct recording r;
	int status;
	pid_t child;

	open_recording(&r, 2 * RECORD_CHUNK_LEN, true);
	record_writer_start(&w, &r, 1);
	while (record_writer_turn(&w, 0) && r.next < 5)
		for (uint64_t i = 0; i < 20; i++)
			write_numbered(&w, i);
	child = fork_child();
	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		raise(SIGSTOP);
		write_few(&w);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status) || ptrace(PTRACE_SINGLESTEP, child, NULL, NULL)) {
		recording_close(&r);
		LEAVE_OUT("no single-stepping of processes here");
	}
	for (; waitpid(child, &status, 0) == child && WIFSTOPPED(status); steps++) {
		now = stepped_records();
		assert_in_range(now, seen, seen + 1);
		seen = now;
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
	}
	assert_int_equal(seen, STEPPED);
	printf("%" PRIu64 " steps\n", steps);
	assert_true(steps > 100);
	recording_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_read_back),
		cmocka_unit_test(files_that_cannot_be_opened),
		cmocka_unit_test(ring_keeps_the_newest),
		cmocka_unit_test(held_chunks),
		cmocka_unit_test(file_grows_to_its_limit),
		cmocka_unit_test(file_cannot_grow),
		cmocka_unit_test(descriptor_of_another_file),
		cmocka_unit_test(many_threads_grow),
		cmocka_unit_test(many_threads_in_a_small_ring),
		cmocka_unit_test(killed_at_random),
		cmocka_unit_test(killed_at_every_instruction),
	};
	int failed;

	snprintf(path, sizeof(path), "/tmp/record_writer_test.%d", getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
