/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What memory and the kernel achieve on this machine, as a reference for the local transport:
 *
 *	shm_ref line COUNT		a cache line handed to the other CPU and back; us one way
 *	shm_ref write|read SIZE COUNT	process_vm_writev or readv of SIZE bytes; us per call
 *	shm_ref list N COUNT		process_vm_writev of N pieces of 8 bytes, a cache line
 *					apart; us per call
 *	shm_ref pingpong SIZE COUNT	each side writes into the other's memory and watches its
 *					own; us one way
 *	shm_ref memcpy SIZE COUNT	memcpy of SIZE bytes into memory that both have mapped, both
 *					buffers at a page as perftest's are: at 1 MiB a source 16
 *					bytes behind one is copied in 12 instead of 19 us; us per
 *					call
 *	shm_ref stream SIZE COUNT	messages of SIZE bytes, copied into a ring of 1 MiB that
 *					both have mapped, and out by the other process; us per
 *					message, the average, because an end waits for the other
 *
 * The others print the best of many short stretches: on a busy machine the average measures the
 * other load. From a page on, they do and print what ib_write_bw does: a time stamp per copy, and
 * each 100 copies the best time per copy from any stamp until then.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"

enum {
	STRETCH = 16,
	STAMPS = 100,
	PAGE = 4096,
	LIMIT_S = 60,
	LINE = 64,
	PIECES_MAX = 1024,
	RING = 1 << 20,
	PART = 1 << 16,	/* bytes, after which the other end may go on */
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static uint32_t *there, *back;	/* each in a line of its own */

static void hand_back(void)
{
	for (uint32_t i = 1;; i++) {
		while (__atomic_load_n(there, __ATOMIC_ACQUIRE) != i)
			;
		__atomic_store_n(back, i, __ATOMIC_RELEASE);
	}
}

static void hand_over(void)
{
	static uint32_t i;

	__atomic_store_n(there, ++i, __ATOMIC_RELEASE);
	while (__atomic_load_n(back, __ATOMIC_ACQUIRE) != i)
		;
}

/*
 * Private to each process, at the same addresses; both are shared for memcpy, theirs for a stream.
 */
static char *theirs, *ours;
static size_t size;

/* Copies `pieces` of them to or from the other process. */
static void copy(pid_t pid, int pieces, int write)
{
	struct iovec near[PIECES_MAX], far[PIECES_MAX];
	ssize_t n;

	for (int i = 0; i < pieces; i++) {
		near[i] = (struct iovec){ ours + i * size, size };
		far[i] = (struct iovec){ theirs + i * LINE, size };
	}
	n = write ? process_vm_writev(pid, near, pieces, far, pieces, 0) :
		    process_vm_readv(pid, near, pieces, far, pieces, 0);
	if (n != (ssize_t)size * pieces) {
		perror("process_vm");
		exit(1);
	}
}

static void watch(uint32_t value)
{
	while (__atomic_load_n((uint32_t *)theirs, __ATOMIC_ACQUIRE) != value)
		;
}

static void write_back(void)
{
	for (uint32_t i = 1;; i++) {
		watch(i);
		*(uint32_t *)ours = i;
		copy(getppid(), 1, 1);
	}
}

static void write_over(pid_t child)
{
	static uint32_t i;

	*(uint32_t *)ours = ++i;
	copy(child, 1, 1);
	watch(i);
}

static uint64_t *filled, *drained;	/* bytes of a stream; each in a line of its own */

/* How many bytes of a stream come next, `done` after its beginning. */
static size_t part(uint64_t done)
{
	size_t n = size - done % size;

	n = n < RING - done % RING ? n : RING - done % RING;
	return n < PART ? n : PART;
}

static void drain(void)
{
	for (uint64_t done = 0;; __atomic_store_n(drained, done, __ATOMIC_RELEASE)) {
		size_t n = part(done);

		while (__atomic_load_n(filled, __ATOMIC_ACQUIRE) < done + n)
			;
		memcpy(ours + done % size, theirs + done % RING, n);
		done += n;
	}
}

/* Returns the us that a message takes. */
static double stream(long count)
{
	uint64_t total = (uint64_t)count * size, done = 0;
	double start = now_us();

	while (done < total) {
		size_t n = part(done);

		while (done + n - __atomic_load_n(drained, __ATOMIC_ACQUIRE) > RING)
			;
		memcpy(theirs + done % RING, ours + done % size, n);
		done += n;
		__atomic_store_n(filled, done, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(drained, __ATOMIC_ACQUIRE) < total)
		;
	return (now_us() - start) / count;
}

static enum mode { LINE_OVER, WRITE, READ, LIST, PINGPONG, MEMCPY, STREAM } mode;
static int pieces = 1;

static int parse(int argc, char **argv)
{
	static const char *const names[] = { "line",     "write",  "read",  "list",
					     "pingpong", "memcpy", "stream" };
	unsigned long n = argc == 4 ? strtoul(argv[2], NULL, 0) : 0;

	for (mode = 0; argc > 1 && mode <= STREAM && strcmp(argv[1], names[mode]) != 0; mode++)
		;
	if (argc < 3 || mode > STREAM || (mode != LINE_OVER && n == 0) ||
	    (mode == LIST && n > PIECES_MAX))
		return 0;
	size = mode == LIST || mode == LINE_OVER || n < sizeof(uint64_t) ? sizeof(uint64_t) : n;
	pieces = mode == LIST ? n : 1;
	return 1;
}

static size_t length_there(void)
{
	return mode == STREAM ? RING : size + pieces * LINE;
}

static void serve(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(1);
	memset(theirs, 0, length_there());
	memset(ours, 0, size * pieces);
	__atomic_store_n(back, UINT32_MAX, __ATOMIC_RELEASE);	/* ready */
	if (mode == LINE_OVER)
		hand_back();
	if (mode == PINGPONG)
		write_back();
	if (mode == STREAM)
		drain();
	for (;;)
		pause();
}

static void once(pid_t child)
{
	if (mode == LINE_OVER)
		hand_over();
	else if (mode == PINGPONG)
		write_over(child);
	else if (mode == MEMCPY)
		memcpy(theirs, ours, size);
	else
		copy(child, pieces, mode != READ);
}

static double stretch(pid_t child)
{
	double start = now_us();

	for (int i = 0; i < STRETCH; i++)
		once(child);
	return (now_us() - start) / STRETCH;
}

/* The peak of ib_write_bw: from any of its requests to the next completion. */
static double peak(pid_t child)
{
	static double stamp[STAMPS];
	double end, best = 1e9;

	for (int i = 0; i < STAMPS; i++) {
		stamp[i] = now_us();
		once(child);
	}
	end = now_us();
	for (int i = 0; i < STAMPS; i++) {
		double took = (end - stamp[i]) / (STAMPS - i);

		best = took < best ? took : best;
	}
	return best;
}

/* The best time of `once`, in us. */
static double least(pid_t child, long count)
{
	double best = 1e9;

	for (long i = 0; i < count; i += size < PAGE ? STRETCH : STAMPS) {
		double took = size < PAGE ? stretch(child) : peak(child);

		if (mode == LINE_OVER || mode == PINGPONG)
			took /= 2;
		best = took < best ? took : best;
	}
	return best;
}

static void *buffer(size_t len, int in_common)
{
	return in_common
		       ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
		       : malloc(len);
}

int main(int argc, char **argv)
{
	long count = argc > 2 ? strtol(argv[argc - 1], NULL, 0) : 0;
	char *shared;
	pid_t child;

	if (!parse(argc, argv) || count <= 0)
		return 2;
	alarm(LIMIT_S);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	theirs = buffer(length_there(), mode == MEMCPY || mode == STREAM);
	ours = buffer(size * pieces, mode == MEMCPY);
	if (shared == MAP_FAILED || !theirs || theirs == MAP_FAILED || !ours || ours == MAP_FAILED)
		return 1;
	there = (uint32_t *)shared;
	back = (uint32_t *)(shared + 1024);
	memset(ours, 0, size * pieces);
	memset(theirs, 0, length_there());
	filled = (uint64_t *)(shared + 2048);
	drained = (uint64_t *)(shared + 3072);
	child = fork();
	if (child == 0)
		serve();
	pin(0);
	while (__atomic_load_n(back, __ATOMIC_ACQUIRE) != UINT32_MAX)
		;
	printf("%.3f\n", mode == STREAM ? stream(count) : least(child, count));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
