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
#include "core/base/in_use.h"
#include "core/base/state.h"
#include "util/atomic.h"
#include "util/file_room.h"

enum {
	MAX_LOG_ALIGN = 21,
	COPY_UNIT = 4,	/* as on mlx5: programs copy whole words */
};

static uint32_t last_handle; /* atomic */

/* The errors of mlx5. */
static int check_copy(const struct dm_memory *m, uint64_t offset, size_t length)
{
	if (!dm_memory_has(m, offset, length))
		return EFAULT;
	return (offset | length) % COPY_UNIT ? EINVAL : 0;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *src, size_t length)
{
	const struct dm_memory *m = to_vrb_dm(dm)->memory;
	int err = check_copy(m, offset, length);

	if (!err)
		memcpy(m->mem + offset, src, length);
	return err;
}

static int copy_from(void *dst, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	const struct dm_memory *m = to_vrb_dm(dm)->memory;
	int err = check_copy(m, offset, length);

	if (!err)
		memcpy(dst, m->mem + offset, length);
	return err;
}

/* ---- Memory ---- */

/* Maps the memfd at an address with the requested alignment. */
static int map_aligned(struct dm_memory *m, size_t align)
{
	const int prot = PROT_READ | PROT_WRITE;
	uintptr_t at;

	m->reserved_len = m->length + align;
	m->reserved = mmap(NULL, m->reserved_len, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->reserved == MAP_FAILED)
		return errno;
	at = ((uintptr_t)m->reserved + align - 1) & ~(align - 1);
	m->mem = mmap((void *)at, m->length, prot, MAP_SHARED | MAP_FIXED, m->fd, 0);
	if (m->mem != MAP_FAILED)
		return 0;
	munmap(m->reserved, m->reserved_len);
	return ENOMEM;
}

static int make_memory(struct dm_memory *m, const struct ibv_alloc_dm_attr *attr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int err;

	m->length = attr->length;
	m->fd = memfd_create("verbena:dm", MFD_CLOEXEC);
	if (m->fd < 0)
		return errno;
	err = file_resize(m->fd, m->length) ? ENOMEM : 0;
	if (!err)
		err = map_aligned(m, max((size_t)1 << attr->log_align_req, page));
	if (err)
		close(m->fd);
	return err;
}

/* With a reference. */
static int memory_new(const struct ibv_alloc_dm_attr *attr, struct dm_memory **out)
{
	struct dm_memory *m = calloc(1, sizeof(*m));
	int err = m ? make_memory(m, attr) : ENOMEM;

	if (err) {
		free(m);
		return err;
	}
	m->refs = 1;
	*out = m;
	return 0;
}

static void memory_release(struct dm_memory *m)
{
	if (fetch_sub_acq_rel(&m->refs, 1) != 1)
		return;
	munmap(m->reserved, m->reserved_len);
	close(m->fd);
	free(m);
}

void dm_memory_get(struct dm_memory *m)
{
	fetch_add_relaxed(&m->refs, 1);
	fetch_add_relaxed(&m->regions, 1);
}

void dm_memory_put(struct dm_memory *m)
{
	fetch_sub_release(&m->regions, 1); /* pairs with vrb_dm_free() */
	memory_release(m);
}

/* ---- Handles ---- */

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

static void uncharge(struct vrb_context *ctx, uint64_t bytes)
{
	pthread_mutex_lock(&ctx->lock);
	ctx->dm_bytes -= bytes;
	pthread_mutex_unlock(&ctx->lock);
}

/* Takes over the reference on the memory. */
static int handle_new(struct vrb_context *ctx, uint32_t number, struct dm_memory *m,
		      uint64_t charged, struct vrb_dm **out)
{
	struct vrb_dm *dm = calloc(1, sizeof(*dm));

	if (!dm) {
		memory_release(m);
		return ENOMEM;
	}
	dm->memory = m;
	dm->charged = charged;
	dm->ibv.context = &ctx->vctx.context;
	dm->ibv.memcpy_to_dm = copy_to;
	dm->ibv.memcpy_from_dm = copy_from;
	dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
	dm->ibv.handle = number;
	pthread_mutex_lock(&ctx->lock);
	list_add_tail(&ctx->dms, &dm->node);
	pthread_mutex_unlock(&ctx->lock);
	*out = dm;
	return 0;
}

static void handle_close(struct vrb_dm *dm)
{
	struct vrb_context *ctx = to_vrb_context(dm->ibv.context);

	pthread_mutex_lock(&ctx->lock);
	list_del(&dm->node);
	pthread_mutex_unlock(&ctx->lock);
	uncharge(ctx, dm->charged);
	memory_release(dm->memory);
	free(dm);
}

int vrb_dm_alloc(struct vrb_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vrb_dm **out)
{
	struct dm_memory *m;
	int err;

	if (attr->comp_mask || !attr->length || attr->length > vrb_device_limits.max_dm_size ||
	    attr->log_align_req > MAX_LOG_ALIGN)
		return EINVAL;
	if (!charge(ctx, attr->length))
		return ENOMEM;
	err = memory_new(attr, &m);
	if (!err)
		err = handle_new(ctx, fetch_add_relaxed(&last_handle, 1) + 1, m, attr->length, out);
	if (err)
		uncharge(ctx, attr->length);
	return err;
}

int vrb_dm_export(struct vrb_dm *dm, int *fd)
{
	*fd = fcntl(dm->memory->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? errno : 0;
}

int vrb_dm_free(struct vrb_dm *dm)
{
	uint32_t regions;

	if (dm->memory->freed)
		return EINVAL;
	regions = load_acquire(&dm->memory->regions);
	if (regions)
		return vrb_in_use("ibv_free_dm", regions, "regions");
	dm->memory->freed = true;
	handle_close(dm);
	return 0;
}

/* Takes a reference on the memory. */
static struct dm_memory *find(struct vrb_context *c, uint32_t handle)
{
	struct dm_memory *found = NULL;
	struct list *pos;

	pthread_mutex_lock(&c->lock);
	list_for_each (pos, &c->dms) {
		struct vrb_dm *dm = list_entry(pos, struct vrb_dm, node);

		if (dm->ibv.handle == handle && !dm->memory->freed) {
			found = dm->memory;
			fetch_add_relaxed(&found->refs, 1);
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* The same, in every context that shares ctx's command file. */
static struct dm_memory *find_shared(struct vrb_context *ctx, uint32_t handle)
{
	struct dm_memory *found = NULL;
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);

		if (c->cmd_dev == ctx->cmd_dev && c->cmd_ino == ctx->cmd_ino)
			found = find(c, handle);
		if (found)
			break;
	}
	pthread_mutex_unlock(&vrb.lock);
	return found;
}

int vrb_dm_import(struct vrb_context *ctx, uint32_t handle, struct vrb_dm **dm)
{
	struct dm_memory *m = find_shared(ctx, handle);

	return m ? handle_new(ctx, handle, m, 0, dm) : ENOENT;
}

void vrb_dm_unimport(struct vrb_dm *dm)
{
	handle_close(dm);
}
