/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/poll_fds.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/compiler.h"

enum { BITS = sizeof(fd_mask) * CHAR_BIT };

static fd_mask bit(int fd)
{
	return (fd_mask)(1UL << fd % BITS);
}

static int highest(const struct pollfd *fds, unsigned int n)
{
	int top = 0;

	for (unsigned int i = 0; i < n; i++)
		top = max(top, fds[i].fd);
	return top;
}

/* select(2) has no such limit. Not FD_SET(), which aborts beyond FD_SETSIZE. */
static int by_select(struct pollfd *fds, unsigned int n, const struct timespec *limit)
{
	struct timespec left = limit ? *limit : (struct timespec){ 0 };
	int ready, top = highest(fds, n);
	fd_mask *in = calloc((size_t)top / BITS + 1, sizeof(*in));

	if (!in)
		return -1;
	for (unsigned int i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			in[fds[i].fd / BITS] |= bit(fds[i].fd);
	ready = (int)syscall(SYS_pselect6, top + 1, in, NULL, NULL, limit ? &left : NULL, NULL);
	for (unsigned int i = 0; i < n; i++) {
		bool is = ready > 0 && fds[i].fd >= 0 && (in[fds[i].fd / BITS] & bit(fds[i].fd));

		fds[i].revents = is ? POLLIN : 0;
	}
	free(in);
	return ready;
}

int poll_fds(struct pollfd *fds, unsigned int n, const struct timespec *limit)
{
	int ready = ppoll(fds, n, limit, NULL);

	return ready < 0 && errno == EINVAL ? by_select(fds, n, limit) : ready;
}
