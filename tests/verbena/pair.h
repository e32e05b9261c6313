/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of libverbena share: contexts on the loopback device, and two of them that are
 * each other's peer. Everything fails the test by itself.
 */
#ifndef TESTS_VERBENA_PAIR_H
#define TESTS_VERBENA_PAIR_H

#include <errno.h>
#include <string.h>

#include <verbena/verbena.h>

#include "check.h"

enum {
	GRH = 40, /* bytes in front of a datagram in the receiver's buffer */
	QKEY = 0x5eed,
};

/* Fails with errno and libverbena's sentence. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		if (!(call)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: %s (errno %d: %s)\n", __FILE__, __LINE__,      \
				#call, verbena_error(), errno, strerror(errno));                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The call gives `value` and errno `err`, and says why. */
#define FAILS(call, value, err)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK((call) == (value));                                                          \
		CHECK_EQ(errno, err);                                                              \
		CHECK(strstr(verbena_error(), strerror(err)) != NULL);                             \
	} while (0)

/* The name of the loopback device, which every host has. */
const char *loopback(void);

/* All defaults but the type. */
struct verbena_context_options options_of(enum ibv_qp_type type);

struct verbena_context *context_of(const struct verbena_context_options *opt);

struct pair {
	struct verbena_context *a, *b;
};

/* Both with the same options; connected, in INIT. */
struct pair pair_create(const struct verbena_context_options *opt);
void pair_destroy(struct pair *p);

/* "rc", "uc", "ud", "raw" of a test's command line. */
enum ibv_qp_type type_named(const char *name);

#endif
