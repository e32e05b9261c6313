/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log of the events of a simulated run, kept in a ring and printed only when the run fails.
 * tests/sim/README.md explains how to read it.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/pkt.h"
#include "wq/qp.h"

enum trace_kind {
	TRACE_SEND,     /* packet handed to the network */
	TRACE_RECV,     /* packet handed to a QP */
	TRACE_LOST,     /* the network dropped it */
	TRACE_DUP,      /* the network made a copy */
	TRACE_FLIPPED,  /* the network damaged it */
	TRACE_FULL,     /* the switch port's buffer was full */
	TRACE_BAD_ICRC, /* the receiver dropped it */
	TRACE_NO_QP,    /* no such QP */
	TRACE_POST_SEND,
	TRACE_POST_RECV,
	TRACE_CQE,
	TRACE_EVENT,
	TRACE_TIMEOUT,
	TRACE_STATE,
};

struct trace_rec {
	uint64_t time;
	uint64_t serial;	/* of the packet, or wr_id */
	uint8_t kind;
	uint8_t host;
	uint8_t opcode;
	uint8_t syndrome;
	bool ack_req, solicited, recv;
	uint32_t qpn;
	uint32_t psn;
	uint32_t len;
	uint32_t msn;
	uint32_t status;
	uint32_t reason;
};

#define TRACE_SIZE 8192

struct trace {
	uint64_t count;
	struct trace_rec rec[TRACE_SIZE];
};

void trace_packet(struct trace *t, uint64_t now, enum trace_kind kind, unsigned int host,
		  uint64_t serial, const struct roce_pkt *pkt);
void trace_cqe(struct trace *t, uint64_t now, unsigned int host, uint32_t qpn,
	       const struct wq_cqe *cqe);
void trace_note(struct trace *t, uint64_t now, enum trace_kind kind, unsigned int host,
		uint32_t qpn, uint64_t serial, uint32_t status, uint32_t len);

/* Prints the last 200 records to stderr, or the last $VERBENA_LOG. */
void trace_print(const struct trace *t);

/* True if the packet has an AETH: an ACK, or a response that acknowledges too. */
bool trace_has_aeth(uint8_t opcode);

/* Name of an enum ibv_wc_status without its prefix. */
const char *trace_status(uint32_t status);

#endif
