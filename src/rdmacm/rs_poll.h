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

/*
 * The same; but if the rsocket can only be written to, as it nearly always can, and the program
 * asks for more, looks for what has arrived first: else that would never be reported.
 */
short rs_ready_both(struct rsocket *rs, short events);

#endif
