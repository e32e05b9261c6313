/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message: a SEND of an RC queue pair that travels within the host without packet headers. It
 * stands for the one packet that would carry it (docs/MESSAGES.md). The engine makes it of a
 * request and a packet of it; the local transport carries it.
 */
#ifndef VRB_WQ_MESSAGE_H
#define VRB_WQ_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum message_op {
	MESSAGE_SEND,
	MESSAGE_SEND_IMM,
	MESSAGE_SEND_INV,
	MESSAGE_OPS
};

struct message {
	uint32_t qpn;		/* destination; 24 bits */
	uint32_t psn;		/* 24 bits */
	uint32_t imm;		/* big endian immediate, or the rkey to invalidate */
	uint8_t op;		/* enum message_op */
	bool solicited;
	uint32_t len;		/* of the payload */
	const uint8_t *payload;
};

#endif
