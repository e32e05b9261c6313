/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: a number that regions, windows, queues and address handles must share to work
 * together.
 *
 * A domain can have several handles: one from ibv_alloc_pd and others from ibv_import_pd. They
 * share a pd_state, which dies with the first deallocation and is freed with the last handle. A
 * handle is freed when it was released and the objects made with it are gone: ibv_unimport_pd() may
 * come before them. A parent domain has its own state but its parent's number.
 */
#ifndef VRB_CORE_MEM_PD_H
#define VRB_CORE_MEM_PD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/live_objects.h"
#include "core/mem/pd_senders.h"
#include "util/list.h"

struct vrb_context;

struct vrb_td {
	struct ibv_td ibv;
	uint32_t users; /* atomic; counts parent domains */
};

struct pd_state {
	uint32_t users;   /* atomic; objects that forbid deallocation */
	uint32_t handles; /* atomic */
	bool dead;        /* deallocated through another handle */
	unsigned int generation;	/* vrb.generation of the process that owns it */
	struct pd_senders senders;	/* unused in a parent domain: its parent's are used */
};

struct vrb_pd {
	struct ibv_pd ibv;
	uint32_t refs; /* atomic; its objects and, until it is released, itself */
	uint32_t pdn; /* unique in the process, never 0; a parent domain has its parent's */
	struct pd_state *state;
	struct list node;      /* vrb_context.pds */
	struct vrb_pd *parent; /* parent domain: the underlying PD */
	struct vrb_td *td;     /* parent domain: its thread domain, or NULL */
	/* parent domain: the program's allocator of queues; alloc is NULL: none */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
	struct vrb_live live;
};

static inline struct vrb_pd *to_vrb_pd(struct ibv_pd *pd)
{
	return (struct vrb_pd *)pd;
}

/* Valid while objects use the domain, even after the handle that allocated it is freed. */
struct pd_senders *vrb_pd_senders(struct vrb_pd *pd);

/* Called when an object is created or destroyed. */
void vrb_pd_get(struct vrb_pd *pd);
void vrb_pd_put(struct vrb_pd *pd);

/* For what keeps a pointer to the handle but is no object of its own: imported regions. */
void vrb_pd_hold(struct vrb_pd *pd);
void vrb_pd_release(struct vrb_pd *pd); /* the last one frees a handle that its owner released */

/*
 * Checks a verb's PD argument: EINVAL for NULL or a PD that was deallocated through another handle,
 * else the result of vrb_object_check(). An inherited PD becomes this process's own, empty, as its
 * context does.
 */
int vrb_pd_check(struct ibv_pd *pd);

/* All return 0 or an errno value. Deallocation returns EBUSY while objects use the domain. */
int vrb_pd_alloc(struct vrb_context *ctx, struct vrb_pd **pd);
int vrb_pd_alloc_parent(struct vrb_context *ctx, const struct ibv_parent_domain_init_attr *attr,
			struct vrb_pd **pd);
int vrb_pd_dealloc(struct vrb_pd *pd);
int vrb_pd_import(struct vrb_context *ctx, uint32_t handle, struct vrb_pd **pd);
void vrb_pd_unimport(struct vrb_pd *pd);

/*
 * What the program's allocator is asked for: its resource_type, which has the driver's number 0 in
 * the high 32 bits, and in the low ones those of mlx5.
 */
enum pd_memory {
	PD_MEMORY_QP = 1,
	PD_MEMORY_WQ = 2,
	PD_MEMORY_SRQ = 4,
	PD_MEMORY_CQ = 5,
};

/*
 * Asks the program's allocator for zeroed memory. ENOMEM: it has none; else 0, and *mem is NULL if
 * the device shall use its own: there is no allocator, it says so, or the domain is NULL. Calls the
 * program, so no lock may be held, as in the functions below.
 */
int vrb_pd_custom_memory(struct vrb_pd *pd, size_t size, enum pd_memory what, void **mem);

/* Zeroed memory from the allocator or from calloc, *custom says which; NULL: there is none. */
void *vrb_pd_memory(struct vrb_pd *pd, size_t size, enum pd_memory what, bool *custom);
void vrb_pd_memory_free(struct vrb_pd *pd, void *mem, enum pd_memory what, bool custom);

int vrb_td_alloc(struct vrb_context *ctx, struct vrb_td **td);
int vrb_td_dealloc(struct vrb_td *td);

#endif
