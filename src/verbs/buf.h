/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers allocated for the program (release 64): pages of a memory file. So a buffer has a
 * descriptor to export, which ibv_reg_dmabuf_mr() of any process accepts like that of device
 * memory.
 */
#ifndef VRB_VERBS_BUF_H
#define VRB_VERBS_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

struct ibv_buf {
	struct ibv_pd *pd; /* the only PD in which it may be registered */
	void *addr;
	size_t size;
	int fd;
};

/* Checks whether a range may be registered as part of the buffer: returns 0 or EINVAL. */
int vrb_buf_check(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr,
		  size_t length);

bool vrb_buf_is_dmabuf(const struct ibv_buf *buf);

#endif
