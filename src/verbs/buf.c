/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_alloc_buf() and related calls. Immutable objects, no locks. */
#include "verbs/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem/pd.h"
#include "util/file_room.h"
#include "verbs/answer.h"

/* Fills in the memory of `b`, whose size is set: 0 or an errno value. */
static int make_memory(struct ibv_buf *b)
{
	int err;

	b->fd = memfd_create("verbena-buf", MFD_CLOEXEC);
	if (b->fd < 0)
		return errno;
	err = file_resize(b->fd, b->size) ? ENOMEM : 0;
	if (!err) {
		b->addr = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
		err = b->addr == MAP_FAILED ? errno : 0;
	}
	if (err)
		close(b->fd);
	return err;
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
	struct ibv_buf *b;
	int err;

	if (!pd || !buf)
		return answer_null(EINVAL);
	if (!size || size > SSIZE_MAX)
		return answer_null(size ? ENOMEM : EINVAL);
	b = malloc(sizeof(*b));
	if (!b)
		return NULL;
	b->pd = pd;
	b->size = size;
	err = make_memory(b);
	if (err) {
		free(b);
		return answer_null(err);
	}
	*buf = b;
	return b->addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	if (!buf)
		return;
	munmap(buf->addr, buf->size);
	close(buf->fd);
	free(buf);
}

int vrb_buf_check(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr,
		  size_t length)
{
	uintptr_t offset;

	if (!buf)
		return EINVAL;
	offset = (uintptr_t)addr - (uintptr_t)buf->addr;
	if (buf->pd != pd || offset > buf->size || length > buf->size - offset)
		return EINVAL;
	return 0;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	int err = vrb_buf_check(buf, pd, addr, length);

	if (err)
		return answer_null(err);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/*
 * In rdma-core, a plain domain's buffers are ordinary memory; buffers that are dma-bufs belong to
 * parent domains.
 */
bool vrb_buf_is_dmabuf(const struct ibv_buf *buf)
{
	return to_vrb_pd(buf->pd)->parent;
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	if (!buf)
		return answer_minus(EINVAL);
	if (!vrb_buf_is_dmabuf(buf))
		return answer_minus(ENODATA);
	return fcntl(buf->fd, F_DUPFD_CLOEXEC, 0);
}
