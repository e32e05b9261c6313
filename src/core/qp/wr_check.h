/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only validator of work requests, for ibv_post_send() and ibv_wr_*() alike. Table-driven;
 * accesses no memory but its arguments. It ignores keys and remote addresses: errors in those are
 * detected at execution and reported in the completion.
 */
#ifndef VRB_CORE_QP_WR_CHECK_H
#define VRB_CORE_QP_WR_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "util/compiler.h"
#include "wq/reason.h"

struct vrb_ah;

enum {
	/* All flags with a meaning; others are ignored, as devices do. */
	WR_SEND_FLAGS = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE |
		IBV_SEND_IP_CSUM,
	WR_OPCODES = IBV_WR_ATOMIC_WRITE + 1,
};

/* Limits of a QP. Set at creation, the MTU when the path is set. */
struct wr_limits {
	uint8_t qp_type;	/* enum ibv_qp_type */
	uint8_t max_rd_atomic;	/* as requester */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t max_msg;
	uint32_t mtu;
	uint32_t pdn;		/* PD of the address handles that the QP may use */
	uint32_t max_tso_header;
};

/* A work request in the common form of all posting calls. */
struct wr_desc {
	uint32_t opcode;
	uint32_t num_sge;	/* SGEs or inline buffers */
	bool inline_data;
	uint64_t length;	/* total payload, including inline data; FLUSH: of the range */
	const struct vrb_ah *ah;	/* UD */
	uint32_t tso_header;
	uint32_t mss;
};

/*
 * Returns REASON_NONE or the error in the request; wr_errno() tells whether posting or the
 * completion reports it.
 */
enum reason wr_check_send(const struct wr_limits *limits, const struct wr_desc *wr);

/* As wr_check_send(), for a receive. *length is the total, saturated at UINT32_MAX. */
enum reason wr_check_recv(uint32_t max_sge, const struct ibv_recv_wr *wr, uint32_t *length);

/* Is the opcode legal on the QP type? */
bool wr_opcode_legal(enum ibv_qp_type type, uint32_t opcode);

/* Total length of a list of SGEs. */
static inline uint64_t wr_sge_total(const struct ibv_sge *sge, uint32_t n)
{
	uint64_t total = 0;

	if (likely(n == 1))
		return sge->length;
	for (uint32_t i = 0; i < n; i++)
		total += sge[i].length;
	return total;
}

/*
 * The errno that posting returns for a reason; 0: the request is posted, and its completion reports
 * the error, if any.
 */
int wr_refusal(enum reason why);

static inline int wr_errno(enum reason why)
{
	return why ? wr_refusal(why) : 0;
}

#endif
