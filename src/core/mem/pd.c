/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, thread domains and parent domains, and the references that forbid
 * deallocation.
 */
#include "core/mem/pd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/state.h"
#include "util/atomic.h"

static uint32_t last_pdn; /* atomic */

static struct pd_state *state_new(void)
{
	struct pd_state *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->handles = 1;
	s->generation = vrb.generation;
	pd_senders_init(&s->senders);
	return s;
}

static void state_put(struct pd_state *s)
{
	if (fetch_sub_acq_rel(&s->handles, 1) == 1)
		free(s);
}

struct pd_senders *vrb_pd_senders(struct vrb_pd *pd)
{
	while (pd->parent)
		pd = pd->parent;
	return &pd->state->senders;
}

void vrb_pd_hold(struct vrb_pd *pd)
{
	fetch_add_relaxed(&pd->refs, 1);
}

void vrb_pd_release(struct vrb_pd *pd)
{
	if (fetch_sub_acq_rel(&pd->refs, 1) != 1)
		return;
	state_put(pd->state);
	free(pd);
}

void vrb_pd_get(struct vrb_pd *pd)
{
	vrb_pd_hold(pd);
	fetch_add_relaxed(&pd->state->users, 1);
}

void vrb_pd_put(struct vrb_pd *pd)
{
	/* Pairs with the acquire in dealloc: the object is gone before the count drops. */
	fetch_sub_release(&pd->state->users, 1);
	vrb_pd_release(pd);
}

/*
 * In a forked child: no object uses the domain yet. Its handles share the state, and the first one
 * resets it.
 */
static void state_inherit(struct pd_state *s)
{
	if (s->generation == vrb.generation)
		return;
	s->generation = vrb.generation;
	s->users = 0;
	pd_senders_init(&s->senders);
}

/*
 * In a forked child: moves an inherited PD to this process's context. The PD keeps its number,
 * which no object of this process uses yet.
 */
static int inherit(struct vrb_pd *pd)
{
	struct ibv_context *c = pd->ibv.context;
	struct vrb_context *ctx;
	int err = vrb_context_enter(&c);

	if (!err && pd->parent)
		err = vrb_pd_check(&pd->parent->ibv);
	if (err)
		return err;
	ctx = to_vrb_context(c);
	pthread_mutex_lock(&ctx->lock);
	if (pd->ibv.context != c) {
		pd->ibv.context = c;
		state_inherit(pd->state);
		pd->refs = 1;
		if (pd->parent)
			vrb_pd_get(pd->parent);
		list_add_tail(&ctx->pds, &pd->node);
		ctx->n[CTX_PD]++;
		vrb_live_del(&pd->live);
		vrb_live_add(&pd->live, pd, c, pd->ibv.handle);
	}
	pthread_mutex_unlock(&ctx->lock);
	return 0;
}

int vrb_pd_check(struct ibv_pd *pd)
{
	int err = vrb_object_check(pd);

	if (err == ENODEV)
		err = inherit(to_vrb_pd(pd));
	if (err)
		return err;
	return to_vrb_pd(pd)->state->dead ? EINVAL : 0;
}

/* Adds a handle to its context's list. */
static struct vrb_pd *handle_new(struct vrb_context *ctx, uint32_t pdn, struct pd_state *state)
{
	struct vrb_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ibv.context = &ctx->vctx.context;
	pd->ibv.handle = pdn;
	pd->refs = 1;
	pd->pdn = pdn;
	pd->state = state;
	pthread_mutex_lock(&ctx->lock);
	list_add_tail(&ctx->pds, &pd->node);
	pthread_mutex_unlock(&ctx->lock);
	vrb_live_add(&pd->live, pd, pd->ibv.context, pd->ibv.handle);
	return pd;
}

/* The program may not use the handle any longer. */
static void handle_close(struct vrb_pd *pd)
{
	struct vrb_context *ctx = to_vrb_context(pd->ibv.context);

	vrb_live_del(&pd->live);
	pthread_mutex_lock(&ctx->lock);
	list_del(&pd->node);
	pthread_mutex_unlock(&ctx->lock);
	vrb_context_give(ctx, CTX_PD);
	vrb_pd_release(pd);
}

static int handle_create(struct vrb_context *ctx, uint32_t pdn, struct vrb_pd **pd)
{
	struct pd_state *state;
	int err = vrb_context_take(ctx, CTX_PD, vrb_device_limits.orig_attr.max_pd);

	if (err)
		return err;
	state = state_new();
	if (!state)
		goto give;
	*pd = handle_new(ctx, pdn, state);
	if (*pd)
		return 0;
	state_put(state);
give:
	vrb_context_give(ctx, CTX_PD);
	return ENOMEM;
}

int vrb_pd_alloc(struct vrb_context *ctx, struct vrb_pd **pd)
{
	uint32_t pdn;

	do {
		pdn = fetch_add_relaxed(&last_pdn, 1) + 1;
	} while (pdn == 0);
	return handle_create(ctx, pdn, pd);
}

int vrb_pd_alloc_parent(struct vrb_context *ctx, const struct ibv_parent_domain_init_attr *attr,
			struct vrb_pd **out)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
	struct ibv_context *c = &ctx->vctx.context;
	struct vrb_pd *parent, *pd;
	int err;

	err = vrb_pd_check(attr->pd);
	if (err)
		return err;
	if (attr->comp_mask & ~known)
		return EINVAL; /* as from mlx5 */
	parent = to_vrb_pd(attr->pd);
	if (parent->ibv.context != c || (attr->td && attr->td->context != c))
		return EINVAL;
	err = handle_create(ctx, parent->pdn, &pd);
	if (err)
		return err;
	pd->parent = parent;
	vrb_pd_get(parent);
	pd->td = (struct vrb_td *)attr->td;
	if (pd->td)
		fetch_add_relaxed(&pd->td->users, 1);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	*out = pd;
	return 0;
}

static int in_use(struct vrb_pd *pd, uint32_t users)
{
	struct text t = { .n = 0 };

	text_add(&t, "regions, windows, QPs, SRQs, address handles, parent domains, CQs; its "
		     "context has");
	vrb_context_add_objects(to_vrb_context(pd->ibv.context), &t);
	return vrb_in_use("ibv_dealloc_pd", users, t.s);
}

int vrb_pd_dealloc(struct vrb_pd *pd)
{
	uint32_t users = load_acquire(&pd->state->users);

	if (users)
		return in_use(pd, users);
	pd->state->dead = true;
	if (pd->parent)
		vrb_pd_put(pd->parent);
	if (pd->td)
		fetch_sub_release(&pd->td->users, 1);
	handle_close(pd);
	return 0;
}

static struct vrb_pd *find_by_handle(struct vrb_context *ctx, uint32_t handle)
{
	struct list *pos;

	list_for_each (pos, &ctx->pds) {
		struct vrb_pd *pd = list_entry(pos, struct vrb_pd, node);

		if (pd->ibv.handle == handle && !pd->parent && !pd->state->dead)
			return pd;
	}
	return NULL;
}

/*
 * Returns a reference to the state that a handle names, in any context that shares ctx's command
 * file; NULL if there is none.
 */
static struct pd_state *state_by_handle(struct vrb_context *ctx, uint32_t handle)
{
	struct pd_state *state = NULL;
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *c = list_entry(pos, struct vrb_context, node);
		struct vrb_pd *pd;

		if (c->cmd_dev != ctx->cmd_dev || c->cmd_ino != ctx->cmd_ino)
			continue;
		pthread_mutex_lock(&c->lock);
		pd = find_by_handle(c, handle);
		if (pd) {
			state = pd->state;
			fetch_add_relaxed(&state->handles, 1);
		}
		pthread_mutex_unlock(&c->lock);
		if (state)
			break;
	}
	pthread_mutex_unlock(&vrb.lock);
	return state;
}

int vrb_pd_import(struct vrb_context *ctx, uint32_t handle, struct vrb_pd **pd)
{
	struct pd_state *state = state_by_handle(ctx, handle);
	int err;

	if (!state)
		return ENOENT;
	err = vrb_context_take(ctx, CTX_PD, vrb_device_limits.orig_attr.max_pd);
	if (err)
		goto put;
	*pd = handle_new(ctx, handle, state);
	if (*pd)
		return 0;
	err = ENOMEM;
	vrb_context_give(ctx, CTX_PD);
put:
	state_put(state);
	return err;
}

void vrb_pd_unimport(struct vrb_pd *pd)
{
	handle_close(pd);
}

/* Whole pages, as from mlx5: the program may exclude them from fork(). */
int vrb_pd_custom_memory(struct vrb_pd *pd, size_t size, enum pd_memory what, void **mem)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	void *got;

	*mem = NULL;
	if (!pd || !pd->alloc)
		return 0;
	size = (size + page - 1) & ~(page - 1);
	got = pd->alloc(&pd->ibv, pd->pd_context, size, page, what);
	if (got == IBV_ALLOCATOR_USE_DEFAULT)
		return 0;
	if (!got)
		return ENOMEM;
	*mem = memset(got, 0, size);
	return 0;
}

void *vrb_pd_memory(struct vrb_pd *pd, size_t size, enum pd_memory what, bool *custom)
{
	void *mem;

	if (vrb_pd_custom_memory(pd, size, what, &mem))
		return NULL;
	*custom = mem;
	return mem ? mem : calloc(1, size);
}

void vrb_pd_memory_free(struct vrb_pd *pd, void *mem, enum pd_memory what, bool custom)
{
	if (!custom)
		free(mem);
	else if (mem && pd->free)
		pd->free(&pd->ibv, pd->pd_context, mem, what);
}

int vrb_td_alloc(struct vrb_context *ctx, struct vrb_td **td)
{
	*td = calloc(1, sizeof(**td));
	if (!*td)
		return ENOMEM;
	(*td)->ibv.context = &ctx->vctx.context;
	vrb_context_take(ctx, CTX_TD, INT32_MAX);
	return 0;
}

int vrb_td_dealloc(struct vrb_td *td)
{
	struct vrb_context *ctx = to_vrb_context(td->ibv.context);

	uint32_t users = load_acquire(&td->users);

	if (users)
		return vrb_in_use("ibv_dealloc_td", users, "parent domains");
	vrb_context_give(ctx, CTX_TD);
	free(td);
	return 0;
}
