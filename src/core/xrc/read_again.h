/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A READ that comes again, because its responses were lost, while the responder's state cannot move
 * to the owner of the SRQ that it names: a message is in progress elsewhere. The requester may send
 * nothing else until it has the responses. So the owner gets a copy of the state, only to answer
 * this READ; what it returns is sent, and its state ignored.
 *
 * One per delegation, under qp->lock. A later READ, or a delegation to the same process, replaces
 * it; the READ then comes again.
 */
#ifndef VRB_CORE_XRC_READ_AGAIN_H
#define VRB_CORE_XRC_READ_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/xrc/msg.h"

struct rx_decoded;
struct vrb_qp;

struct xrc_read_again {
	struct xrc_peer to;	/* slot HOST_NO_SLOT: nobody */
	uint32_t epoch;
};

/* Is it a READ that the QP has executed? */
bool xrc_read_comes_again(const struct vrb_qp *qp, const struct rx_decoded *raw);

/* Sends it to the SRQ's owner, in `slot`; or loses it. state: a buffer of ROCE_SNAPSHOT_MAX. */
void xrc_read_again_send(struct xrc_read_again *a, struct vrb_qp *qp, int slot, uint32_t epoch,
			 const struct rx_decoded *raw, void *state);

/* Is the answer one to that READ? */
bool xrc_read_again_sent(const struct xrc_read_again *a, const struct xrc_msg *m);

#endif
