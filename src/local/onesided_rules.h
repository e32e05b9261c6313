/* SPDX-License-Identifier: BSD-2-Clause */
/* What lists and single requests of one-sided access (onesided.h) have in common. */
#ifndef VRB_LOCAL_ONESIDED_RULES_H
#define VRB_LOCAL_ONESIDED_RULES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "local/layout.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "wq/key.h"
#include "wq/qp.h"

/* Does the peer's QP execute requests of this one? */
static inline bool onesided_accepts(const struct seg_qp *target, const struct wq_qp *wq)
{
	if (target->type != wq->type || target->dest_qpn != wq->qpn ||
	    (wq->type != IBV_QPT_RC && wq->type != IBV_QPT_UC))
		return false;
	/* It was reset since, and would not take our packets. UC takes any PSN. */
	if (wq->type == IBV_QPT_RC && target->rq_psn != (uint16_t)wq->sq_psn)
		return false;
	/* In RTR the first request must be a packet, because the QP raises an event for it. */
	if (target->state != IBV_QPS_RTS && target->state != IBV_QPS_SQD &&
	    !(target->state == IBV_QPS_RTR && target->flags & SEG_QP_ESTABLISHED))
		return false;
	return memcmp(target->src_gid, wq->path.dst.raw, sizeof(target->src_gid)) == 0 &&
	       memcmp(target->dest_gid, wq->path.src.raw, sizeof(target->dest_gid)) == 0;
}

/* Does a remote QP with these rights and READ resources grant such requests? */
static inline bool onesided_permits(uint32_t rights, bool reads,
				    enum mem_access access)
{
	return rights & mem_access_right(access) && (access == MEM_REMOTE_WRITE || reads);
}

/*
 * Programs spin on the last byte of a request, so it must be written last. The kernel copies local
 * segments in order, but the bytes within a segment in any order. So the last bytes form a local
 * segment of their own. On architectures with weak store order they form a remote segment of their
 * own as well: between two remote segments the kernel drops page references with atomics that are
 * full barriers.
 */
#define ONESIDED_TAIL UINT64_C(8)

typedef ssize_t (*onesided_move)(pid_t pid, const struct iovec *local_iov, unsigned long n_local,
			   const struct iovec *remote_iov, unsigned long n_remote,
			   unsigned long flags);

/* The kernel's refusal does not depend on the address, so treat it as permanent. */
static inline void onesided_note_refusal(struct local_peer *peer, ssize_t result)
{
	if (result == -EPERM || result == -ENOSYS)
		store_relaxed(&peer->cma, false);
}

#endif
