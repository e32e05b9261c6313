/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payloads of long SENDs on the same host, copied by both ends: decides when the receiver asks the
 * sender for help and when the sender helps. local/split_copy.h has the protocol, peer_link.h the
 * interface.
 *
 * Locks: both the receiver and the sender run under vrb.poll_lock and their QP's lock. The receiver
 * relies on the sender's qp->lock.
 */
#include <errno.h>
#include <string.h>

#include "core/base/state.h"
#include "core/local/peer_link.h"
#include "core/mem/mr.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "local/split_copy.h"
#include "util/compiler.h"
#include "util/tuning.h"

/* Excludes WRITE with immediate, whose last bytes must be written last. */
static bool may_be_helped(const struct vrb_qp *qp, const struct wq_pull *from, uint64_t total)
{
	return total >= TUNE_SPLIT_COPY_MIN && total <= UINT32_MAX && from->num_seg == 1 &&
	       qp->wq.type == IBV_QPT_RC && !qp->wq.has_srq && qp->peer.process != NULL;
}

static int copy_part(const struct wq_pull *from, const struct wq_seg *to, uint64_t at, uint64_t len)
{
	return local_pull(from, at, &(struct wq_seg){ to->addr + at, len }, 1, len);
}

/* Copies pieces from the front. A sender that polls concurrently copies others. */
static int copy_front(struct split_copy *h, const struct wq_pull *from, const struct wq_seg *to)
{
	uint64_t at, len;
	int err = 0;

	while (!err && split_copy_take(h, &at, &len))
		err = copy_part(from, to, at, len);
	if (err)
		split_copy_close(h);
	return err;
}

/* Offers the sender to copy from the back. False: the offer could not be sent. */
static bool ask(struct vrb_qp *qp, struct split_copy *h, const struct wq_pull *from,
		const struct wq_seg *to, uint32_t key)
{
	struct lane *lane = local_lane_from(vrb.local, from->incarnation);
	struct split_copy_offer offer = { .qpn = qp->wq.dest_qpn,
				    .psn = roce_expected_psn(&qp->roce),
				    .key = mr_key_index(key),
				    .addr = to->addr };

	if (!lane)
		return false;
	split_copy_open(h, lane, to->len);
	offer.id = h->id;
	offer.length = h->length;
	offer.piece = h->piece;
	return local_offer(vrb.local, qp->peer.process, from->incarnation, &offer);
}

int vrb_peer_fetch_split(struct vrb_qp *qp, const struct wq_pull *from, const struct wq_seg *to,
			 uint32_t key)
{
	uint64_t sender_at;
	struct split_copy h;
	int err;

	if (!may_be_helped(qp, from, to->len) || !ask(qp, &h, from, to, key))
		return local_pull(from, 0, to, 1, to->len);
	err = copy_front(&h, from, to);
	sender_at = split_copy_sender_part(&h);
	switch (split_copy_await(&h, vrb.local, from->incarnation)) {
	case SPLIT_COPY_FAILED:
		return err ? err : copy_part(from, to, sender_at, h.length - sender_at);
	case SPLIT_COPY_LOST:
		return ESRCH;
	default:
		return err;
	}
}

/* Returns the unacknowledged request that the offer refers to, or NULL. */
static const struct send_wqe *find_request(const struct vrb_qp *qp,
					   const struct split_copy_offer *offer)
{
	const struct send_queue *sq = &qp->wq.sq;

	for (uint32_t i = sq->done; i != sq->next; i++) {
		const struct send_wqe *w = sq_wqe(sq, i);

		if (w->flags & WQE_WHOLE && w->first_psn == offer->psn)
			return w->num_sge == 1 && w->length == offer->length ? w : NULL;
	}
	return NULL;
}

/* Must hold qp->lock. */
static void help(struct vrb_qp *qp, const struct split_copy_offer *offer)
{
	const struct send_wqe *w = find_request(qp, offer);
	struct mr_entry *pin;
	struct wq_seg seg;

	if (!w ||
	    vrb_mem_pin(&qp->wq, w->sge[0].lkey, w->sge[0].addr, w->length, MEM_LOCAL_READ, &seg,
			      &pin) != REASON_NONE)
		return;
	local_split_copy(qp->peer.process, offer, seg.addr);
	vrb_mem_unpin(pin);
}

void vrb_peer_split_copy(const struct local_pkt *in)
{
	struct split_copy_offer offer;
	struct vrb_qp *qp;

	if (in->len != sizeof(offer))
		return;
	memcpy(&offer, in->data, sizeof(offer));
	qp = vrb_qp_table_find(offer.qpn);
	if (!qp)
		return;
	lock_acquire(&qp->lock);
	if (qp->wq.type == IBV_QPT_RC && qp->peer.process && vrb_is_peer(qp, in->slot))
		help(qp, &offer);
	lock_release(&qp->lock);
}
