/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of an rdma_cm id as `verbena ps` and `rdma resource show cm_id` display it; librdmacm fills
 * it and passes it through libibverbs.
 */
#ifndef VRB_CM_SHOWN_H
#define VRB_CM_SHOWN_H

#include <stdint.h>

#include "util/net.h"

struct cm_shown {
	const char *device;	/* "": no device, or all */
	const char *state;	/* the kernel's name for it */
	const char *exchange;	/* state of the engine; "" before the first message */
	uint32_t port_space;	/* enum rdma_port_space */
	int qp_type;		/* enum ibv_qp_type */
	uint32_t qpn;		/* 0: none yet */
	struct net_addr src, dst;	/* zero: any, or not bound or resolved yet */
	uint16_t src_port, dst_port;
};

typedef void (*cm_show_fn)(void *to, const struct cm_shown *id);

#endif
