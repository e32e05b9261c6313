/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What follows from a fault, as tables: at the responder by reason and service, at the requester by
 * reason or NAK code (IBTA vol 1, 9.9.2 and 9.9.3).  No code, only data and its look-up.
 */
#ifndef VRB_ROCE_FAULTS_H
#define VRB_ROCE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/reason.h"

/* The columns of the responder's table. */
enum roce_fault_column {
	ROCE_FAULT_RC, /* and XRC */
	ROCE_FAULT_UC,
	ROCE_FAULT_UD,
	ROCE_FAULT_COLUMNS
};

enum roce_fault_column roce_fault_column(uint8_t qp_type);

/* What a responder does. */
enum roce_fault_action {
	/* Class A or C: NAK; the receive is completed in error, or an event raised; QP to ERR. */
	ROCE_FAULT_NAK,
	/* Class J: the same, but the message has arrived, and is acknowledged. */
	ROCE_FAULT_ACK,
	/* The same for a service without NAKs. */
	ROCE_FAULT_COMPLETE,
	/* Class D or E: the message is dropped, its receive serves the next one. */
	ROCE_FAULT_DROP,
};

struct roce_fault {
	uint8_t nak;               /* NAK code */
	enum ibv_wc_status status; /* of the receive held */
	enum ibv_event_type event; /* when no receive is held */
	enum roce_fault_action action[ROCE_FAULT_COLUMNS];
};

/*
 * The responder's row for a reason; an unknown one is a local fault of the responder.
 * Never NULL.
 */
const struct roce_fault *roce_fault(enum reason why);

/* Status of a send request that failed locally for this reason. */
enum ibv_wc_status roce_local_status(enum reason why);

struct roce_nak_result {
	enum ibv_wc_status status;
	enum reason why;
};

/*
 * What a NAK code means to the requester; NULL for a reserved code and for the PSN sequence error,
 * which is retried.
 */
const struct roce_nak_result *roce_nak_result(uint8_t code);

#endif
