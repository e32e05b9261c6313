/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a function that posting or polling calls is a cancellation point (util/cancel.h). Include
 * it after cmocka.h.
 */
#ifndef TESTS_UNIT_CANCELLED_H
#define TESTS_UNIT_CANCELLED_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

struct cancelled {
	void (*fn)(void);
	bool returned;
};

static inline void *cancelled_thread(void *arg)
{
	struct cancelled *c = arg;

	pthread_cancel(pthread_self());
	errno = 4242;
	c->fn();
	c->returned = errno == 4242;
	pthread_testcancel();
	return NULL;
}

/* True if a cancelled thread returns from the function, with errno as it was. */
static inline bool survives_cancel(void (*fn)(void))
{
	struct cancelled c = { .fn = fn };
	pthread_t thread;
	void *end;

	assert_int_equal(pthread_create(&thread, NULL, cancelled_thread, &c), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	return c.returned;
}

#endif
