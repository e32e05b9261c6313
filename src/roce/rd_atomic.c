/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of READ and atomic resources. The array belongs to the caller of roce_qp_init(). rd_next
 * is the slot to take next, and so the oldest one; no slot from there up to rd_due has answers to
 * send.
 */
#include "roce/rd_atomic.h"

#include <string.h>

#include "roce/opcode.h"
#include "roce/psn.h"
#include "util/compiler.h"

uint32_t roce_rd_slots(const struct roce_qp *qp)
{
	return min((uint32_t)qp->wq->max_dest_rd_atomic, qp->rd_atomic_slots);
}

void roce_rd_reset(struct roce_qp *qp)
{
	if (qp->rd_atomic)
		memset(qp->rd_atomic, 0, qp->rd_atomic_slots * sizeof(*qp->rd_atomic));
	qp->resp.rd_next = 0;
	qp->resp.rd_due = 0;
	qp->resp.rd_first = false;
	qp->resp.rd_pending = 0;
}

static uint32_t age_of(const struct roce_qp *qp, uint32_t index)
{
	uint32_t slots = roce_rd_slots(qp);

	return (index + slots - qp->resp.rd_next % slots) % slots;
}

/* max_dest_rd_atomic may have shrunk since rd_next was set. */
static struct roce_rd_atomic *slot(const struct roce_qp *qp, uint32_t age)
{
	return &qp->rd_atomic[(qp->resp.rd_next + age) % roce_rd_slots(qp)];
}

void roce_rd_move(struct roce_qp *qp, struct roce_rd_atomic *to, uint32_t slots)
{
	uint32_t used = roce_rd_used(qp), n = min(used, slots);

	qp->resp.rd_pending = 0;
	for (uint32_t i = 0; i < n; i++) {
		to[i] = *slot(qp, used - n + i);
		qp->resp.rd_pending += to[i].pending;
	}
	qp->resp.rd_due = 0;
	qp->resp.rd_next = n;
	qp->rd_atomic = to;
	qp->rd_atomic_slots = slots;
}

bool roce_rd_available(const struct roce_qp *qp)
{
	return roce_rd_used(qp) && !slot(qp, 0)->fresh;
}

struct roce_rd_atomic *roce_rd_take(struct roce_qp *qp, uint32_t psn, uint32_t packets)
{
	struct roce_rd_atomic *rd = slot(qp, 0);
	uint32_t index = rd - qp->rd_atomic;

	if (!rd->pending)
		qp->resp.rd_pending++;
	qp->resp.rd_next = (qp->resp.rd_next + 1) % roce_rd_slots(qp);
	if (qp->resp.rd_pending == 1)
		qp->resp.rd_due = index;
	else if (qp->resp.rd_due == index)
		qp->resp.rd_due = qp->resp.rd_next;
	*rd = (struct roce_rd_atomic){
		.pending = true,
		.fresh = true,
		.first_psn = psn,
		.last_psn = psn_add(psn, packets - 1),
		.end = qp->resp.psns + packets,
		.answer_first = psn,
		.answer_last = psn_add(psn, packets - 1),
		.next_psn = psn,
		.pdn = qp->wq->pdn,
	};
	return rd;
}

struct roce_rd_atomic *roce_rd_find(struct roce_qp *qp, uint32_t psn)
{
	for (uint32_t i = 0; i < roce_rd_used(qp); i++) {
		struct roce_rd_atomic *rd = &qp->rd_atomic[i];

		if (rd->kind != ROCE_RD_FREE && qp->resp.psns - rd->end < PSN_HALF &&
		    psn_in_range(psn, rd->first_psn, rd->last_psn))
			return rd;
	}
	return NULL;
}

bool roce_rd_to_come(const struct roce_rd_atomic *rd, uint32_t psn)
{
	return rd->fresh && !psn_before(psn, rd->next_psn);
}

void roce_rd_replay(struct roce_qp *qp, struct roce_rd_atomic *rd, uint32_t psn, uint32_t packets,
		    uint32_t end)
{
	if (roce_rd_to_come(rd, psn))
		return;
	if (!rd->pending) {
		rd->pending = true;
		qp->resp.rd_pending++;
	}
	if (qp->resp.rd_pending == 1 ||
	    age_of(qp, rd - qp->rd_atomic) < age_of(qp, qp->resp.rd_due))
		qp->resp.rd_due = rd - qp->rd_atomic;
	rd->answer_first = psn;
	rd->next_psn = psn;
	rd->answer_last = rd->fresh ? rd->last_psn : psn_add(psn, packets - 1);
	rd->answer_end = rd->fresh ? rd->len : end;
	rd->pdn = qp->wq->pdn;
}

struct roce_rd_atomic *roce_rd_oldest(struct roce_qp *qp)
{
	uint32_t *due = &qp->resp.rd_due;

	for (uint32_t i = roce_rd_used(qp); i; i--) {
		if (*due >= roce_rd_slots(qp))
			*due = 0;
		if (qp->rd_atomic[*due].pending)
			return &qp->rd_atomic[*due];
		++*due;
	}
	return NULL;
}

/*
 * The response to a READ holds what the memory held before the requests after it. IBTA leaves that
 * to a fence, but soft RoCE responds in order, and programs rely on it.
 */
bool roce_must_respond_first(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	const struct roce_opcode_info *op = roce_opcode_info(pkt->bth.opcode);

	if (!roce_is_request(op) || op->kind == ROCE_KIND_READ)
		return false;
	for (uint32_t i = 0; i < roce_rd_used(qp) && !qp->resp.rd_first; i++) {
		const struct roce_rd_atomic *rd = &qp->rd_atomic[i];

		qp->resp.rd_first = rd->kind == ROCE_RD_READ && rd->fresh;
	}
	return qp->resp.rd_first;
}

void roce_rd_advance(struct roce_qp *qp, struct roce_rd_atomic *rd)
{
	if (rd->next_psn == rd->answer_last) {
		rd->pending = false;
		rd->fresh = false;
		if (!--qp->resp.rd_pending)
			qp->resp.rd_first = false;
	}
	rd->next_psn = psn_add(rd->next_psn, 1);
}
