/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of ids: made, and moved along with the connection.  Verbs are called here: never
 * under the cma lock.
 */
#ifndef VRB_RDMACM_QP_H
#define VRB_RDMACM_QP_H

#include <rdma/rdma_cma.h>

struct cma_id;

/* Returns 0 or an errno value. */
int qp_create(struct cma_id *id, struct ibv_qp_init_attr_ex *attr);

/* What the QP needs for attr->qp_state.  Returns 0 or an errno value. */
int qp_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask);

/* To RTS, when REQ or REP is there; nothing for datagrams.  Returns 0 or an errno value. */
int qp_connect(struct cma_id *id);

/* To the error state, if the id has a connected QP. */
int qp_fail(struct cma_id *id);

/* CQs of its own, with a channel each; 0 or an errno value. */
int qp_make_recv_cq(struct cma_id *id, uint32_t entries);
void qp_destroy_cqs(struct cma_id *id);

#endif
