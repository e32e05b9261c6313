/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records which functions of a library built with -finstrument-functions run, in order.
 *
 * Only the thread that calls trace_start() is recorded, until it calls trace_stop(). The program must export its symbols (-rdynamic), so that
 * its hooks replace those of libc, which do nothing.
 */
#ifndef TESTS_TRACE_RECORDER_H
#define TESTS_TRACE_RECORDER_H

#include <stdio.h>

void trace_start(void);

/* Drops what was recorded since the last trace_start(). */
void trace_drop(void);

/* Writes the record to `out`: "NAME enter|leave OFFSET" a line, OFFSET from the start of the library that has the function `in_library`. */
void trace_stop(FILE *out, const char *name, const void *in_library);

#endif
