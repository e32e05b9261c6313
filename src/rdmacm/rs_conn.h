/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection setup and disconnection of stream rsockets.  Events of the id are taken by the first
 * caller: a waiting thread of the program, or the service thread.
 *
 * Under rs->lock.
 */
#ifndef VRB_RDMACM_RS_CONN_H
#define VRB_RDMACM_RS_CONN_H

#include <stdbool.h>

#include <rdma/rdma_cma.h>

#include "rdmacm/rs.h"

/* Starts connecting.  Returns 0 or an errno value; then the rsocket is in RS_FAILED. */
int rs_conn_start(struct rsocket *rs, const struct sockaddr *addr);

/* Handles the id's events.  Returns true if there were any. */
bool rs_conn_progress(struct rsocket *rs);

/*
 * Accepts a request: returns a new rsocket in RS_ACCEPTING with the listener's options, or NULL if
 * the request was refused.  Acknowledges the event.  Under the listener's lock.
 */
struct rsocket *rs_conn_accept(struct rsocket *listener, struct rdma_cm_event *request);

#endif
