/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tx/transport_ops.h"

#include "core/local/peer_link.h"
#include "core/qp/wq_ops.h"

const struct wq_ops vrb_transport_ops = {
	VRB_QP_OPS,
	.direct = vrb_peer_rdma,
	.can_pull = vrb_peer_can_pull,
	.pull = vrb_peer_fetch,
};
