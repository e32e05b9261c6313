/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long SENDs within the host, copied by both ends: who is asked for help with what, and who may give it. local/help.h has the protocol,
 * near.h the contract.
 *
 * Locks: the receiver is under vrb.drive and its QP's lock; so is the sender, whose lock the receiver counts on.
 */
#include <errno.h>
#include <string.h>

#include "core/mr.h"
#include "core/near.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "local/help.h"
#include "util/compiler.h"

/* A WRITE with immediate is not: its last bytes come last. */
static bool may_be_helped(const struct vrb_qp *qp, const struct wq_pull *from, uint64_t total)
{
	return total >= HELP_MIN && total <= UINT32_MAX && from->num_seg == 1 &&
	       qp->wq.type == IBV_QPT_RC && !qp->wq.has_srq && qp->near.peer != NULL;
}

static int copy_part(const struct wq_pull *from, const struct wq_seg *to, uint64_t at, uint64_t len)
{
	return local_pull(from, at, &(struct wq_seg){ to->addr + at, len }, 1, len);
}

/* Our pieces. A sender that polls takes others meanwhile. */
static int copy_front(struct help *h, const struct wq_pull *from, const struct wq_seg *to)
{
	uint64_t at, len;
	int err = 0;

	while (!err && help_take(h, &at, &len))
		err = copy_part(from, to, at, len);
	if (err)
		help_close(h);
	return err;
}

/* Asks the sender to copy from the back. False if it would not. */
static bool ask(struct vrb_qp *qp, struct help *h, const struct wq_pull *from,
		const struct wq_seg *to, uint32_t key)
{
	struct lane *lane = local_lane_from(vrb.local, from->incarnation);
	struct help_offer offer = { .qpn = qp->wq.dest_qpn,
				    .psn = roce_expected_psn(&qp->roce),
				    .key = mr_key_index(key),
				    .addr = to->addr };

	if (!lane)
		return false;
	help_open(h, lane, to->len);
	offer.id = h->id;
	offer.length = h->length;
	offer.piece = h->piece;
	return local_offer(vrb.local, qp->near.peer, from->incarnation, &offer);
}

int vrb_near_pull_helped(struct vrb_qp *qp, const struct wq_pull *from, const struct wq_seg *to,
			 uint32_t key)
{
	uint64_t theirs;
	struct help h;
	int err;

	if (!may_be_helped(qp, from, to->len) || !ask(qp, &h, from, to, key))
		return local_pull(from, 0, to, 1, to->len);
	err = copy_front(&h, from, to);
	theirs = help_theirs(&h);
	switch (help_await(&h, vrb.local, from->incarnation)) {
	case HELP_FAILED:
		return err ? err : copy_part(from, to, theirs, h.length - theirs);
	case HELP_LOST:
		return ESRCH;
	default:
		return err;
	}
}

/* The request that the offer is for: it waits for its acknowledgement. */
static const struct send_wqe *find_request(const struct vrb_qp *qp, const struct help_offer *offer)
{
	const struct send_queue *sq = &qp->wq.sq;

	for (uint32_t i = sq->done; i != sq->next; i++) {
		const struct send_wqe *w = sq_wqe(sq, i);

		if (w->flags & WQE_PULL && w->first_psn == offer->psn)
			return w->num_sge == 1 && w->length == offer->length ? w : NULL;
	}
	return NULL;
}

/* Must hold qp->lock. */
static void help(struct vrb_qp *qp, const struct help_offer *offer)
{
	const struct send_wqe *w = find_request(qp, offer);
	struct mr_entry *pin;
	struct wq_seg seg;

	if (!w || vrb_mem_pin(&qp->wq, w->sge[0].lkey, w->sge[0].addr, w->length, MEM_LOCAL_READ, &seg,
			      &pin) != REASON_NONE)
		return;
	local_help(qp->near.peer, offer, seg.addr);
	vrb_mem_unpin(pin);
}

void vrb_near_help(const struct local_pkt *in)
{
	struct help_offer offer;
	struct vrb_qp *qp;

	if (in->len != sizeof(offer))
		return;
	memcpy(&offer, in->data, sizeof(offer));
	qp = vrb_qptab_find(offer.qpn);
	if (!qp)
		return;
	lock_acquire(&qp->lock);
	if (qp->wq.type == IBV_QPT_RC && qp->near.peer && vrb_near_believes(qp, in->slot))
		help(qp, &offer);
	lock_release(&qp->lock);
}
