/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers made for the program (release 64): pages of a file in memory, so that a buffer has a
 * descriptor to hand out, which ibv_reg_dmabuf_mr() of any process takes as it takes that of device
 * memory.
 */
#ifndef VRB_VERBS_BUF_H
#define VRB_VERBS_BUF_H

#include <stddef.h>

#include <infiniband/verbs.h>

struct ibv_buf {
	struct ibv_pd *pd; /* the only one it may be registered in */
	void *addr;
	size_t size;
	int fd;
};

/* Whether a range may be registered as part of the buffer: 0 or EINVAL. */
int vrb_buf_check(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr,
		  size_t length);

#endif
