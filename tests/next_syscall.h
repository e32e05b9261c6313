/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests that replace the C library's syscall(), through which the library makes system calls:
 * makes the call.
 */
#ifndef TESTS_NEXT_SYSCALL_H
#define TESTS_NEXT_SYSCALL_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>

static inline long next_syscall(long number, va_list args)
{
	static long (*next)(long, ...);
	long a[6];

	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif
