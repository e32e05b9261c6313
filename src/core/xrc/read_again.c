/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/read_again.h"

#include "core/qp/qp.h"
#include "core/rx/demux.h"
#include "core/xrc/delegation.h"
#include "host/host.h"
#include "roce/opcode.h"
#include "roce/psn.h"

bool xrc_read_comes_again(const struct vrb_qp *qp, const struct rx_decoded *raw)
{
	return roce_opcode_info(raw->pkt->bth.opcode)->kind == ROCE_KIND_READ &&
	       psn_before(raw->pkt->bth.psn, roce_expected_psn(&qp->roce));
}

void xrc_read_again_send(struct xrc_read_again *a, struct vrb_qp *qp, int slot, uint32_t epoch,
			 const struct rx_decoded *raw, void *state)
{
	struct xrc_head head = { .kind = XRC_DELEGATE, .qpn = qp->wq.qpn, .epoch = epoch };
	struct xrc_config config = vrb_delegation_config(qp);
	struct xrc_request request = { .path = raw->pkt->path };

	xrc_peer_drop(&a->to);
	if (!xrc_peer_find(&a->to, slot))
		return;
	a->epoch = epoch;
	a->to.stalled = true;	/* do not wait for room */
	if (xrc_send(&a->to, &head, &config, sizeof(config), state,
		     roce_snapshot_take_idle(&qp->roce, state), NULL, 0))
		return;
	head = (struct xrc_head){ .kind = XRC_REQUEST, .qpn = qp->wq.qpn, .epoch = epoch,
				  .seq = 1 };
	xrc_send(&a->to, &head, &request, sizeof(request), NULL, 0, raw->data, raw->len);
}

bool xrc_read_again_sent(const struct xrc_read_again *a, const struct xrc_msg *m)
{
	return a->to.slot != HOST_NO_SLOT && m->head.epoch == a->epoch &&
	       xrc_peer_sent(&a->to, m);
}
