/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See failing_calls.h. This file includes none of the headers that declare these calls: they use
 * other types for some parameters, which does not change the calling convention, and rename some
 * calls.
 */
#define _GNU_SOURCE 1
#include "failing_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "next_syscall.h"

static long countdown = -1;	/* atomic; -1: no call fails */
static bool permanent, every_thread, interrupts;
static const char *failed;	/* atomic */
static __thread bool chosen;

void calls_fail(long n, bool forever, bool any_thread)
{
	__atomic_store_n(&countdown, -1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&failed, NULL, __ATOMIC_SEQ_CST);
	permanent = forever;
	every_thread = any_thread;
	chosen = n >= 0;
	__atomic_store_n(&countdown, n, __ATOMIC_SEQ_CST);
}

const char *calls_failed(void)
{
	return __atomic_load_n(&failed, __ATOMIC_SEQ_CST);
}

void calls_are_interrupted(bool interrupted)
{
	interrupts = interrupted;
}

static bool is_interruptible(const char *name)
{
	static const char *const names[] = {
		"accept4", "connect", "fallocate64", "poll", "posix_fallocate64", "ppoll",
		"recv", "send", "sendmsg", "sendto", "syscall",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/*
 * Returns whether this call fails: it is the N-th one, or a later one if the failure is permanent.
 */
static bool fails(const char *name)
{
	const char *none = NULL;
	long left = __atomic_load_n(&countdown, __ATOMIC_SEQ_CST);

	if (left < 0 || (!every_thread && !chosen) || (interrupts && !is_interruptible(name)))
		return false;
	do {
		if (left < 0)
			return false;
	} while (!(left == 0 && permanent) &&
		 !__atomic_compare_exchange_n(&countdown, &left, left - 1, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	if (left)
		return false;
	__atomic_compare_exchange_n(&failed, &none, name, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return true;
}

/* These replace the calls of the C library. */
#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"

#define CALL(type_, name_, parameters_, arguments_, failure_, errno_)                              \
	type_ name_ parameters_;                                                                   \
	type_ name_ parameters_                                                                    \
	{                                                                                          \
		static type_(*real) parameters_;                                                   \
                                                                                                   \
		if (!real)                                                                         \
			real = (type_(*) parameters_)dlsym(RTLD_NEXT, #name_);                     \
		if (fails(#name_)) {                                                               \
			errno = interrupts ? EINTR : errno_;                                       \
			return failure_;                                                           \
		}                                                                                  \
		return real arguments_;                                                            \
	}
#include "failing_calls.def"
#undef CALL

/* Unlike the others it returns the error. */
int posix_fallocate64(int fd, long at, long len)
{
	static int (*real)(int, long, long);

	if (!real)
		real = (int (*)(int, long, long))dlsym(RTLD_NEXT, "posix_fallocate64");
	return fails("posix_fallocate64") ? interrupts ? EINTR : ENOSPC : real(fd, at, len);
}

int pthread_create(void *thread, const void *attr, void *(*start)(void *), void *arg)
{
	static int (*real)(void *, const void *, void *(*)(void *), void *);

	if (!real)
		real = (int (*)(void *, const void *, void *(*)(void *),
				void *))dlsym(RTLD_NEXT, "pthread_create");
	return fails("pthread_create") ? EAGAIN : real(thread, attr, start, arg);
}

static int error_of(long number)
{
	switch (number) {
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_recvmsg:
	case SYS_recvmmsg:
		return ENOBUFS;
	case SYS_pidfd_open:
		return EMFILE;
	case SYS_sched_getattr:
	case SYS_sched_setattr:
		return EPERM;
	default:	/* such as futex, or write to an eventfd: they have no reason to fail */
		return 0;
	}
}

long syscall(long number, ...)
{
	va_list args;
	long ret;

	if (error_of(number) && fails("syscall")) {
		errno = interrupts ? EINTR : error_of(number);
		return -1;
	}
	va_start(args, number);
	ret = next_syscall(number, args);
	va_end(args);
	return ret;
}

#pragma GCC visibility pop
