/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creation and destruction of QPs. The caller passes the hooks of special QPs (qp/qp_hooks.h), so
 * this room does not depend on them.
 */
#ifndef VRB_CORE_CONTROL_QP_CREATE_H
#define VRB_CORE_CONTROL_QP_CREATE_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;
struct vrb_qp;
struct vrb_qp_hooks;
struct vrb_xrcd;

/*
 * Updates attr->cap to the granted capabilities. Returns 0, EINVAL, ENOMEM, EOPNOTSUPP or EBUSY;
 * for raw packets also EPERM and the errors of opening the interface.
 */
int vrb_qp_create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr,
		  const struct vrb_qp_hooks *hooks, struct vrb_qp **qp);

/*
 * Creates the QP behind a work queue: a raw packet QP that only receives. It is posted to, modified
 * (RTR: ready) and destroyed like any QP, and completions carry its number. Updates attr to the
 * granted sizes. Returns as above; EPERM.
 */
int vrb_qp_create_wq(struct vrb_context *ctx, struct ibv_wq_init_attr *attr,
		     const struct vrb_qp_hooks *hooks, struct vrb_qp **qp);

/*
 * Stops and frees the QP; waits until the program has acknowledged its events. Returns EBUSY while
 * the QP is attached to a multicast group or named by a flow.
 */
int vrb_qp_destroy(struct vrb_qp *qp);

/*
 * Parts of the above for XRC (xrc/open_qp.h, xrc/import.h).
 *
 * new_receiver: an XRC receive QP with the given number, in no table yet; NULL: no memory.
 * enter_domain: takes the references and adds the QP to its domain's list. init_public: fills the
 * public part of a QP or of a handle. wait_for_acks: drops undelivered events and waits for
 * acknowledgement of the others. teardown: vrb_qp_destroy() after its checks.
 */
struct vrb_qp *vrb_qp_new_receiver(struct vrb_context *ctx, struct vrb_xrcd *xrcd, uint32_t qpn,
				   const struct vrb_qp_hooks *hooks);
void vrb_qp_enter_domain(struct vrb_qp *qp);
void vrb_qp_init_public(struct vrb_qp *qp);
void vrb_qp_wait_for_acks(struct vrb_qp *qp);
void vrb_qp_teardown(struct vrb_qp *qp);
void vrb_qp_free(struct vrb_qp *qp);

#endif
