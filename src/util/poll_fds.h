/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_UTIL_POLL_FDS_H
#define VRB_UTIL_POLL_FDS_H

#include <poll.h>
#include <time.h>

/*
 * ppoll(2) for POLLIN of our own descriptors. poll(2) fails if there are more than RLIMIT_NOFILE,
 * which a program may have lowered since they were opened, as sandboxes do, even to 0.
 */
int poll_fds(struct pollfd *fds, unsigned int n, const struct timespec *limit);

#endif
