/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_create_qp: what a queue pair may be made of.  The type says which queues it has, the attributes what goes
 * into them; they are checked against the device, and what is granted is at least what was asked for.
 */
#ifndef VRB_CORE_QP_INIT_H
#define VRB_CORE_QP_INIT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

/* What a type of QP consists of. */
struct qp_shape {
	enum ibv_qp_type type;
	bool sends;
	bool receives;		/* with a receive queue or SRQ of its own */
	bool shared;		/* XRC receive */
};

enum { QP_INIT_RSS = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH };

/* A work queue: a raw packet QP that only receives. */
extern const struct qp_shape qp_shape_wq;

/* NULL: there is no such type. */
const struct qp_shape *qp_shape_of(const struct ibv_qp_init_attr_ex *a);

/* 0, EINVAL or EOPNOTSUPP. The shape may be NULL. */
int qp_init_check(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a,
		  const struct qp_shape *s);

/* What was asked for becomes what is granted: room for inline data is room for SGEs and the other way round. */
void qp_init_grant(struct ibv_qp_cap *cap, const struct qp_shape *s, bool srq);

/* Room for the header of segmented sends; 0: the QP segments nothing. */
uint32_t qp_init_tso_header(const struct ibv_qp_init_attr_ex *a);

static inline bool qp_init_has(const struct ibv_qp_init_attr_ex *a, uint32_t bit)
{
	return a->comp_mask & bit;
}

#endif
