/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Callbacks of the engine (cm/cm.h): turn its events into events of ids, and make ids for requests.
 * Under the cma lock.
 */
#ifndef VRB_RDMACM_CONN_H
#define VRB_RDMACM_CONN_H

#include "cm/cm.h"

/* cm_ops.event */
void conn_event(void *arg, struct cm_conn *c, const struct cm_event *ev);

/* cm_ops.request: finds the listener and makes an id for the request. */
enum cm_verdict conn_request(void *arg, const struct cm_msg *m, const struct net_path *path,
			     struct cm_conn **conn, unsigned int *reason);

/* cm_ops.late */
bool conn_late(void *arg, struct cm_conn *c);

#endif
