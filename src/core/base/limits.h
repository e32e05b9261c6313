/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capabilities and limits of every device. Each object enforces its own limits.
 */
#ifndef VRB_CORE_BASE_LIMITS_H
#define VRB_CORE_BASE_LIMITS_H

#include <stdint.h>

#include <infiniband/verbs.h>

extern const struct ibv_device_attr_ex vrb_device_limits;

enum {
	VRB_PORT_NUM = 1,
	VRB_COMP_VECTORS = 4,	/* nominal: one progress thread serves all CQs */
	VRB_MAX_TSO = 1 << 18,	/* payload of a segmented send */
	VRB_MAX_TSO_HEADER = 512,
	VRB_RATE_MIN = 1,	/* kbit/s; range of a QP's pacing rate */
	VRB_RATE_MAX = 400000000,
	VRB_MAX_RWQ_TABLES = 1 << 16,
	VRB_MAX_RWQ_TABLE_SIZE = 1 << 9,
	TM_MAX_OPS = 1 << 16,
	TM_MAX_REQUEST = 256,	/* a rendezvous request fits one packet at any path MTU */
};

/* Limits not reported in device attributes. */
#define VRB_MAX_INLINE 4096u
#define VRB_MAX_MSG    0x80000000u

#endif
