/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket filter that drops requests of communication management (REQ, SIDR_REQ to QP 1) at
 * random, before they take room in the receive buffer: answers of the same protocol and data pass.
 */
#ifndef VRB_WIRE_ADMIT_H
#define VRB_WIRE_ADMIT_H

#include <stddef.h>

struct sock_filter;

enum {
	ADMIT_ALL = 256,
	ADMIT_INSNS = 12,
};

/*
 * Lets `keep` of ADMIT_ALL requests pass.  prog: ADMIT_INSNS of them.  Returns how many it wrote.
 */
size_t admit_build(unsigned int keep, struct sock_filter *prog);

#endif
