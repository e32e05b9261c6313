/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of READ and atomic resources.  The array belongs to the caller of roce_qp_init();
 * rd_next is the slot to be taken next and therefore the oldest one; none from there up to rd_due
 * owes an answer.
 */
#include "roce/rd_atomic.h"

#include <string.h>

#include "roce/psn.h"
#include "util/compiler.h"

uint32_t roce_rd_slots(const struct roce_qp *qp)
{
	return min((uint32_t)qp->wq->max_dest_rd_atomic, qp->rd_atomic_slots);
}

void roce_rd_reset(struct roce_qp *qp)
{
	if (qp->rd_atomic_slots)
		memset(qp->rd_atomic, 0, qp->rd_atomic_slots * sizeof(*qp->rd_atomic));
	qp->resp.rd_next = 0;
	qp->resp.rd_due = 0;
	qp->resp.rd_owed = 0;
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

bool roce_rd_available(const struct roce_qp *qp)
{
	const struct roce_rd_atomic *rd;

	if (!roce_rd_slots(qp))
		return false;
	rd = slot(qp, 0);
	return !rd->owed || !rd->fresh;
}

struct roce_rd_atomic *roce_rd_take(struct roce_qp *qp, uint32_t psn, uint32_t packets)
{
	struct roce_rd_atomic *rd = slot(qp, 0);
	uint32_t index = rd - qp->rd_atomic;

	if (!rd->owed)
		qp->resp.rd_owed++;
	qp->resp.rd_next = (qp->resp.rd_next + 1) % roce_rd_slots(qp);
	if (qp->resp.rd_owed == 1)
		qp->resp.rd_due = index;
	else if (qp->resp.rd_due == index)
		qp->resp.rd_due = qp->resp.rd_next;
	*rd = (struct roce_rd_atomic){
		.owed = true,
		.fresh = true,
		.first_psn = psn,
		.last_psn = psn_add(psn, packets - 1),
		.end = qp->resp.psns + packets,
		.answer_first = psn,
		.answer_last = psn_add(psn, packets - 1),
		.next_psn = psn,
	};
	return rd;
}

struct roce_rd_atomic *roce_rd_find(struct roce_qp *qp, uint32_t psn)
{
	for (uint32_t i = 0; i < roce_rd_slots(qp); i++) {
		struct roce_rd_atomic *rd = &qp->rd_atomic[i];

		if (rd->kind != ROCE_RD_FREE && qp->resp.psns - rd->end < PSN_HALF &&
		    psn_in_range(psn, rd->first_psn, rd->last_psn))
			return rd;
	}
	return NULL;
}

bool roce_rd_to_come(const struct roce_rd_atomic *rd, uint32_t psn)
{
	return rd->owed && rd->fresh && !psn_before(psn, rd->next_psn);
}

void roce_rd_replay(struct roce_qp *qp, struct roce_rd_atomic *rd, uint32_t psn, uint32_t packets,
		    uint32_t end)
{
	if (roce_rd_to_come(rd, psn))
		return;
	if (!rd->owed) {
		rd->owed = true;
		qp->resp.rd_owed++;
	}
	if (qp->resp.rd_owed == 1 || age_of(qp, rd - qp->rd_atomic) < age_of(qp, qp->resp.rd_due))
		qp->resp.rd_due = rd - qp->rd_atomic;
	rd->answer_first = psn;
	rd->next_psn = psn;
	rd->answer_last = rd->fresh ? rd->last_psn : psn_add(psn, packets - 1);
	rd->answer_end = rd->fresh ? rd->len : end;
}

struct roce_rd_atomic *roce_rd_oldest(struct roce_qp *qp)
{
	uint32_t *due = &qp->resp.rd_due;

	for (uint32_t i = roce_rd_slots(qp); i; i--) {
		if (*due >= roce_rd_slots(qp))
			*due = 0;
		if (qp->rd_atomic[*due].owed)
			return &qp->rd_atomic[*due];
		++*due;
	}
	return NULL;
}

void roce_rd_advance(struct roce_qp *qp, struct roce_rd_atomic *rd)
{
	if (rd->next_psn == rd->answer_last) {
		rd->owed = false;
		rd->fresh = false;
		qp->resp.rd_owed--;
	}
	rd->next_psn = psn_add(rd->next_psn, 1);
}
