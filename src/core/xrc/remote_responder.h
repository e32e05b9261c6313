/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote responders: they execute the requests that name SRQs of this process, for an XRC receive
 * QP whose home is another process; docs/XRC.md.
 *
 * A remote responder is a vrb_qp without its public part. It has the number of the QP it represents
 * and is not in the QP table.
 */
#ifndef VRB_CORE_XRC_REMOTE_RESPONDER_H
#define VRB_CORE_XRC_REMOTE_RESPONDER_H

#include <stdint.h>

struct vrb_cq;
struct vrb_srq;
struct xrc_domain;
struct vrb_rx_queue;
struct xrc_msg;

/* Handles a message from a home. Must hold vrb.poll_lock. */
void vrb_responder_receive(const struct xrc_msg *m, struct vrb_rx_queue *r, uint64_t now);

/* Fails the responders that complete to an overrun CQ. Must hold vrb.poll_lock. */
void vrb_responder_fail_users(struct vrb_cq *cq, uint64_t now);

/* Called when this process has closed its last handle of the domain. Takes vrb.poll_lock. */
void vrb_responder_forget_domain(struct xrc_domain *d);

/*
 * Ends, without completions, the messages that have taken an entry of the SRQ. Frees responders
 * whose home has died; flushes their receive WQEs. Takes vrb.poll_lock.
 */
void vrb_responder_abandon(struct vrb_srq *srq);

/* Free all responders at process shutdown; forget the parent's in a forked child. */
void vrb_responder_free_all(void);
void vrb_responder_forget_all(void);

#endif
