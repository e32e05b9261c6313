/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records which functions of a library built with -finstrument-functions run, in order.
 *
 * Only the thread that calls trace_start() is recorded, until it calls trace_keep() or
 * trace_drop(). Nothing is looked up or written before trace_write(), so that a round takes no
 * longer than one that is not recorded. The program must export its symbols (-rdynamic), so that
 * its hooks replace those of libc, which do nothing.
 */
#ifndef TESTS_TRACE_RECORDER_H
#define TESTS_TRACE_RECORDER_H

#include <stdio.h>

void trace_start(void);

/* Drops what was recorded since the last trace_start(). */
void trace_drop(void);

/* Keeps it, as a section of this name, which must live until trace_write(). */
void trace_keep(const char *name, unsigned int round);

/*
 * Writes all sections to `out`: "NAME ROUND enter|leave OFFSET" a line, OFFSET from the start of
 * the library that has the function `in_library`.
 */
void trace_write(FILE *out, const void *in_library);

#endif
