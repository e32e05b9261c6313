/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_reg_mr_ex() (release 59): one call for all kinds of memory, selected by comp_mask. Forwards
 * to the older calls. No state.
 */
#include <errno.h>
#include <stdint.h>

#include "verbs/answer.h"
#include "verbs/buf.h"
#include "verbs/tap.h"

#define KNOWN_MASK                                                                                 \
	(IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |                        \
	 IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_BUF)
#define DMABUF_MASK (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA)

/* Checks the members that each kind of memory requires and permits. */
static int check(const struct ibv_pd *pd, const struct ibv_mr_init_attr *attr)
{
	const uint64_t mask = attr->comp_mask & ~(uint64_t)IBV_REG_MR_MASK_DMAH;

	if (mask & ~(uint64_t)KNOWN_MASK)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_REG_MR_MASK_DMAH &&
	    (!attr->dmah || attr->dmah->context != pd->context))
		return EINVAL;
	/* A hint requires pages that do not move. */
	if (attr->comp_mask & IBV_REG_MR_MASK_DMAH && attr->access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (mask & IBV_REG_MR_MASK_BUF) {
		if ((mask & ~(uint64_t)IBV_REG_MR_MASK_IOVA) !=
		    (IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR))
			return EINVAL;
		if (vrb_buf_check(attr->buf, pd, attr->addr, attr->length))
			return EINVAL;
		/* A dma-buf's iova is the buffer's address. */
		return mask & IBV_REG_MR_MASK_IOVA && vrb_buf_is_dmabuf(attr->buf) ? EINVAL : 0;
	}
	if (mask & IBV_REG_MR_MASK_ADDR)
		return mask & ~(uint64_t)(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA) ? EINVAL : 0;
	return mask == DMABUF_MASK ? 0 : EINVAL;
}

static struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	int err = pd && attr ? check(pd, attr) : EINVAL;
	uint64_t iova;

	if (err)
		return answer_null(err);
	if (attr->comp_mask & IBV_REG_MR_MASK_FD)
		return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					 attr->access);
	iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA ? attr->iova : (uintptr_t)attr->addr;
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned int)attr->access);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	return TAP_POINTER(reg_mr_ex, pd, attr);
}
