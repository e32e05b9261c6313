/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of the rooms of core: a context without a device, with timers and a progress
 * thread that is never started.
 */
#ifndef VRB_TESTS_CORE_ENV_H
#define VRB_TESTS_CORE_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/cq/async_event.h"
#include "run/progress.h"
#include "run/timers.h"
#include "util/time.h"

static uint64_t env_deadline(void *arg)
{
	return VRB_NEVER;
}

static inline struct vrb_context *core_env_open(void)
{
	static const struct progress_ops ops = { .deadline = env_deadline };
	struct vrb_context *ctx = calloc(1, sizeof(*ctx));

	assert_non_null(ctx);
	pthread_mutex_init(&ctx->lock, NULL);
	list_init(&ctx->pds);
	list_init(&ctx->cqs);
	ctx->vctx.context.num_comp_vectors = 1;
	assert_int_equal(vrb_event_queue_init(&ctx->events), 0);
	vrb.timers = timers_new();
	assert_non_null(vrb.timers);
	assert_int_equal(progress_new(&ops, NULL, &vrb.progress), 0);
	return ctx;
}

static inline void core_env_close(struct vrb_context *ctx)
{
	progress_free(vrb.progress);
	timers_free(vrb.timers);
	vrb.progress = NULL;
	vrb.timers = NULL;
	vrb_event_forget(ctx, NULL);
	vrb_event_queue_destroy(&ctx->events);
	free(ctx);
}

#endif
