/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's patience: local ack timeout, RNR wait, retry counters, and how much may be in
 * flight. The only place that sets a deadline or a window (IBTA vol 1, 9.7.6 and 9.9.2).
 */
#ifndef VRB_ROCE_RETRY_H
#define VRB_ROCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"

enum {
	/*
	 * A local ack timeout below 4.096 us * 2^10 = 4.2 ms is taken as that: the specification
	 * lets a device be coarser, and a process that is scheduled out for a few milliseconds is
	 * not a lost packet.
	 */
	ROCE_TIMEOUT_FLOOR = 10,

	/*
	 * Unacknowledged requests: 128 KiB of payload, which a socket buffer of usual size can
	 * hold, within these bounds.
	 */
	ROCE_WINDOW_BYTES = 128 * 1024,
	ROCE_WINDOW_MIN = 4,
	ROCE_WINDOW_MAX = 256,

	/*
	 * Packets that leave at one point in time.  Windows keep RC well below it; the answer to a
	 * huge READ of another implementation, or a huge UC message, must not keep the caller in
	 * its loop for seconds.
	 */
	ROCE_BURST_MAX = 1024,
};

/*
 * Without an answer the oldest packet is sent again after so many round trips, and this time at
 * least; then after twice that, and so on up to this part of the ack timeout.
 */
#define ROCE_PROBE_RTTS 3
#define ROCE_PROBE_MIN	VRB_MSEC
#define ROCE_PROBE_PART 4

/* Why packets are sent again. */
enum roce_retry_cause {
	ROCE_RETRY_TIMEOUT, /* nothing came within the local ack timeout */
	ROCE_RETRY_NAK,     /* NAK PSN sequence error */
	ROCE_RETRY_GAP,     /* something behind a missing answer: an implied NAK */
	ROCE_RETRY_CAUSES
};

/* The largest window for the QP's MTU. */
uint32_t roce_window_limit(const struct roce_qp *qp);

void roce_retry_start(struct roce_qp *qp); /* full counters, no timer */
void roce_retry_stop(struct roce_qp *qp);  /* no timer */
void roce_retry_sent(struct roce_qp *qp, uint64_t now);
void roce_retry_progress(struct roce_qp *qp, uint32_t psns, uint64_t now);

/* Goes back to the oldest unacknowledged PSN, or fails the QP when the retries are used up. */
void roce_retry(struct roce_qp *qp, enum roce_retry_cause cause, uint64_t now);

/* The same for an RNR NAK: sending resumes when the peer's timer has run. */
void roce_retry_rnr(struct roce_qp *qp, uint8_t timer, uint64_t now);

/* May another packet leave now? If not, the burst goes on a moment later. */
bool roce_burst_allows(struct roce_qp *qp, uint64_t now);
void roce_burst_reset(struct roce_qp *qp);

uint64_t roce_retry_next(const struct roce_qp *qp);
void roce_retry_expire(struct roce_qp *qp, uint64_t now);

#endif
