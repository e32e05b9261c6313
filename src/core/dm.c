/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: anonymous pages of the library; ctx->lock protects the list and the sum. */
#include "core/dm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/process.h"
#include "util/atomic.h"

enum { MAX_LOG_ALIGN = 21 };

static uint32_t last_handle;	/* atomic */

static bool in_range(const struct vrb_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t offset, const void *src, size_t length)
{
	struct vrb_dm *dm = to_vrb_dm(ibdm);

	if (!in_range(dm, offset, length))
		return EFAULT;
	memcpy(dm->mem + offset, src, length);
	return 0;
}

static int copy_from(void *dst, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct vrb_dm *dm = to_vrb_dm(ibdm);

	if (!in_range(dm, offset, length))
		return EFAULT;
	memcpy(dst, dm->mem + offset, length);
	return 0;
}

/* Counts bytes of the context's share. */
static bool charge(struct vrb_context *ctx, uint64_t bytes)
{
	bool ok;

	pthread_mutex_lock(&ctx->lock);
	ok = bytes <= vrb_device_limits.max_dm_size - ctx->dm_bytes;
	if (ok)
		ctx->dm_bytes += bytes;
	pthread_mutex_unlock(&ctx->lock);
	return ok;
}

static void enlist(struct vrb_context *ctx, struct vrb_dm *dm, uint32_t handle)
{
	dm->ibv.context = &ctx->vctx.context;
	dm->ibv.memcpy_to_dm = copy_to;
	dm->ibv.memcpy_from_dm = copy_from;
	dm->ibv.handle = handle;
	pthread_mutex_lock(&ctx->lock);
	list_add_tail(&ctx->dms, &dm->node);
	pthread_mutex_unlock(&ctx->lock);
}

static void delist(struct vrb_context *ctx, struct vrb_dm *dm)
{
	pthread_mutex_lock(&ctx->lock);
	list_del(&dm->node);
	if (!dm->origin)
		ctx->dm_bytes -= dm->length;
	pthread_mutex_unlock(&ctx->lock);
}

int vrb_dm_alloc(struct vrb_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vrb_dm **out)
{
	size_t align = max((size_t)1 << min(attr->log_align_req, MAX_LOG_ALIGN + 1u), (size_t)64);
	struct vrb_dm *dm;
	void *mem;

	if (attr->comp_mask || !attr->length || attr->log_align_req > MAX_LOG_ALIGN)
		return EINVAL;
	if (attr->length > vrb_device_limits.max_dm_size || !charge(ctx, attr->length))
		return ENOMEM;
	dm = calloc(1, sizeof(*dm));
	if (!dm || posix_memalign(&mem, align, attr->length)) {
		free(dm);
		pthread_mutex_lock(&ctx->lock);
		ctx->dm_bytes -= attr->length;
		pthread_mutex_unlock(&ctx->lock);
		return ENOMEM;
	}
	memset(mem, 0, attr->length);
	dm->mem = mem;
	dm->length = attr->length;
	enlist(ctx, dm, fetch_add_relaxed(&last_handle, 1) + 1);
	*out = dm;
	return 0;
}

int vrb_dm_free(struct vrb_dm *dm)
{
	if (load_acquire(&dm->users))
		return EBUSY;
	if (dm->origin)
		fetch_sub_release(&dm->origin->users, 1);
	delist(to_vrb_context(dm->ibv.context), dm);
	if (!dm->origin)
		free(dm->mem);
	free(dm);
	return 0;
}

static struct vrb_dm *find(struct vrb_context *c, uint32_t handle)
{
	struct vrb_dm *found = NULL;
	struct list *pos;

	pthread_mutex_lock(&c->lock);
	list_for_each (pos, &c->dms) {
		struct vrb_dm *dm = list_entry(pos, struct vrb_dm, node);

		if (dm->ibv.handle == handle && !dm->origin) {
			fetch_add_relaxed(&dm->users, 1);
			found = dm;
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* The owner of a handle in ctx or a context that shares its command file, with a user counted. */
static struct vrb_dm *find_shared(struct vrb_context *ctx, uint32_t handle)
{
	struct vrb_dm *dm = NULL;
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);

		if (c->cmd_dev == ctx->cmd_dev && c->cmd_ino == ctx->cmd_ino)
			dm = find(c, handle);
		if (dm)
			break;
	}
	pthread_mutex_unlock(&vrb.lock);
	return dm;
}

int vrb_dm_import(struct vrb_context *ctx, uint32_t handle, struct vrb_dm **out)
{
	struct vrb_dm *origin = find_shared(ctx, handle), *dm;

	if (!origin)
		return ENOENT;
	dm = calloc(1, sizeof(*dm));
	if (!dm) {
		fetch_sub_release(&origin->users, 1);
		return ENOMEM;
	}
	dm->origin = origin;
	dm->mem = origin->mem;
	dm->length = origin->length;
	enlist(ctx, dm, handle);
	*out = dm;
	return 0;
}

/* Regions over the imported handle keep it: they are refused by free, and here by doing nothing until the last is gone. */
void vrb_dm_unimport(struct vrb_dm *dm)
{
	if (dm->origin)
		vrb_dm_free(dm);
}
