/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of test programs: they survive NDEBUG, print what they compared, and end the program at
 * the first failure. Exit codes as Meson understands them: 0 passed, 1 failed, 77 skipped.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Integers of any type, printed as both. */
#define CHECK_EQ(got, want)                                                                        \
	do {                                                                                       \
		long long got_ = (long long)(got), want_ = (long long)(want);                      \
		if (got_ != want_) {                                                               \
			fprintf(stderr,                                                            \
				"%s:%d: %s: %s is %lld (0x%llx), expected %lld (0x%llx)\n",        \
				__FILE__, __LINE__, __func__, #got, got_, got_, want_, want_);     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The result of a call that must leave errno alone. */
#define KEEPS_ERRNO(call)                                                                          \
	({                                                                                         \
		__typeof__(call) result_ = (errno = CHECK_NO_ERRNO, call);                         \
                                                                                                   \
		if (errno != CHECK_NO_ERRNO) {                                                     \
			fprintf(stderr, "%s:%d: %s: %s set errno to %d\n", __FILE__, __LINE__,     \
				__func__, #call, errno);                                           \
			exit(1);                                                                   \
		}                                                                                  \
		result_;                                                                           \
	})

enum { CHECK_NO_ERRNO = 4242 };

#define CHECK_MEM(got, want, len)                                                                  \
	do {                                                                                       \
		if (memcmp((got), (want), (len))) {                                                \
			fprintf(stderr, "%s:%d: %s: %s differs from %s\n", __FILE__, __LINE__,     \
				__func__, #got, #want);                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * How many times slower than usual this machine is said to be; limits that end what hangs are so
 * much longer.
 */
static inline unsigned int test_slower(void)
{
	const char *env = getenv("VERBENA_TEST_SLOWER");
	unsigned long n = env ? strtoul(env, NULL, 10) : 1;

	return n > 0 && n < 1000 ? (unsigned int)n : 1;
}

#define SKIP(why)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "skipped: %s\n", (why));                                           \
		exit(77);                                                                          \
	} while (0)

#endif
