/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending and receiving on stream rsockets. */
#ifndef VRB_RDMACM_RS_IO_H
#define VRB_RDMACM_RS_IO_H

#include <stdbool.h>

struct rsocket;

/* True if the call must not block: O_NONBLOCK or MSG_DONTWAIT. */
bool rs_never_waits(const struct rsocket *rs, int flags);

/* True if a call would not block.  Under the lock. */
bool rs_can_recv(struct rsocket *rs);
bool rs_can_send(struct rsocket *rs);

/* The errno that a call fails with in this state, or 0.  Under the lock. */
int rs_send_error(struct rsocket *rs);

#endif
