/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups. The LID is for InfiniBand links; here the GID suffices. */
#include "core/rx/mcast.h"

#include "core/base/context.h"
#include "core/qp/qp.h"
#include "verbs/answer.h"
#include "verbs/tap.h"

/* Returns 0, or the errno value if these arguments can be neither attached nor detached. */
static int check(const struct ibv_qp *qp, const union ibv_gid *gid)
{
	return qp && gid ? vrb_context_check(qp->context) : EINVAL;
}

static int attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int err = check(qp, gid);

	return answer(err ? err :
			    vrb_mcast_attach(to_vrb_qp(qp)->config.target,
					     (const struct net_addr *)gid));
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return TAP_ERRNO(attach_mcast, qp, gid, lid);
}

static int detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int err = check(qp, gid);

	return answer(err ? err :
			    vrb_mcast_detach(to_vrb_qp(qp)->config.target,
					     (const struct net_addr *)gid));
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return TAP_ERRNO(detach_mcast, qp, gid, lid);
}
