/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive side scaling: tables of work queues, and QPs that spread frames over such a table. */
#ifndef VRB_CORE_RAW_RSS_H
#define VRB_CORE_RAW_RSS_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "core/qp/qp.h"
#include "flow/hash.h"

struct vrb_context;

struct vrb_wq {
	struct ibv_wq ibv;
	struct vrb_qp *qp;
	uint32_t users; /* atomic: entries of tables */
};

struct vrb_rwq_table {
	struct ibv_rwq_ind_table ibv;
	struct vrb_context *ctx;
	uint32_t users; /* atomic: QPs */
	uint32_t mask;  /* entries - 1 */
	struct vrb_wq *wq[];
};

/* The hash and the table of an RSS QP. */
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

/* Return 0, EINVAL, ENOMEM. */
int vrb_rwq_table_create(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct vrb_rwq_table **out);
int vrb_rwq_table_destroy(struct vrb_rwq_table *t); /* EBUSY while a QP uses it */

/* Checks attr and takes a reference on the table. Returns 0, EINVAL, EOPNOTSUPP or ENOMEM. */
int vrb_rss_create(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *attr,
		   struct vrb_rss **out);
void vrb_rss_destroy(struct vrb_rss *rss);

/* The QP behind the work queue that the hash selects. A QP without RSS selects itself. */
static inline struct vrb_qp *vrb_rss_choose(struct vrb_qp *qp, const struct flow_key *key)
{
	const struct vrb_rss *rss = qp->config.rss;

	return rss ? rss->table->wq[flow_hash(&rss->hash, key) & rss->table->mask]->qp : qp;
}

#endif
