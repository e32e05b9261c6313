/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc() and relatives, under the names that glibc provides for replacements. */
#include "allocator.h"

#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

__thread volatile bool allocator_counts;
__thread volatile unsigned long allocator_calls;
static __thread long countdown = -1;
static __thread bool for_ever, failed;

void allocator_fail(long n, bool forever)
{
	countdown = n;
	for_ever = forever;
	failed = false;
}

bool allocator_failed(void)
{
	return failed;
}

static bool fails(void)
{
	if (allocator_counts)
		allocator_calls++;
	if (countdown < 0)
		return false;
	if (countdown > 0) {
		countdown--;
		return false;
	}
	if (!for_ever)
		countdown = -1;
	failed = true;
	errno = ENOMEM;
	return true;
}

#pragma GCC visibility push(default)

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void *aligned_alloc(size_t align, size_t size);
int posix_memalign(void **p, size_t align, size_t size);

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	if (fails())
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

#pragma GCC visibility pop
