/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A responder's state in a portable form: all that another engine needs to continue where this one
 * stopped. For XRC receive QPs, whose requests run in the process that owns the shared receive
 * queue they name (docs/XRC.md).
 *
 * Pending output (an ACK, READ responses) is not included: it was sent before, or is lost. Only a
 * fatal NAK is included; the engine that gets the state back sends it once.
 */
#ifndef VRB_ROCE_SNAPSHOT_H
#define VRB_ROCE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/engine.h"

/* Followed by n_rd entries of struct roce_rd_atomic. */
struct roce_snapshot {
	uint32_t epsn, msn;
	uint64_t psns;
	uint64_t va;
	uint32_t rkey, resid, received;
	uint32_t rd_next;
	uint32_t n_rd;		/* 0: all resources are free */
	uint8_t state;		/* enum ibv_qp_state */
	uint8_t msg;		/* enum roce_msg: a message is in progress */
	uint8_t nak_sent, established;
	uint32_t rd_pending;		/* READs and atomics without their answers */
	uint32_t ack_psn;
	uint32_t last_psn;	/* of the fatal NAK */
	uint8_t fatal_nak;	/* syndrome of a pending NAK; 0: none */
	uint8_t pull_refused;
	uint16_t packet;	/* packet size of the message in progress, in bytes */
	struct roce_counters counters;
};

#define ROCE_SNAPSHOT_MAX \
	(sizeof(struct roce_snapshot) + ROCE_MAX_RD_ATOMIC * sizeof(struct roce_rd_atomic))

/* Writes the state of an engine to buf (ROCE_SNAPSHOT_MAX bytes) and returns its length. */
size_t roce_snapshot_take(const struct roce_qp *qp, void *buf);

/* The same without the message in progress: for an engine that only answers what comes again. */
size_t roce_snapshot_take_idle(const struct roce_qp *qp, void *buf);

/* Drops the message in progress and its held receive, without a completion. */
void roce_snapshot_abandon(struct roce_qp *qp);

/*
 * Makes an engine, which must hold no receive, continue from a snapshot; a snapshot in ERR moves it
 * to ERR. Returns false, changing nothing, if the snapshot is invalid.
 */
bool roce_snapshot_restore(struct roce_qp *qp, const void *buf, size_t len);

/* Returns true if the peer waits for nothing: no message has begun, and no output is pending. */
bool roce_snapshot_quiet(const struct roce_qp *qp);

/* Would roce_output() return an answer now? */
bool roce_snapshot_has_output(const struct roce_qp *qp);

/*
 * Is the fatal NAK the only pending output? A snapshot contains it, and the process that receives
 * the snapshot sends it instead of this engine.
 */
bool roce_snapshot_has_fatal_nak(const struct roce_qp *qp);
void roce_snapshot_nak_handed_over(struct roce_qp *qp);

/* The process that ran the responder died mid-message: sends a NAK and fails the QP. */
void roce_snapshot_lost(struct roce_qp *qp);

/* It died between messages: sends a NAK that makes the peer send its unanswered requests again. */
void roce_snapshot_ask_again(struct roce_qp *qp);

/*
 * Does the QP accept this packet at all (service, P_Key, sender)? Follows the peer's path
 * migration. For a packet that another engine will execute.
 */
bool roce_admit(struct roce_qp *qp, const struct roce_pkt *pkt);

#endif
