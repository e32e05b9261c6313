/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory. ctx->lock protects the list and the byte count. */
#include "core/mem/dm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "util/atomic.h"

enum {
	MAX_LOG_ALIGN = 21,
	COPY_UNIT = 4,	/* as on mlx5: programs copy whole words */
};

static uint32_t last_handle; /* atomic */

static bool in_range(const struct vrb_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

static bool can_copy(const struct vrb_dm *dm, uint64_t offset, size_t length)
{
	return in_range(dm, offset, length) && (offset | length) % COPY_UNIT == 0;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t offset, const void *src, size_t length)
{
	struct vrb_dm *dm = to_vrb_dm(ibdm);

	if (!can_copy(dm, offset, length))
		return EINVAL;
	memcpy(dm->mem + offset, src, length);
	return 0;
}

static int copy_from(void *dst, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct vrb_dm *dm = to_vrb_dm(ibdm);

	if (!can_copy(dm, offset, length))
		return EINVAL;
	memcpy(dst, dm->mem + offset, length);
	return 0;
}

/* Charges bytes against the context's limit. */
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
	dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
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

static void uncharge(struct vrb_context *ctx, uint64_t bytes)
{
	pthread_mutex_lock(&ctx->lock);
	ctx->dm_bytes -= bytes;
	pthread_mutex_unlock(&ctx->lock);
}

/* Maps the memfd at an address with the requested alignment. */
static int map_aligned(struct vrb_dm *dm, size_t align)
{
	const int prot = PROT_READ | PROT_WRITE;
	uintptr_t at;

	dm->reserved_len = dm->length + align;
	dm->reserved = mmap(NULL, dm->reserved_len, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (dm->reserved == MAP_FAILED)
		return errno;
	at = ((uintptr_t)dm->reserved + align - 1) & ~(align - 1);
	dm->mem = mmap((void *)at, dm->length, prot, MAP_SHARED | MAP_FIXED, dm->fd, 0);
	if (dm->mem != MAP_FAILED)
		return 0;
	munmap(dm->reserved, dm->reserved_len);
	return ENOMEM;
}

static int make_memory(struct vrb_dm *dm, const struct ibv_alloc_dm_attr *attr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int err;

	dm->length = attr->length;
	dm->fd = memfd_create("verbena:dm", MFD_CLOEXEC);
	if (dm->fd < 0)
		return errno;
	err = ftruncate(dm->fd, dm->length) < 0 ? errno : 0;
	if (!err)
		err = map_aligned(dm, max((size_t)1 << attr->log_align_req, page));
	if (err)
		close(dm->fd);
	return err;
}

int vrb_dm_alloc(struct vrb_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vrb_dm **out)
{
	struct vrb_dm *dm;
	int err;

	if (attr->comp_mask || !attr->length || attr->log_align_req > MAX_LOG_ALIGN)
		return EINVAL;
	if (!charge(ctx, attr->length))
		return ENOMEM;
	dm = calloc(1, sizeof(*dm));
	err = dm ? make_memory(dm, attr) : ENOMEM;
	if (err) {
		free(dm);
		uncharge(ctx, attr->length);
		return err;
	}
	enlist(ctx, dm, fetch_add_relaxed(&last_handle, 1) + 1);
	*out = dm;
	return 0;
}

int vrb_dm_export(struct vrb_dm *dm, int *fd)
{
	*fd = fcntl(dm->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? errno : 0;
}

int vrb_dm_free(struct vrb_dm *dm)
{
	if (load_acquire(&dm->users))
		return EBUSY;
	if (dm->origin)
		fetch_sub_release(&dm->origin->users, 1);
	delist(to_vrb_context(dm->ibv.context), dm);
	if (!dm->origin) {
		munmap(dm->reserved, dm->reserved_len);
		close(dm->fd);
	}
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

/* Looks the handle up in every context that shares ctx's command file. Takes a user reference. */
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
	dm->fd = origin->fd;
	dm->mem = origin->mem;
	dm->length = origin->length;
	enlist(ctx, dm, handle);
	*out = dm;
	return 0;
}

/* Regions made with the handle belong to its origin. */
void vrb_dm_unimport(struct vrb_dm *dm)
{
	if (dm->origin)
		vrb_dm_free(dm);
}
