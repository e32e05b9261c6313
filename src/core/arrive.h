/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet finds its queue pair: ICRC -> decode -> QP by number -> path -> engine.  The QP is put on the receiver's list `touched`, so that one
 * answer serves a burst; core/answer.h lets them speak.  All callers hold the receiver's lock.
 */
#ifndef VRB_CORE_ARRIVE_H
#define VRB_CORE_ARRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/output.h"

struct local_pkt;
struct net_path;
struct roce_pkt;
struct vrb_qp;
struct vrb_receiver;

struct arrival {
	const struct net_path *path;
	const uint8_t *data;
	size_t len;
	bool id_known;
	uint16_t ip_id;
	bool handed;		/* by another process: goes no further */
};

/* From the wire, or from another process that got it from there. */
void vrb_arrive(const struct arrival *a, struct vrb_receiver *r, uint64_t now);

/* The QP, having `due` to say, goes on the list of those that speak at the end of the round. Must hold the receiver's lock and qp->lock. */
void vrb_touch(struct vrb_qp *qp, enum output_due due, struct vrb_receiver *r);

/* A request that an XRC QP's home had to keep back is run there. Must hold qp->lock. */
void vrb_arrive_here(struct vrb_qp *qp, const struct roce_pkt *pkt, struct vrb_receiver *r, uint64_t now);

/* From a neighbour's lane, to the main receiver. A local_recv() callback; `now` points to the time. */
void vrb_arrive_by_lane(void *now, const struct local_pkt *in);

#endif
