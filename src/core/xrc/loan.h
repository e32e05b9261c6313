/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The home of an XRC receive QP: requests that name an SRQ of another process go there, together with the state of the responder, which is
 * on loan to that process meanwhile; docs/XRC.md.
 *
 * Everything here is under qp->lock; what receives also under vrb.drive.
 */
#ifndef VRB_CORE_XRC_LOAN_H
#define VRB_CORE_XRC_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"

struct roce_pkt;
struct vrb_qp;
struct xrc_config;
struct vrb_receiver;
struct xrc_msg;

/* A decoded packet, and its bytes with the ICRC or room for it. */
struct vrb_raw {
	const struct roce_pkt *pkt;
	const uint8_t *data;
	size_t len;
};

/* Takes a request that is not this process's to run; false: it is. */
bool vrb_loan_takes(struct vrb_qp *qp, const struct vrb_raw *raw, struct vrb_receiver *r, uint64_t now);

/* The configuration of the QP was changed, perhaps its state. */
void vrb_loan_changed(struct vrb_qp *qp);

/* The QP goes away. */
void vrb_loan_drop(struct vrb_qp *qp);

/* Is the state here, and no message begun? If its process has died, it is. */
bool vrb_loan_settled(struct vrb_qp *qp, uint64_t now);

/* The configuration of a QP as others need it, whether it makes sense for one that receives, and putting it in force elsewhere. */
struct xrc_config vrb_loan_config(const struct vrb_qp *qp);
bool vrb_loan_config_ok(const struct xrc_config *c);
void vrb_loan_configure(struct vrb_qp *qp, const struct xrc_config *c);

/* New READ and atomic resources for it. False: no memory. */
bool vrb_loan_make_resources(struct vrb_qp *qp, uint32_t n);

/* An answer, or an event, from the process that has the loan. Takes the lock of the QP that it is for. */
void vrb_loan_receive(const struct xrc_msg *m, struct vrb_receiver *r, uint64_t now);

#endif
