/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: the device fetches the data of a matched request with an RDMA READ on the QP's send
 * queue, followed by a FIN. Only the device uses the send queue of such a QP.
 *
 *	vrb_rndv_begin() --> waiting --room--> running --READ done--> completion
 *	                                          '--FIN follows the READ in the queue
 *
 * Must hold qp->lock.
 */
#ifndef VRB_CORE_QP_TAG_RNDV_H
#define VRB_CORE_QP_TAG_RNDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"

struct tag;
struct vrb_qp;
struct wq_cqe;

struct vrb_rndv {
	bool owner;		/* the device owns the send queue; immutable */
	struct list waiting;	/* tags waiting for room in the send queue */
	struct list running;	/* tags whose READ is in the send queue */
};

enum {
	RNDV_SQ_DEPTH = 16,	/* each rendezvous takes two: READ and FIN */
};

/* Bytes needed after a WQE of the device's send queue, for SGEs or inline data. */
size_t vrb_rndv_wqe_room(void);

void vrb_rndv_init(struct vrb_qp *qp, bool owner);

/* Fetches the data of tag->request into the tag's buffer; ends with vrb_tm_finish(). */
void vrb_rndv_begin(struct vrb_qp *qp, struct tag *tag);

/* Handles wq_ops.complete of the device's send queue. */
void vrb_rndv_sent(struct vrb_qp *qp, const struct wq_cqe *cqe);

/* Completes every pending rendezvous with a flush error, when the QP is reset or destroyed. */
void vrb_rndv_abandon(struct vrb_qp *qp);

#endif
