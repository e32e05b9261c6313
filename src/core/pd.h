/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains: a number that memory, windows, queues and address handles must share to be used together. */
#ifndef VRB_CORE_PD_H
#define VRB_CORE_PD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_td {
	struct ibv_td ibv;
	uint32_t users;		/* atomic */
};

struct vrb_pd {
	struct ibv_pd ibv;
	uint32_t pdn;		/* unique in the process, never 0; a parent domain has its parent's */
	uint32_t users;		/* atomic: objects that keep the PD from being deallocated */
	struct vrb_pd *parent;	/* parent domain: the PD it stands for */
	struct vrb_td *td;	/* parent domain: its thread domain, or NULL */
	void *pd_context;
};

static inline struct vrb_pd *to_vrb_pd(struct ibv_pd *pd)
{
	return (struct vrb_pd *)pd;
}

/* Objects call these at creation and destruction. */
void vrb_pd_get(struct vrb_pd *pd);
void vrb_pd_put(struct vrb_pd *pd);

#endif
