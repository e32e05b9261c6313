/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of the engine on its actions and their reasons, off the fast path. Recordings contain the
 * numbers: never reuse or change one, only append.
 */
#ifndef VRB_WQ_NOTE_H
#define VRB_WQ_NOTE_H

#include <stdint.h>

enum note {
	NOTE_RETRANSMIT = 1,	/* this packet is sent again */
	NOTE_TIMEOUT,		/* no answer; value: retries left */
	NOTE_NAK_SENT,		/* value: AETH syndrome; why */
	NOTE_NAK_RCVD,		/* value: AETH syndrome */
	NOTE_RNR_SENT,		/* value: AETH syndrome */
	NOTE_RNR_RCVD,		/* value: wait time, ns */
	NOTE_WINDOW,		/* of congestion control, by a quarter or more; value: packets */
	NOTE_CNP_SENT,
	NOTE_CNP_RCVD,
	NOTE_DUPLICATE,		/* a request arrived again */
	NOTE_DROP,		/* a packet had no effect; why, if known */
	/*
	 * requests were executed in the peer's memory; psn: index of the first; value: their number
	 */
	NOTE_DIRECT,
	NOTE_PROBE,		/* the oldest packet is sent again, to see whether it has arrived */
	NOTE_ERROR,		/* the QP fails; why */
	NOTE_RATE,		/* of UC and UD after CNPs; value: kbit/s, 0: no limit any more */
	NOTE_MTU,		/* the peer has another path MTU; value: its */
};

struct wq_note {
	uint32_t what;	/* enum note */
	uint32_t psn;
	uint32_t value;
	uint32_t why;	/* enum reason */
};

#endif
