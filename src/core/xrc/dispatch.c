/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/dispatch.h"

#include <errno.h>

#include "core/progress/poll_loop.h"
#include "core/xrc/delegation.h"
#include "core/xrc/open_table.h"
#include "core/xrc/remote_handle.h"
#include "core/xrc/remote_responder.h"
#include "core/xrc/rpc.h"
#include "util/compiler.h"

/* The required body length of each call and its handler. */
static const struct {
	size_t body;
	int (*run)(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
} calls[] = {
	[XRC_CALL_OPEN] = { sizeof(struct xrc_key), vrb_open_table_on_open },
	[XRC_CALL_CLOSE] = { 0, vrb_open_table_on_close },
	[XRC_CALL_MODIFY] = { sizeof(struct xrc_modify), vrb_open_table_on_modify },
	[XRC_CALL_QUERY] = { 0, vrb_open_table_on_query },
	[XRC_CALL_IMPORT] = { sizeof(struct xrc_import), vrb_remote_on_import },
	[XRC_CALL_ADD] = { sizeof(struct xrc_others), vrb_open_table_on_add },
};

static void serve(const struct xrc_msg *m, uint64_t now)
{
	struct xrc_head head = { .kind = XRC_REPLY, .qpn = m->head.qpn, .seq = m->head.seq };
	uint8_t reply[sizeof(struct ibv_qp_attr)];
	uint32_t call = m->head.epoch;
	struct xrc_peer to;
	size_t len = 0;

	if (!xrc_peer_find(&to, m->head.slot))
		return;
	if (xrc_peer_sent(&to, m)) {
		/* as ibv_modify_qp() does for a QP of its own process */
		if (call == XRC_CALL_MODIFY)
			vrb_poll_wire_in_round(now);
		if (call < ARRAY_SIZE(calls) && calls[call].run &&
		    m->head.body == calls[call].body)
			head.epoch = (uint32_t)calls[call].run(m, now, reply, &len);
		else
			head.epoch = EPROTO;
		xrc_send_surely(&to, &head, reply, len);
	}
	xrc_peer_drop(&to);
}

static void receive(const uint8_t *data, size_t len, struct vrb_rx_queue *r, uint64_t now)
{
	static struct xrc_msg m;	/* too large for the stack; under vrb.poll_lock */

	if (!xrc_parse(&m, data, len))
		return;
	switch (m.head.kind) {
	case XRC_DELEGATE:
	case XRC_REQUEST:
	case XRC_CONFIG:
	case XRC_REVOKE:
		vrb_responder_receive(&m, r, now);
		break;
	case XRC_ANSWER:
	case XRC_EVENT:
		vrb_delegation_receive(&m, r, now);
		break;
	case XRC_NOTIFY:
		vrb_remote_receive(&m);
		break;
	case XRC_RPC:
		serve(&m, now);
		break;
	case XRC_REPLY:
		xrc_take_reply(&m);
		break;
	default:
		break;
	}
}

const struct vrb_xrc_ops vrb_xrc_ops = {
	.message = receive,
	.cq_overrun = vrb_responder_fail_users,
	.domain_closed = vrb_responder_forget_domain,
	.abandon = vrb_responder_abandon,
};
