/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls from lower rooms into XRC between processes. vrb.xrc is set before the first packet can
 * arrive, so callers need no NULL check.
 */
#ifndef VRB_CORE_BASE_XRC_OPS_H
#define VRB_CORE_BASE_XRC_OPS_H

#include <stddef.h>
#include <stdint.h>

struct vrb_cq;
struct vrb_rx_queue;
struct vrb_srq;
struct xrc_domain;

struct vrb_xrc_ops {
	/* A message from another process has arrived. Called under vrb.poll_lock. */
	void (*message)(const uint8_t *data, size_t len, struct vrb_rx_queue *r, uint64_t now);
	/*
	 * A CQ has overrun: fails the QPs that complete to it and are not in the QP table. Called
	 * under vrb.poll_lock.
	 */
	void (*cq_overrun)(struct vrb_cq *cq, uint64_t now);
	/* This process has closed its last handle of the domain. Takes vrb.poll_lock. */
	void (*domain_closed)(struct xrc_domain *domain);
	/*
	 * An SRQ is to be destroyed, but messages in progress have taken an entry of it: they end
	 * without a completion. Takes vrb.poll_lock.
	 */
	void (*abandon)(struct vrb_srq *srq);
};

#endif
