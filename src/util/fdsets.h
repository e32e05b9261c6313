/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * select(2) by poll(2).  Supports all descriptors in the program's sets, which may be more than
 * FD_SETSIZE.
 */
#ifndef VRB_UTIL_FDSETS_H
#define VRB_UTIL_FDSETS_H

#include <poll.h>
#include <stdbool.h>
#include <sys/select.h>

struct fdsets {
	int n; /* descriptors [0, n) */
	fd_set *r, *w, *x; /* may be NULL */
};

/* Limits n to the descriptors that the process can have: programs pass their limit. */
int fdsets_size(int n);

bool fdsets_in(int fd, const fd_set *set);

/* Fills fds, of s->n elements, and returns how many are in use. */
nfds_t fdsets_to_poll(const struct fdsets *s, struct pollfd *fds);

/* Keeps those that are ready; returns their number in all sets, or -1: EBADF. */
int fdsets_from_poll(const struct fdsets *s, const struct pollfd *fds, nfds_t n);

/* Of a valid timeout: ms, rounded up; -1: none. */
int fdsets_ms(const struct timeval *t);
bool fdsets_time_ok(const struct timeval *t);

#endif
