/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program says of a connection, checked, with the defaults filled in and what the id's QP
 * and device say put in place.
 */
#ifndef VRB_RDMACM_PARAM_H
#define VRB_RDMACM_PARAM_H

#include <rdma/rdma_cma.h>

#include "cm/msg.h"

struct cma_id;

struct param {
	struct rdma_conn_param conn;
	uint8_t data[CM_RTU_PRIVATE]; /* private data, padded with zeroes */
};

/*
 * Of rdma_connect() and rdma_accept(): in may be NULL.  room is how much private data the message
 * holds.  Returns 0 or EINVAL.
 */
int param_of_connect(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		     struct param *out);
int param_of_accept(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		    struct param *out);

#endif
