/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration, IBTA vol 1, 17.2: to the alternate path when the peer has migrated to it, when
 * the program requests it, or when the primary path has failed.
 */
#include "roce/parts.h"
#include "roce/retry.h"
#include "util/net.h"

static void use_alternate(struct roce_qp *qp)
{
	struct wq_qp *wq = qp->wq;

	wq->path = wq->alt_path;
	wq->timeout = wq->alt_timeout;
	wq->mig_state = IBV_MIG_MIGRATED;
	roce_retry_start(qp);
	/* Packets in flight may be lost with the old path, and their timer is off now. */
	roce_requester_rewind(qp);
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

/*
 * Follows the peer's MigReq. Clear: the peer is ready for a migration, and a QP in REARM becomes
 * ARMED. Set, on an armed QP: the peer has migrated. A migration to any path but the alternate one
 * is refused and reported once, although every packet requests it.
 */
void roce_follow_migration(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	struct wq_qp *wq = qp->wq;

	if (wq->mig_state == IBV_MIG_REARM && !pkt->bth.mig_req) {
		wq->mig_state = IBV_MIG_ARMED;
		qp->mig_refused = false;
	} else if (wq->mig_state != IBV_MIG_ARMED || !pkt->bth.mig_req) {
		return;
	} else if (net_addr_equal(&pkt->path.src, &wq->alt_path.dst)) {
		use_alternate(qp);
	} else if (!qp->mig_refused) {
		qp->mig_refused = true;
		wq->ops->event(wq, IBV_EVENT_PATH_MIG_ERR);
	}
}
