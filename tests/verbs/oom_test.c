/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory runs out: a program that makes one object of each kind, run again and again with the N-th
 * allocation failing, once or from then on, for all N.  Each call either works or says so; nothing
 * crashes, and what was made can be taken down.
 */
#include <errno.h>

#include "objects.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

/* Only the thread that asks for it runs out. */
static __thread long countdown = -1; /* -1: off */
static __thread bool forever, tripped;

static bool out_of_memory(void)
{
	if (countdown < 0)
		return false;
	if (countdown > 0) {
		countdown--;
		return false;
	}
	tripped = true;
	if (!forever)
		countdown = -1;
	errno = ENOMEM;
	return true;
}

/* In place of the C library's, for the library under test too. */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
	return out_of_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return out_of_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return out_of_memory() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return out_of_memory() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	if (out_of_memory())
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

#pragma GCC visibility pop

/* True if the N-th allocation was reached. */
static bool run(long n, bool persistent)
{
	struct objects o = { 0 };

	tripped = false;
	forever = persistent;
	countdown = n;
	objects_make(&o);
	countdown = -1;
	objects_destroy(&o);
	return tripped;
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("the sanitizer has an allocator of its own");
#endif
	long n;

	setenv("VERBENA_RAW", "virtual", 0);
	/* Once in peace: what is set up once per process is not what is tested. */
	CHECK(!run(1000000, false));
	for (n = 0; run(n, false); n++)
		CHECK(n < 10000);
	CHECK(n > 10);
	for (n = 0; run(n, true); n++)
		CHECK(n < 10000);
	return 0;
}
