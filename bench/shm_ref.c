/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What memory and the kernel give on this machine, to hold the local transport against:
 *
 *	shm_ref line COUNT		a cache line handed to the other CPU and back; microseconds one way
 *	shm_ref write|read SIZE COUNT	process_vm_writev or readv of SIZE bytes; microseconds each
 *
 * Prints the best of many short stretches: on a machine that does other things, too, the average says how much.
 */
#include <sched.h>
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

enum {
	STRETCH = 16,
	LIMIT_S = 60,
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* The n-th CPU that this process may use, modulo their number. */
static void pin(int n)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	n %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || n-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
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

static void copy(pid_t pid, char *ours, char *theirs, size_t size, int write)
{
	struct iovec near = { ours, size }, far = { theirs, size };
	ssize_t n = write ? process_vm_writev(pid, &near, 1, &far, 1, 0) :
			    process_vm_readv(pid, &near, 1, &far, 1, 0);

	if (n != (ssize_t)size) {
		perror("process_vm");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int line = argc == 3 && strcmp(argv[1], "line") == 0;
	size_t size = line ? 4096 : argc == 4 ? strtoul(argv[2], NULL, 0) : 0;
	long count = argc > 2 ? strtol(argv[argc - 1], NULL, 0) : 0;
	int write = argc > 1 && strcmp(argv[1], "write") == 0;
	char *shared, *theirs, *ours;
	double best = 1e9;
	pid_t child;

	if (size == 0 || count <= 0)
		return 2;
	alarm(LIMIT_S);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	theirs = malloc(size);
	ours = malloc(size);
	if (shared == MAP_FAILED || !theirs || !ours)
		return 1;
	there = (uint32_t *)shared;
	back = (uint32_t *)(shared + 1024);
	memset(ours, 1, size);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		memset(theirs, 2, size);
		if (line)
			hand_back();
		__atomic_store_n(there, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	pin(0);
	while (!line && !__atomic_load_n(there, __ATOMIC_ACQUIRE))
		;
	for (long i = 0; i < count; i += STRETCH) {
		double start = now_us(), took;

		for (int n = 0; n < STRETCH; n++) {
			if (line)
				hand_over();
			else
				copy(child, ours, theirs, size, write);
		}
		took = (now_us() - start) / STRETCH / (line ? 2 : 1);
		best = took < best ? took : best;
	}
	printf("%.3f\n", best);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
