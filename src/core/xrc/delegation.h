/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delegation of an XRC receive QP's responder. The QP's home forwards requests that name an SRQ of
 * another process to that process, together with the responder's state; docs/XRC.md.
 *
 * Must hold qp->lock. Functions that handle received packets or messages also run under
 * vrb.poll_lock.
 */
#ifndef VRB_CORE_XRC_DELEGATION_H
#define VRB_CORE_XRC_DELEGATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vrb_qp;
struct rx_decoded;
struct xrc_config;
struct vrb_rx_queue;
struct xrc_msg;

/* Forwards a request that another process must execute, or queues it; false: execute it here. */
bool vrb_delegation_redirect(struct vrb_qp *qp, const struct rx_decoded *raw,
			     struct vrb_rx_queue *r, uint64_t now);

/* Tries the parked requests again. */
void vrb_delegation_expired(struct vrb_qp *qp, uint64_t now);

/* Called after the QP's configuration or state has changed. */
void vrb_delegation_modified(struct vrb_qp *qp);

/* Revokes and frees the delegation, if any. */
void vrb_delegation_free(struct vrb_qp *qp);

/*
 * When the QP's home moves: revokes the delegation; then, once another process has the QP, hands
 * over the packets that have waited for that.
 */
void vrb_delegation_end(struct vrb_qp *qp);
void vrb_delegation_hand_over(struct vrb_qp *qp);

/*
 * Is the state up to date here, with no request unanswered and no message in progress? Takes the
 * state back if the process that had it has died.
 */
bool vrb_delegation_settled(struct vrb_qp *qp, uint64_t now);

/* Does another process have a request to execute? */
bool vrb_delegation_unanswered(const struct vrb_qp *qp);

/* A number that changes as the requests make progress. */
uint64_t vrb_delegation_progress(const struct vrb_qp *qp);

/* Is the process stopped that is to make it: the one above, or else the requester? */
bool vrb_delegation_stopped(const struct vrb_qp *qp);

/* Get, validate and apply the configuration of a remote responder. */
struct xrc_config vrb_delegation_config(const struct vrb_qp *qp);
bool vrb_delegation_config_ok(const struct xrc_config *c);
void vrb_delegation_configure(struct vrb_qp *qp, const struct xrc_config *c);

/* Replaces the QP's READ and atomic resources. False: out of memory. */
bool vrb_delegation_make_resources(struct vrb_qp *qp, uint32_t n);

/* Handles an answer or event from the remote responder. Takes qp->lock of its QP. */
void vrb_delegation_receive(const struct xrc_msg *m, struct vrb_rx_queue *r, uint64_t now);

#endif
