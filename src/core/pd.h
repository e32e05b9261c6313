/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: a number that memory, windows, queues and address handles must share to be
 * used together.
 *
 * A domain can have several handles: the one of ibv_alloc_pd and those of ibv_import_pd.  They
 * share a pd_state; it dies with the first deallocation, and is freed with the last handle.  A
 * parent domain has a state of its own with its parent's number.
 */
#ifndef VRB_CORE_PD_H
#define VRB_CORE_PD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/live.h"
#include "util/list.h"

struct vrb_context;

struct vrb_td {
	struct ibv_td ibv;
	uint32_t users; /* atomic: parent domains */
};

struct pd_state {
	uint32_t users;   /* atomic: objects that keep the domain from being deallocated */
	uint32_t handles; /* atomic */
	bool dead;        /* deallocated through another handle */
};

struct vrb_pd {
	struct ibv_pd ibv;
	uint32_t pdn; /* unique in the process, never 0; a parent domain has its parent's */
	struct pd_state *state;
	struct list node;      /* vrb_context.pds */
	struct vrb_pd *parent; /* parent domain: the PD it stands for */
	struct vrb_td *td;     /* parent domain: its thread domain, or NULL */
	void *pd_context;
	struct vrb_live live;
};

static inline struct vrb_pd *to_vrb_pd(struct ibv_pd *pd)
{
	return (struct vrb_pd *)pd;
}

/* Objects call these at creation and destruction. */
void vrb_pd_get(struct vrb_pd *pd);
void vrb_pd_put(struct vrb_pd *pd);

/*
 * What a verb asks about the PD it was given: 0, EINVAL for NULL or a domain that was deallocated
 * through another handle, and what vrb_object_check() says.  One that was inherited by fork is this process's own from now on, as its
 * context is, with nothing in it.
 */
int vrb_pd_check(struct ibv_pd *pd);

/*
 * All return 0 or an errno value. Deallocation of either kind of domain is refused with EBUSY while
 * objects use it.
 */
int vrb_pd_alloc(struct vrb_context *ctx, struct vrb_pd **pd);
int vrb_pd_alloc_parent(struct vrb_context *ctx, const struct ibv_parent_domain_init_attr *attr,
			struct vrb_pd **pd);
int vrb_pd_dealloc(struct vrb_pd *pd);
int vrb_pd_import(struct vrb_context *ctx, uint32_t handle, struct vrb_pd **pd);
void vrb_pd_unimport(struct vrb_pd *pd);

int vrb_td_alloc(struct vrb_context *ctx, struct vrb_td **td);
int vrb_td_dealloc(struct vrb_td *td);

#endif
