/* SPDX-License-Identifier: BSD-2-Clause */
/* select(2) by poll(2). */
#include "util/fdsets.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

enum { BITS = sizeof(fd_mask) * CHAR_BIT };

/* The kernel reads no more of the sets, either. */
int fdsets_size(int n)
{
	FILE *f = n > FD_SETSIZE ? fopen("/proc/self/status", "re") : NULL;
	char line[128];
	int size = FD_SETSIZE;

	if (!f)
		return n < size ? n : size;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "FDSize: %d", &size) == 1)
			break;
	fclose(f);
	return n < size ? n : size;
}

/* Not FD_SET() etc., which abort beyond FD_SETSIZE. */
static fd_mask *word(int fd, const fd_set *set)
{
	return (fd_mask *)(uintptr_t)set + fd / BITS;
}

static fd_mask bit(int fd)
{
	return (fd_mask)(1UL << fd % BITS);
}

bool fdsets_in(int fd, const fd_set *set)
{
	return set && (*word(fd, set) & bit(fd));
}

nfds_t fdsets_to_poll(const struct fdsets *s, struct pollfd *fds)
{
	nfds_t n = 0;
	int fd;

	for (fd = 0; fd < s->n; fd++) {
		int events = (fdsets_in(fd, s->r) ? POLLIN : 0) |
			     (fdsets_in(fd, s->w) ? POLLOUT : 0) |
			     (fdsets_in(fd, s->x) ? POLLPRI : 0);

		if (events)
			fds[n++] = (struct pollfd){ .fd = fd, .events = (short)events };
	}
	return n;
}

static int keep(int fd, bool ready, fd_set *set)
{
	if (!fdsets_in(fd, set))
		return 0;
	if (!ready)
		*word(fd, set) &= ~bit(fd);
	return ready;
}

int fdsets_from_poll(const struct fdsets *s, const struct pollfd *fds, nfds_t n)
{
	int ready = 0;
	nfds_t i;

	for (i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -1;
	for (i = 0; i < n; i++) {
		short is = fds[i].revents;

		ready += keep(fds[i].fd, is & (POLLIN | POLLHUP | POLLERR), s->r);
		ready += keep(fds[i].fd, is & (POLLOUT | POLLERR), s->w);
		ready += keep(fds[i].fd, is & POLLPRI, s->x);
	}
	return ready;
}

bool fdsets_time_ok(const struct timeval *t)
{
	return !t || (t->tv_sec >= 0 && t->tv_usec >= 0);
}

int fdsets_ms(const struct timeval *t)
{
	int64_t ms;

	if (!t)
		return -1;
	if (t->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	ms = (int64_t)t->tv_sec * 1000 + t->tv_usec / 1000 + (t->tv_usec % 1000 != 0);
	return ms < INT_MAX ? (int)ms : INT_MAX;
}
