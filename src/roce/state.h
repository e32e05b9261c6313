/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's private state of one QP.  Included by engine.h so that callers can embed it; members belong to the engine. */
#ifndef VRB_ROCE_STATE_H
#define VRB_ROCE_STATE_H

struct roce_qp {
	struct wq_qp *wq;
	struct roce_rd_atomic *rd_atomic;
	uint32_t rd_atomic_slots;
	struct roce_counters counters;
};

#endif
