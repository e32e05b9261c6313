/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the user's processes for their state (the other end is core/diag/introspect.h). */
#ifndef VRB_TOOL_QUERY_H
#define VRB_TOOL_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct json_object;

/* A PID as a word of the command line; 0: it is none. */
int query_pid(const char *word);

/* Called for each process that answered.  Returns true if the caller may free `process`. */
typedef bool (*query_fn)(struct json_object *process, void *arg);

/*
 * Asks all processes.  Returns the number that answered, -1 if there is no run directory; *silent
 * (may be NULL) counts those that live but did not answer in time.  Processes that end meanwhile
 * are not counted.
 */
int query_all(query_fn fn, void *arg, int *silent);

/* Queries one process, by PID in this namespace, and waits longer; 0: all. */
int query_process(int pid, query_fn fn, void *arg, int *silent);

/*
 * Sends a datagram to a socket "sNNNN.KIND" of a process and waits for its answer, one datagram of
 * at most `cap` bytes. Returns its length, or -1 with errno: ESRCH, there is no such process;
 * ETIMEDOUT, it does not answer, and will not carry out the request.
 */
ssize_t query_request(int pid, const char *kind, const void *request, size_t len, void *answer,
		      size_t cap);

#endif
