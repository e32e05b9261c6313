/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll(), rselect(): wait for rsockets and other descriptors. */
#ifndef VRB_RDMACM_RS_POLL_H
#define VRB_RDMACM_RS_POLL_H

struct rsocket;

/*
 * The events that poll() would return: POLLHUP, POLLERR, and the requested ones of POLLIN and
 * POLLOUT. Under the lock.
 */
short rs_ready(struct rsocket *rs, short events);

#endif
