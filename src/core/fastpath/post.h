/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work requests: from the program's structures into the rings.
 *
 * Each call takes the queue's lock, checks and stores the requests in order, and stops at the first
 * bad one; the requests before it are posted.
 */
#ifndef VRB_CORE_FASTPATH_POST_H
#define VRB_CORE_FASTPATH_POST_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/reason.h"

struct send_wqe;
struct vrb_qp;
struct vrb_srq;

/* Return 0 or an errno value; *bad is the first request that was not posted. */
int vrb_post_send(struct vrb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int vrb_post_recv(struct vrb_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int vrb_post_srq_recv(struct vrb_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Binds a type 1 window by posting a work request; updates mw->rkey on success. */
int vrb_post_bind_mw(struct vrb_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind);

/*
 * Shared with the extended interface; qp->lock held. vrb_post_allowed(): REASON_WR_STATE if the
 * QP's state accepts no send requests. vrb_post_refused(): logs why a request is not posted, and
 * returns the errno value.
 */
enum reason vrb_post_allowed(const struct vrb_qp *qp);
int vrb_post_refused(struct vrb_qp *qp, uint64_t wr_id, enum reason why);

/*
 * Take and release qp->lock around these steps. begin sends delayed ACKs of other QPs first; end
 * runs what stays in this process. first: the opcode of the first request. Pass the result of begin
 * to end.
 */
bool vrb_post_begin(struct vrb_qp *qp, enum ibv_wr_opcode first);
void vrb_post_end(struct vrb_qp *qp, bool loops);

/*
 * Normalises the result buffer of an atomic: if the SGE list is not eight bytes long, the result
 * goes to the first nonempty SGE, as on mlx5.
 */
void vrb_post_result(struct send_wqe *w);

/*
 * True if the send queue has a free slot at this index. Needs no lock: only one thread posts at a
 * time.
 */
bool vrb_post_room(const struct vrb_qp *qp, uint32_t index);

/* Installs the ibv_wr_* function table (wr_ex.c). */
void vrb_wr_ex_init(struct vrb_qp *qp);

/* Two entries of it, for the tapped form. */
int vrb_wr_complete(struct ibv_qp_ex *ex);
void vrb_wr_abort(struct ibv_qp_ex *ex);

#endif
