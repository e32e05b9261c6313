/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll over rsockets and other descriptors: repoll_create(), repoll_ctl(), repoll_wait(). */
#ifndef VRB_RDMACM_RS_EPOLL_H
#define VRB_RDMACM_RS_EPOLL_H

struct rsocket;

/* Closes a descriptor of repoll_create(); EBADF for others. */
int rs_epoll_close(int fd);

/*
 * The program polls the descriptor.  If it is one of repoll_create(), it is readable from now on
 * while repoll_wait() may have something to report.  For others no effect.
 */
void rs_epoll_polled(int fd);

/* Removes a closed rsocket from all epolls.  Must hold no lock. */
void rs_epoll_forget(struct rsocket *rs);

#endif
