/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling: work queues, tables of them, and the QPs that spread frames over a table.
 *
 * A work queue is a raw packet QP that only receives, under another name: posting, scattering and
 * completing are the QP's.  What is here is its own: states, and who uses it.
 */
#ifndef VRB_CORE_RWQ_H
#define VRB_CORE_RWQ_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/qp.h"
#include "flow/hash.h"

struct vrb_context;

enum {
	VRB_MAX_RWQ_TABLES = 1 << 16,
	VRB_MAX_RWQ_TABLE_SIZE = 1 << 9,
};

struct vrb_wq {
	struct ibv_wq ibv;
	struct vrb_context *ctx;
	struct vrb_qp *qp;
	uint32_t users; /* atomic: tables' entries */
};

struct vrb_rwq_table {
	struct ibv_rwq_ind_table ibv;
	struct vrb_context *ctx;
	uint32_t users; /* atomic: QPs */
	uint32_t mask;  /* entries - 1 */
	struct vrb_wq *wq[];
};

/* What makes a QP spread. */
struct vrb_rss {
	struct vrb_rwq_table *table;
	struct flow_hash hash;
};

static inline struct vrb_wq *to_vrb_wq(struct ibv_wq *wq)
{
	return (struct vrb_wq *)wq;
}

static inline struct vrb_rwq_table *to_vrb_rwq_table(struct ibv_rwq_ind_table *t)
{
	return (struct vrb_rwq_table *)t;
}

/* Writes the granted sizes back. Returns 0, EINVAL, EOPNOTSUPP, ENOMEM, EPERM. */
int vrb_wq_create(struct vrb_context *ctx, struct ibv_wq_init_attr *attr, struct vrb_wq **out);

/* 0, EINVAL, EOPNOTSUPP. One thread at a time, as for every modification. */
int vrb_wq_modify(struct vrb_wq *wq, const struct ibv_wq_attr *attr);
int vrb_wq_destroy(struct vrb_wq *wq); /* EBUSY while it is in a table */

/* The QP behind a work queue has failed: its program hears of the queue. Under its lock. */
void vrb_wq_failed(struct vrb_wq *wq);

/* Return 0, EINVAL, ENOMEM. */
int vrb_rwq_table_create(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct vrb_rwq_table **out);
int vrb_rwq_table_destroy(struct vrb_rwq_table *t); /* EBUSY while a QP uses it */

/* For QPs: what attr says, with a reference on the table. Returns 0, EINVAL, EOPNOTSUPP, ENOMEM. */
int vrb_rss_create(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *attr,
		   struct vrb_rss **out);
void vrb_rss_destroy(struct vrb_rss *rss);

/* The queue whose turn it is, as the QP behind it; a QP that does not spread is its own. */
static inline struct vrb_qp *vrb_rss_choose(struct vrb_qp *qp, const struct flow_key *key)
{
	const struct vrb_rss *rss = qp->rss;

	return rss ? rss->table->wq[flow_hash(&rss->hash, key) & rss->table->mask]->qp : qp;
}

#endif
