/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The consequences of a fault, as tables: at the responder by reason and service, at the requester
 * by reason or NAK code (IBTA vol 1, 9.9.2 and 9.9.3). Contains only data and lookups.
 */
#ifndef VRB_ROCE_FAULTS_H
#define VRB_ROCE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/reason.h"

/* The columns of the responder's table. */
enum roce_fault_column {
	ROCE_FAULT_RC, /* also XRC */
	ROCE_FAULT_UC,
	ROCE_FAULT_UD,
	ROCE_FAULT_COLUMNS
};

enum roce_fault_column roce_fault_column(uint8_t qp_type);

/* Actions of a responder. */
enum roce_fault_action {
	/*
	 * Class A or C: send a NAK; complete the receive in error or raise an event; move the QP to
	 * ERR.
	 */
	ROCE_FAULT_NAK,
	/* Class J: as above, but the message has arrived and is acknowledged. */
	ROCE_FAULT_ACK,
	/* As above, for a service without NAKs. */
	ROCE_FAULT_COMPLETE,
	/* Class D or E: drop the message; its receive serves the next one. */
	ROCE_FAULT_DROP,
};

struct roce_fault {
	uint8_t nak;               /* NAK code */
	enum ibv_wc_status status; /* status of the held receive */
	enum ibv_event_type event; /* when no receive is held */
	enum roce_fault_action action[ROCE_FAULT_COLUMNS];
};

/*
 * Returns the responder's row for a reason; an unknown one counts as a local fault of the
 * responder. Never NULL.
 */
const struct roce_fault *roce_fault(enum reason why);

/* Returns the status of a send request that failed locally for this reason. */
enum ibv_wc_status roce_local_status(enum reason why);

struct roce_nak_result {
	enum ibv_wc_status status;
	enum reason why;
};

/*
 * Returns the requester's row for a NAK code; NULL for a reserved code and for the PSN sequence
 * error, which is retried.
 */
const struct roce_nak_result *roce_nak_result(uint8_t code);

#endif
