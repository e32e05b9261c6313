/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA handles: hints about the path of data across the I/O bus (release 59). There is no bus here,
 * so a handle is checked and accepted in registrations, but has no effect. A registration keeps no
 * reference to its handle.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "verbs/answer.h"

#define KNOWN_MASK                                                                                 \
	(IBV_DMAH_INIT_ATTR_MASK_CPU_ID | IBV_DMAH_INIT_ATTR_MASK_PH |                             \
	 IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE)

/* The kernel names processors by the caller's affinity. */
static bool may_run_on(uint32_t cpu)
{
	cpu_set_t set;

	return cpu < CPU_SETSIZE && !sched_getaffinity(0, sizeof(set), &set) &&
	       CPU_ISSET(cpu, &set);
}

static int check(const struct ibv_dmah_init_attr *attr)
{
	if (attr->comp_mask & ~(uint32_t)KNOWN_MASK)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_CPU_ID && !may_run_on(attr->cpu_id))
		return EPERM;
	/* PCI Express has two bits for it. */
	if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_PH && attr->ph > 3)
		return EINVAL;
	if (attr->comp_mask & IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE &&
	    attr->tph_mem_type > IBV_TPH_MEM_TYPE_PM)
		return EINVAL;
	return 0;
}

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	struct ibv_dmah *dmah;
	int err = context && attr ? check(attr) : EINVAL;

	if (err)
		return answer_null(err);
	dmah = malloc(sizeof(*dmah));
	if (dmah)
		dmah->context = context;
	return dmah;
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	free(dmah);
	return answer(dmah ? 0 : EINVAL);
}
