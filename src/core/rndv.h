/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous: the device fetches the data of a matched request itself, by an RDMA READ in the QP's
 * send queue, and a FIN behind it.  The send queue is the device's then, and all of it is here.
 *
 *	vrb_rndv_begin() --> waiting --room--> running --READ done--> completion
 *	                                          '--FIN follows the READ in the queue
 *
 * Everything is called under qp->lock.
 */
#ifndef VRB_CORE_RNDV_H
#define VRB_CORE_RNDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"

struct tag;
struct vrb_qp;
struct wq_cqe;

struct vrb_rndv {
	bool owner;		/* the send queue is the device's; immutable */
	struct list waiting;	/* tags that the send queue has no room for */
	struct list running;	/* tags with their READ in the send queue */
};

enum {
	RNDV_SQ_DEPTH = 16,	/* a READ and a FIN each */
};

/* Bytes behind a WQE of such a send queue. */
size_t vrb_rndv_wqe_room(void);

void vrb_rndv_init(struct vrb_qp *qp, bool owner);

/* Fetches what tag->request asks for into the tag's buffer; ends with vrb_tm_finish(). */
void vrb_rndv_begin(struct vrb_qp *qp, struct tag *tag);

/* A request of the send queue completed: wq_ops.complete. */
void vrb_rndv_sent(struct vrb_qp *qp, const struct wq_cqe *cqe);

/* The QP is reset or destroyed: every tag in rendezvous ends with a flush error. */
void vrb_rndv_abandon(struct vrb_qp *qp);

#endif
