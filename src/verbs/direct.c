/* SPDX-License-Identifier: BSD-2-Clause */
/* See direct.h. */
#include "verbs/direct.h"

#include "core/fastpath/post.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "util/lock.h"
#include "verbs/symver.h"
#include "wq/qp.h"

VRB_EXPORT bool vrb_write_direct(struct ibv_qp *ibv, const void *buf, size_t len,
				 uint64_t remote_addr, uint32_t rkey, bool past)
{
	const struct wq_seg from = { (uintptr_t)buf, len };
	struct vrb_qp *qp = to_vrb_qp(ibv);
	bool done;

	vrb_post_begin(qp, IBV_WR_RDMA_WRITE);
	done = vrb_peer_write(qp, &from, remote_addr, rkey, past);
	lock_release(&qp->lock);
	return done;
}
