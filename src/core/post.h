/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work requests: from the program's structures into the rings.
 *
 * Each call takes the queue's lock, checks and stores one request after the other, and stops at
 * the first bad one, which it reports; those before it are posted.
 */
#ifndef VRB_CORE_POST_H
#define VRB_CORE_POST_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/reason.h"

struct send_wqe;
struct vrb_qp;
struct vrb_srq;

/* Return 0 or an errno value, with *bad on the first request that was not posted. */
int vrb_post_send(struct vrb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int vrb_post_recv(struct vrb_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int vrb_post_srq_recv(struct vrb_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * ibv_bind_mw: binds a type 1 window by a work request of the library's making; mw->rkey changes
 * on success.
 */
int vrb_post_bind_mw(struct vrb_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind);

/*
 * Steps that the extended interface shares; under qp->lock. allowed: REASON_WR_STATE in a state that takes
 * no send requests.  refused: logs why a request is not posted, and returns the errno value.  kick: the requests
 * up to sq.head are complete in memory; run them.
 */
enum reason vrb_post_allowed(const struct vrb_qp *qp);
int vrb_post_refused(const struct vrb_qp *qp, uint64_t wr_id, enum reason why);
void vrb_post_kick(struct vrb_qp *qp);

/* Around them, taking and giving back qp->lock: what was put off leaves first, and what stays in this process is run. */
void vrb_post_begin(struct vrb_qp *qp);
void vrb_post_end(struct vrb_qp *qp);

/*
 * Where the result of an atomic goes: a list of another length than eight bytes stands for eight at its first
 * piece that is not empty, as on mlx5.
 */
void vrb_post_result(struct send_wqe *w);

/* Is there a slot at this index of the send queue?  No lock needed: who posts is alone. */
bool vrb_post_room(const struct vrb_qp *qp, uint32_t index);

/* Gives a QP its ibv_wr_* function table (wr_ex.c), for the operations in qp->send_ops. */
void vrb_wr_ex_init(struct vrb_qp *qp);

#endif
