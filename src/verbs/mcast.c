/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups. */
#include <infiniband/verbs.h>

#include "verbs/answer.h"

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return answer(EOPNOTSUPP);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return answer(EOPNOTSUPP);
}
