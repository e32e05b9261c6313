/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only validator of work requests, for ibv_post_send() and ibv_wr_*() alike: table-driven,
 * touches no memory but its arguments. Keys are not looked at: a bad key is found when the request
 * is executed, and completes with an error.
 */
#ifndef VRB_CORE_WR_CHECK_H
#define VRB_CORE_WR_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/reason.h"

struct vrb_ah;

enum {
	WR_OPCODES = IBV_WR_ATOMIC_WRITE + 1,
	VRB_MAX_TSO = 1 << 18,	/* payload of a segmented send */
	VRB_MAX_TSO_HEADER = 256,
};

/* What a QP allows; filled once at creation, the MTU when the path is set. */
struct wr_limits {
	uint8_t qp_type;	/* enum ibv_qp_type */
	uint8_t max_rd_atomic;	/* as requester */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t max_msg;
	uint32_t mtu;
	uint32_t pdn;		/* of the address handles it may use */
	uint32_t max_tso_header;
};

/* A work request in one form, whoever posted it. */
struct wr_desc {
	uint32_t opcode;
	uint32_t flags;		/* IBV_SEND_* */
	uint32_t num_sge;	/* SGEs or inline buffers */
	bool inline_data;
	uint64_t length;	/* sum of the payload, inline data included; FLUSH: of the range */
	uint64_t remote_addr;
	const struct vrb_ah *ah;	/* UD */
	uint32_t remote_qpn;	/* UD */
	uint32_t tso_header;
	uint32_t mss;
};

/* REASON_NONE or why the request may not be posted. */
enum reason wr_check_send(const struct wr_limits *limits, const struct wr_desc *wr);

/* The same for a receive. *length gets the sum, saturated at UINT32_MAX. */
enum reason wr_check_recv(uint32_t max_sge, const struct ibv_recv_wr *wr, uint32_t *length);

/* Is the opcode legal on the type of QP at all? */
bool wr_opcode_legal(enum ibv_qp_type type, uint32_t opcode);

/* Sum of a list of SGEs, in 64 bits. */
uint64_t wr_sge_total(const struct ibv_sge *sge, uint32_t n);

/* The errno value that posting returns for a reason. */
int wr_errno(enum reason why);

#endif
