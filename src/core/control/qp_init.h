/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of ibv_create_qp. The QP type determines the queues, the attributes their sizes; both are
 * checked against the device. What is granted is at least what was asked for.
 */
#ifndef VRB_CORE_CONTROL_QP_INIT_H
#define VRB_CORE_CONTROL_QP_INIT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

/* The queues of a QP type. */
struct qp_shape {
	enum ibv_qp_type type;
	bool sends;
	bool receives;		/* has its own receive queue or an SRQ */
	bool shared;		/* XRC receive */
};

enum { QP_INIT_RSS = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH };

/* A work queue: a raw packet QP that only receives. */
extern const struct qp_shape qp_shape_wq;

/* NULL if there is no such type. */
const struct qp_shape *qp_shape_of(const struct ibv_qp_init_attr_ex *a);

/* Returns 0, EINVAL or EOPNOTSUPP. The shape may be NULL. */
int qp_init_check(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a,
		  const struct qp_shape *s);

/* Rounds the request up to what is granted. Inline data and SGEs share the same space. */
void qp_init_grant(struct ibv_qp_cap *cap, const struct qp_shape *s, bool srq);

/* Space for the header of segmented sends; 0 if the QP does not segment. */
uint32_t qp_init_tso_header(const struct ibv_qp_init_attr_ex *a);

static inline bool qp_init_has(const struct ibv_qp_init_attr_ex *a, uint32_t bit)
{
	return a->comp_mask & bit;
}

#endif
