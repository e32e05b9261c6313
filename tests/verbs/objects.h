/* SPDX-License-Identifier: BSD-2-Clause */
/* One object of each kind, for tests of failing resources. Creates as many of them as possible. */
#ifndef TESTS_VERBS_OBJECTS_H
#define TESTS_VERBS_OBJECTS_H

#include "world.h"

/* Created in this order and destroyed in reverse; NULL if creation failed. */
struct objects {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
	struct ibv_mr *mr, *null, *dm_mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_ah *ah;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *ud, *raw, *rss;
	struct ibv_counters *counters;
	struct ibv_flow *flow, *sniffer;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
};

/* Creates them on the loopback device. */
void objects_make(struct objects *o);

/* Destroys those that exist; each call must succeed. */
void objects_destroy(struct objects *o);

#endif
