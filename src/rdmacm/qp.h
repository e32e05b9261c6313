/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of ids: creation, and state changes along with the connection.  Calls verbs: never
 * under the cma lock.
 */
#ifndef VRB_RDMACM_QP_H
#define VRB_RDMACM_QP_H

#include <rdma/rdma_cma.h>

struct cma_id;

/* Returns 0 or an errno value. */
int qp_create(struct cma_id *id, struct ibv_qp_init_attr_ex *attr);

/* Attributes for attr->qp_state.  Returns 0 or an errno value. */
int qp_attr(struct cma_id *id, struct ibv_qp_attr *attr, int *mask);

/*
 * Moves the QP to RTS after REQ or REP; does nothing for datagrams.  Returns 0 or an errno value.
 */
int qp_connect(struct cma_id *id);

/* Moves a connected QP of the id to the error state. */
int qp_fail(struct cma_id *id);

/* The id's own receive CQ, with a channel.  Returns 0 or an errno value. */
int qp_make_recv_cq(struct cma_id *id, uint32_t entries);
void qp_destroy_recv_cq(struct cma_id *id);

/* The CQs that nothing uses: that of an XRC SRQ stays until the SRQ is destroyed. */
void qp_destroy_cqs(struct cma_id *id);

#endif
