/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts errno values used internally to the API's convention: calls that return an int return
 * the errno value, calls that return a pointer return NULL; errno is set in both cases.
 */
#ifndef VRB_VERBS_ANSWER_H
#define VRB_VERBS_ANSWER_H

#include <errno.h>
#include <stddef.h>

static inline int answer(int err)
{
	if (err)
		errno = err;
	return err;
}

/* For calls whose failure is -1. */
static inline int answer_minus(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

static inline void *answer_null(int err)
{
	errno = err;
	return NULL;
}

#endif
