/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening rsockets: the service thread answers requests; established connections wait in order
 * for raccept().
 */
#ifndef VRB_RDMACM_RS_LISTEN_H
#define VRB_RDMACM_RS_LISTEN_H

#include <stdbool.h>

#include "rdmacm/rs.h"

/* True if raccept() would return a connection.  Any thread. */
bool rs_listen_has(struct rsocket *rs);

/* How many connections were requested and not returned by raccept() yet.  Any thread. */
unsigned int rs_listen_pending(struct rsocket *rs, unsigned int *backlog);

/* Stops accepting and closes the connections in the queue.  Must hold no lock. */
void rs_listen_close(struct rsocket *rs);

#endif
