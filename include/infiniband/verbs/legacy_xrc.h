/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chapter of verbs.h, with VERBENA_LEGACY_XRC only: the XRC calls of OFED 1.3 to MLNX_OFED 4.
 *
 * A process is registered with an XRC receive QP, which is named by its number; the QP lives until
 * the last registered process unregisters.  Its peers send from QPs of type IBV_QPT_XRC and name
 * the SRQ in wr.xrc_remote_srq_num.
 *
 * Conventions as in verbs.h; the rules are those of the manual pages of OFED's libibverbs 1.1, one
 * for each call's name, and of IBTA volume 1, annex A14.
 */
#ifndef INFINIBAND_VERBS_LEGACY_XRC_H
#define INFINIBAND_VERBS_LEGACY_XRC_H

#include <infiniband/verbs/qp.h>
#include <infiniband/verbs/srq.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ibv_xrc_domain {
	struct ibv_context *context;
	uint32_t handle;
};

/*
 * Opens the domain that the file of `fd` names, `oflag` as for open(2): O_CREAT, O_CREAT | O_EXCL,
 * or 0 for one that exists.  fd -1 with O_CREAT: a private domain.  ENOENT, EEXIST: as oflag says.
 */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag);

/* Closes it; it exists until its last opener closes it.  EBUSY: an SRQ or QP here is in it. */
int ibv_close_xrc_domain(struct ibv_xrc_domain *d);

/*
 * Creates an SRQ that peers name by its member xrc_srq_num; completions go to xrc_cq.  Destroy it
 * with ibv_destroy_srq().
 */
struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain,
				   struct ibv_cq *xrc_cq, struct ibv_srq_init_attr *srq_init_attr);

/*
 * Creates a receive QP in init_attr->xrc_domain and registers the caller with it.  Of init_attr
 * only xrc_domain and qp_context are read.  *xrc_rcv_qpn, 24 bits, is set on success only.
 */
int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr *init_attr, uint32_t *xrc_rcv_qpn);

/*
 * As ibv_modify_qp() and ibv_query_qp(), for a QP that the caller is registered with; it needs no
 * RTS.  EINVAL: also for other QPs.
 */
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			  struct ibv_qp_attr *attr, int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			 struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr);

/*
 * Register with a QP, and unregister.  EINVAL: no such QP, or not in this domain; unregister: the
 * caller is not registered.
 */
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
