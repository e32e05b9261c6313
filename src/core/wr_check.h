/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only validator of work requests, for ibv_post_send() and ibv_wr_*() alike: table-driven,
 * touches no memory but its arguments.  Keys and remote addresses are not looked at: they are found when
 * the request is executed, and complete with an error.
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
	/* All that mean something; devices ignore others. */
	WR_SEND_FLAGS = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_IP_CSUM,
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
	uint32_t num_sge;	/* SGEs or inline buffers */
	bool inline_data;
	uint64_t length;	/* sum of the payload, inline data included; FLUSH: of the range */
	const struct vrb_ah *ah;	/* UD */
	uint32_t tso_header;
	uint32_t mss;
};

/* REASON_NONE or what is wrong with the request; wr_errno() says whether posting tells it, or the completion. */
enum reason wr_check_send(const struct wr_limits *limits, const struct wr_desc *wr);

/* The same for a receive. *length gets the sum, saturated at UINT32_MAX. */
enum reason wr_check_recv(uint32_t max_sge, const struct ibv_recv_wr *wr, uint32_t *length);

/* Is the opcode legal on the type of QP at all? */
bool wr_opcode_legal(enum ibv_qp_type type, uint32_t opcode);

/* Sum of a list of SGEs, in 64 bits. */
uint64_t wr_sge_total(const struct ibv_sge *sge, uint32_t n);

/* The errno value that posting returns for a reason; 0: it is posted, and fails in its turn if there is one. */
int wr_errno(enum reason why);

#endif
