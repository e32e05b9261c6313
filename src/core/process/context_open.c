/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a device. The command fd is a memfd: reading or polling it has no effect, and
 * its inode tells ibv_import_device() which context a duplicate came from.
 */
#include "core/process/context_open.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/cq/async_event.h"
#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/device/sysfs_tree.h"
#include "core/diag/port_counters.h"
#include "core/process/process.h"
#include "core/progress/served_qps.h"
#include "core/qp/xrcd.h"
#include "core/raw/flow.h"
#include "core/xrc/open_table.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum { CLOSED = UINT_MAX };	/* a generation that no process has */

/* Outside vrb.life. Protects the successors of inherited contexts. */
static pthread_mutex_t successors = PTHREAD_MUTEX_INITIALIZER;

static int identify(struct vrb_context *ctx)
{
	struct stat st;

	if (fstat(ctx->vctx.context.cmd_fd, &st) < 0)
		return errno;
	ctx->cmd_dev = st.st_dev;
	ctx->cmd_ino = st.st_ino;
	return 0;
}

static void init_fields(struct vrb_context *ctx, struct vrb_device *dev, int cmd_fd)
{
	struct ibv_context *c = &ctx->vctx.context;

	ctx->dev = dev;
	list_init(&ctx->node);
	list_init(&ctx->pds);
	list_init(&ctx->cqs);
	list_init(&ctx->dms);
	list_init(&ctx->free_ahs);
	list_init(&ctx->ah_slabs);
	pthread_mutex_init(&ctx->lock, NULL);
	c->device = &dev->ibv;
	c->cmd_fd = cmd_fd;
	c->async_fd = ctx->events.fd;
	c->num_comp_vectors = VRB_COMP_VECTORS;
	pthread_mutex_init(&c->mutex, NULL);
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->vctx.sz = sizeof(ctx->vctx);
}

static void enlist(struct vrb_context *ctx)
{
	pthread_mutex_lock(&vrb.lock);
	ctx->generation = vrb.generation;
	list_add_tail(&vrb.contexts, &ctx->node);
	/* Attached since the tables were filled: fault/taps.c may have been too early. */
	if (tapped())
		ctx->fill(&ctx->vctx);
	pthread_mutex_unlock(&vrb.lock);
}

/* On failure cmd_fd stays open. */
static int open_with(struct vrb_device *dev, int cmd_fd, vrb_fill_ops_fn fill,
		     struct vrb_context **out)
{
	struct vrb_context *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return ENOMEM;
	err = vrb_event_queue_init(&ctx->events);
	if (err)
		goto free_ctx;
	init_fields(ctx, dev, cmd_fd);
	ctx->fill = fill;
	err = identify(ctx);
	if (err)
		goto destroy_queue;
	err = vrb_process_get();
	if (err)
		goto destroy_queue;
	fill(&ctx->vctx);
	vrb_device_get(dev);
	enlist(ctx);
	*out = ctx;
	return 0;
destroy_queue:
	vrb_event_queue_destroy(&ctx->events);
free_ctx:
	free(ctx);
	return err;
}

int vrb_context_open(struct vrb_device *dev, vrb_fill_ops_fn fill, struct vrb_context **ctx)
{
	char name[IBV_SYSFS_NAME_MAX + 16];
	int fd, err;

	snprintf(name, sizeof(name), "verbena:%s", dev->ibv.name);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return errno;
	err = open_with(dev, fd, fill, ctx);
	if (err)
		close(fd);
	return err;
}

/*
 * The device of a context with this command file, with a reference; NULL if this process has none.
 */
static struct vrb_device *device_of_file(int cmd_fd)
{
	struct vrb_device *dev = NULL;
	struct list *pos;
	struct stat st;

	if (fstat(cmd_fd, &st) < 0)
		return NULL;
	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);

		if (c->cmd_dev == st.st_dev && c->cmd_ino == st.st_ino) {
			dev = c->dev;
			dev->refs++;
			break;
		}
	}
	pthread_mutex_unlock(&vrb.lock);
	return dev;
}

int vrb_context_import(int cmd_fd, vrb_fill_ops_fn fill, struct vrb_context **ctx)
{
	struct vrb_device *dev = device_of_file(cmd_fd);
	int err;

	if (!dev)
		return ENODEV;
	err = open_with(dev, cmd_fd, fill, ctx);
	vrb_device_put(dev);
	return err;
}

/* A context of this process on the same device. Must hold successors. */
static int make_successor(struct vrb_context *ctx)
{
	struct ibv_context *c = &ctx->vctx.context;
	struct vrb_context *successor;
	int err = vrb_context_open(ctx->dev, ctx->fill, &successor);

	if (err)
		return err;
	successor->origin = ctx;
	ctx->successor = successor;
	/*
	 * The program polls the successor's descriptors. The parent's stay open: their numbers may
	 * have been reused meanwhile.
	 */
	c->cmd_fd = successor->vctx.context.cmd_fd;
	c->async_fd = successor->vctx.context.async_fd;
	log_info(LOG_CORE,
		 "a context of %s was inherited by fork and is now reopened in this process",
		 ctx->dev->ibv.name);
	return 0;
}

/* The context that the program opened, in this process or in its parent. */
static struct vrb_context *origin_of(struct vrb_context *ctx)
{
	return ctx->origin ? ctx->origin : ctx;
}

int vrb_context_successor(struct ibv_context **c)
{
	struct vrb_context *ctx = origin_of(to_vrb_context(*c));
	int err;

	pthread_mutex_lock(&successors);
	if (ctx->generation == CLOSED)
		err = ENODEV;
	else if (!ctx->successor || vrb_context_is_dead(ctx->successor))
		err = make_successor(ctx);
	else
		err = 0;
	if (!err)
		*c = &ctx->successor->vctx.context;
	pthread_mutex_unlock(&successors);
	return err;
}

/* Detaches a context from its successor or origin, because closing one closes both. */
static struct vrb_context *part(struct vrb_context *ctx)
{
	struct vrb_context *origin = origin_of(ctx), *live = NULL;

	pthread_mutex_lock(&successors);
	if (origin->generation != CLOSED)
		live = vrb_context_is_dead(origin) ? origin->successor : origin;
	if (live && vrb_context_is_dead(live))
		live = NULL;
	if (vrb_context_is_dead(origin))
		origin->generation = CLOSED;
	origin->successor = NULL;
	pthread_mutex_unlock(&successors);
	return live;
}

void vrb_context_after_fork(void)
{
	pthread_mutex_init(&successors, NULL);
}

/*
 * Objects left open point to the context, so it stays in memory as a dead one: calls return ENODEV,
 * and its events are lost.
 */
static void orphan(struct vrb_context *ctx)
{
	struct text left = { .n = 0 };

	ctx->generation = CLOSED;
	vrb_open_table_migrate_all(ctx);
	vrb_flow_remove_context(ctx);
	vrb_xrcd_remove_context(ctx);
	vrb_progress_remove_context(ctx);
	vrb_event_forget(ctx, NULL);
	vrb_event_queue_close(&ctx->events);
	vrb_context_add_objects(ctx, &left);
	log_info(LOG_CORE, "a context of %s was closed with objects left open in it:%s",
		 ctx->dev->ibv.name, left.s);
}

static void close_live(struct vrb_context *ctx)
{
	bool orphans;

	pthread_mutex_lock(&vrb.lock);
	list_del(&ctx->node);
	pthread_mutex_unlock(&vrb.lock);
	pthread_mutex_lock(&ctx->lock);
	orphans = vrb_context_objects(ctx);
	pthread_mutex_unlock(&ctx->lock);
	if (orphans)
		orphan(ctx);
	close(ctx->vctx.context.cmd_fd);
	vrb_sysfs_count(ctx->dev);
	vrb_process_put();
	if (orphans)
		return;
	vrb_device_put(ctx->dev);
	vrb_event_forget(ctx, NULL);
	vrb_event_queue_destroy(&ctx->events);
	pthread_mutex_destroy(&ctx->vctx.context.mutex);
	pthread_mutex_destroy(&ctx->lock);
	vrb_ah_free_pool(ctx);
	free(ctx);
}

int vrb_context_close(struct ibv_context *c)
{
	struct vrb_context *ctx, *live;

	if (!c)
		return EINVAL;
	ctx = to_vrb_context(c);
	if (origin_of(ctx)->generation == CLOSED)
		return ENODEV;
	live = part(ctx);
	if (live)
		close_live(live);
	return 0;
}
