/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration, IBTA vol 1, 17.2: to the alternate path when the peer has migrated to it, when
 * the program requests it, or when the primary path has failed.
 */
#include <string.h>

#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/retry.h"
#include "util/net.h"

static void use_alternate(struct roce_qp *qp)
{
	struct wq_qp *wq = qp->wq;

	wq->path = wq->alt_path;
	wq->timeout = wq->alt_timeout;
	wq->mig_state = IBV_MIG_MIGRATED;
	if (roce_is_reliable(qp)) {
		roce_retry_start(qp);
		/* Packets in flight may be lost with the old path, and their timer is off now. */
		roce_requester_rewind(qp);
	}
	wq->ops->event(wq, IBV_EVENT_PATH_MIG);
}

void roce_qp_migrate(struct roce_qp *qp)
{
	use_alternate(qp);
	roce_check(qp);
}

bool roce_migrate(struct roce_qp *qp)
{
	if (qp->wq->mig_state != IBV_MIG_ARMED)
		return false;
	use_alternate(qp);
	return true;
}

static bool is_request(const struct roce_pkt *pkt)
{
	return roce_is_request(roce_opcode_info(pkt->bth.opcode));
}

/* Requests and answers have PSNs of their own. */
static struct roce_mig_clear *clear_of(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	return &qp->mig_clear[is_request(pkt)];
}

static void note_clear(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	struct roce_mig_clear *c = clear_of(qp, pkt);

	if (!c->any || psn_before(c->psn, pkt->bth.psn))
		*c = (struct roce_mig_clear){ .any = true, .psn = pkt->bth.psn };
}

/*
 * False: the peer may have sent it, with MigReq, before the program there armed its QP. Threads and
 * networks change the order of packets.
 */
static bool sent_since_armed(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	const struct roce_mig_clear *c = clear_of(qp, pkt);
	uint32_t expected = is_request(pkt) ? qp->resp.epsn : qp->comp.una;

	return c->any && psn_before(c->psn, pkt->bth.psn) && !psn_before(pkt->bth.psn, expected);
}

/* Without an alternate path a QP in REARM stays there: there is nothing to migrate to. */
static bool has_alternate(const struct wq_qp *wq)
{
	return !net_addr_is_zero(&wq->alt_path.dst);
}

static void arm(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	qp->wq->mig_state = IBV_MIG_ARMED;
	qp->mig_refused = false;
	memset(qp->mig_clear, 0, sizeof(qp->mig_clear));
	note_clear(qp, pkt);
}

static void follow(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	if (net_addr_equal(&pkt->path.src, &qp->wq->alt_path.dst)) {
		use_alternate(qp);
	} else if (!qp->mig_refused && sent_since_armed(qp, pkt)) {
		qp->mig_refused = true;
		qp->wq->ops->event(qp->wq, IBV_EVENT_PATH_MIG_ERR);
	}
}

/*
 * Follows the peer's MigReq. Clear: the peer is ready for a migration, and a QP in REARM becomes
 * ARMED. Set, on an armed QP: the peer has migrated. A migration to any path but the alternate one
 * is refused and reported once, although every packet requests it.
 */
void roce_follow_migration(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	struct wq_qp *wq = qp->wq;

	if (pkt->bth.opcode == ROCE_CNP_NOTIFICATION)
		return;	/* has no PSN */
	if (!pkt->bth.mig_req && !net_addr_equal(&pkt->path.src, &wq->path.dst))
		return;	/* left before the peer's last migration */
	if (wq->mig_state == IBV_MIG_REARM && !pkt->bth.mig_req && has_alternate(wq))
		arm(qp, pkt);
	else if (wq->mig_state == IBV_MIG_ARMED && !pkt->bth.mig_req)
		note_clear(qp, pkt);
	else if (wq->mig_state == IBV_MIG_ARMED)
		follow(qp, pkt);
}
