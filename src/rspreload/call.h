/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call of the program in which we allocate or lock, around those of rsockets: a signal's handler,
 * which might leave it by longjmp(), is put off meanwhile (signal.c), and so is cancellation.
 */
#ifndef VRB_RSPRELOAD_CALL_H
#define VRB_RSPRELOAD_CALL_H

#include <errno.h>
#include <stdbool.h>

#include "rdmacm/rs_call.h"

static inline bool call_begin(void)
{
	vrb_rs_call_begin();
	return true;
}

static inline void call_end(bool *unused)
{
	int error = errno;

	vrb_rs_call_end();
	errno = error;
}

/* Among the declarations of a function: until it returns, or is left. */
#define CALL __attribute__((cleanup(call_end), unused)) bool in_call = call_begin()

#endif
