/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls and locks that call a test, so that it decides the order of threads. */
#ifndef TESTS_RDMACM_RS_HOOKS_H
#define TESTS_RDMACM_RS_HOOKS_H

#include <pthread.h>
#include <stdbool.h>

extern __thread unsigned int *sleeps;	/* how often this thread has slept; NULL: not counted */
extern __thread void (*before_sleep)(void), (*after_epoll)(void);
extern __thread void (*at_lock)(pthread_mutex_t *m);	/* before this thread takes a lock */

extern __thread bool is_ours;		/* a thread of the test, not of the library */
extern pthread_mutex_t *held_back;	/* a lock that the library's threads do not take now */

#endif
