/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/poll_fds.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MOST = 1 << 16,		/* a descriptor beyond is not looked at */
	BITS = sizeof(fd_mask) * CHAR_BIT,
};

static bool has_place(int fd)
{
	return fd >= 0 && fd < MOST;
}

static fd_mask bit(int fd)
{
	return (fd_mask)(1UL << fd % BITS);
}

/* select(2) has no such limit. Not FD_SET(), which aborts beyond FD_SETSIZE. */
static int by_select(struct pollfd *fds, unsigned int n, const struct timespec *limit)
{
	fd_mask in[MOST / BITS] = { 0 };
	struct timespec left = limit ? *limit : (struct timespec){ 0 };
	int ready, top = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (!has_place(fds[i].fd))
			continue;
		in[fds[i].fd / BITS] |= bit(fds[i].fd);
		top = fds[i].fd < top ? top : fds[i].fd + 1;
	}
	ready = (int)syscall(SYS_pselect6, top, in, NULL, NULL, limit ? &left : NULL, NULL);
	for (unsigned int i = 0; i < n; i++) {
		bool is = ready > 0 && has_place(fds[i].fd) &&
			  (in[fds[i].fd / BITS] & bit(fds[i].fd));

		fds[i].revents = is ? POLLIN : 0;
	}
	return ready;
}

int poll_fds(struct pollfd *fds, unsigned int n, const struct timespec *limit)
{
	int ready = ppoll(fds, n, limit, NULL);

	return ready < 0 && errno == EINVAL ? by_select(fds, n, limit) : ready;
}
