/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport callbacks of a QP (struct wq_ops), except those for transmission, which are in
 * tx/transport_ops.c and raw/raw_tx.c.
 */
#ifndef VRB_CORE_QP_WQ_OPS_H
#define VRB_CORE_QP_WQ_OPS_H

#include "core/mem/mr.h"
#include "wq/qp.h"

struct recv_wqe *vrb_qp_recv_take(struct wq_qp *wq, uint32_t srqn, const struct wq_head *head,
				  enum reason *why);
struct roce_rd_atomic *vrb_qp_rd_make(struct wq_qp *wq);
void vrb_qp_recv_untake(struct wq_qp *wq);
void vrb_qp_complete(struct wq_qp *wq, struct wq_cqe *cqe);
void vrb_qp_count(struct wq_qp *wq, const struct send_wqe *w, bool ok);
void vrb_qp_dropped(struct wq_qp *wq, enum reason why);
void vrb_qp_violated(struct wq_qp *wq, enum key_violation which);
void vrb_qp_event(struct wq_qp *wq, enum ibv_event_type type);
void vrb_qp_note(struct wq_qp *wq, const struct wq_note *note);

#define VRB_QP_OPS                                                                                 \
	.mem_check = vrb_mem_check, .mem_read = vrb_mem_read, .mem_write = vrb_mem_write,          \
	.mem_atomic = vrb_mem_atomic, .mem_atomic_write = vrb_mem_atomic_write,                    \
	.mem_flush = vrb_mem_flush, .invalidate = vrb_mem_invalidate, .bind_mw = vrb_mem_bind,     \
	.recv_take = vrb_qp_recv_take, .recv_untake = vrb_qp_recv_untake,                          \
	.rd_make = vrb_qp_rd_make,                                                                 \
	.complete = vrb_qp_complete, .count = vrb_qp_count, .dropped = vrb_qp_dropped,             \
	.violated = vrb_qp_violated, .event = vrb_qp_event, .note = vrb_qp_note

#endif
