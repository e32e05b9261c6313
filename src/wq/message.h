/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message: a SEND or WRITE with immediate of an RC queue pair that travels within the host
 * without packet headers. It replaces the single packet that would carry it, or that would tell the
 * receiver where to fetch its payload (docs/MESSAGES.md). The engine converts a request to a
 * message, and a message to a packet; the local transport carries it.
 */
#ifndef VRB_WQ_MESSAGE_H
#define VRB_WQ_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum message_op {
	MESSAGE_SEND,
	MESSAGE_SEND_IMM,
	MESSAGE_SEND_INV,
	MESSAGE_WRITE_IMM,
	MESSAGE_OPS
};

enum message_flags {
	MESSAGE_SOLICITED = 1,
	/* longer than the sender's MTU: no packet could carry it, and it has one PSN */
	MESSAGE_WHOLE = 2,
};

struct message {
	uint32_t qpn;		/* destination; 24 bits */
	uint32_t psn;		/* 24 bits */
	uint32_t imm;		/* big endian immediate, or the rkey to invalidate */
	uint8_t op;		/* enum message_op */
	uint8_t flags;		/* enum message_flags */
	bool signaled;		/* its sender wants the completion; not carried */
	uint32_t rkey;		/* MESSAGE_WRITE_IMM: where the payload goes */
	uint64_t va;
	uint32_t len;		/* length of the payload */
	const uint8_t *payload;
};

#endif
