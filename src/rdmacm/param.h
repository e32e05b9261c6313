/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection parameters from the program: checked, with defaults filled in and values of the id's
 * QP and device applied.
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
 * For rdma_connect() and rdma_accept(); in may be NULL.  room: bytes of private data in the
 * message. Returns 0 or EINVAL.
 */
int param_of_connect(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		     struct param *out);
int param_of_accept(const struct cma_id *id, const struct rdma_conn_param *in, size_t room,
		    struct param *out);

#endif
