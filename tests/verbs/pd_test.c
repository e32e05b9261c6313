/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and the objects that prevent their deallocation, thread and parent domains,
 * device memory.
 */
#include <errno.h>
#include <unistd.h>

#include "world.h"

static void busy_while_used(struct world *w)
{
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = w->gid, .sgid_index = w->gid_index },
	};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_mr *mr = ibv_alloc_null_mr(pd);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

	CHECK(ah && mr && mw);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_dealloc_pd(NULL), EINVAL);
	CHECK(!ibv_alloc_mw(w->pd, 3));
	CHECK_EQ(errno, EINVAL);
}

static void *alloc_nothing(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			   uint64_t type)
{
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void free_nothing(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
}

static void parents(struct world *w)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(w->ctx, &td_attr);
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx), *parent, *again;
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc_nothing,
		.free = free_nothing,
		.pd_context = w,
	};
	struct ibv_mr *mr;

	CHECK(td && pd);
	CHECK((parent = ibv_alloc_parent_domain(w->ctx, &attr)));
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dealloc_td(td), EBUSY);
	CHECK((again = ibv_alloc_parent_domain(w->ctx, &(struct ibv_parent_domain_init_attr){
							       .pd = parent })));
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(again), 0);
	CHECK((mr = ibv_alloc_null_mr(parent)));
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	attr.td = NULL;
	attr.free = NULL;	/* no allocator is called */
	CHECK((parent = ibv_alloc_parent_domain(w->ctx, &attr)));
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
	CHECK((parent = ibv_alloc_parent_domain(w->ctx, &attr)));
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	attr.comp_mask = attr.comp_mask << 1;
	CHECK(!ibv_alloc_parent_domain(w->ctx, &attr));
	attr.comp_mask = 0;
	attr.pd = NULL;
	CHECK(!ibv_alloc_parent_domain(w->ctx, &attr));
	td_attr.comp_mask = 1;
	CHECK(!ibv_alloc_td(w->ctx, &td_attr));
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

/* What is more than the device has left is ENOMEM, what no device has EINVAL. */
static void all_device_memory(struct world *w)
{
	struct ibv_alloc_dm_attr attr = { 0 };
	struct ibv_device_attr_ex dev;
	struct ibv_dm *all;

	CHECK_EQ(ibv_query_device_ex(w->ctx, NULL, &dev), 0);
	attr.length = dev.max_dm_size;
	CHECK((all = ibv_alloc_dm(w->ctx, &attr)));
	attr.length = 4;
	CHECK(!ibv_alloc_dm(w->ctx, &attr));
	CHECK_EQ(errno, ENOMEM);
	CHECK_EQ(ibv_free_dm(all), 0);
	attr.length = dev.max_dm_size + 1;
	CHECK(!ibv_alloc_dm(w->ctx, &attr));
	CHECK_EQ(errno, EINVAL);
}

static void device_memory(struct world *w)
{
	struct ibv_alloc_dm_attr attr = { .length = 5000, .log_align_req = 16 };
	struct ibv_dm *dm = ibv_alloc_dm(w->ctx, &attr), *twin;
	struct ibv_mr *mr;
	char in[16] = "fifteen letters", out[16];
	int fd;

	CHECK(dm);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 4984, in, 16), 0);
	CHECK_EQ(ibv_memcpy_from_dm(out, dm, 4984, 16), 0);
	CHECK_MEM(in, out, 16);
	CHECK(ibv_memcpy_to_dm(dm, 4988, in, 16) != 0);
	CHECK(ibv_memcpy_from_dm(out, dm, UINT64_MAX - 3, 16) != 0);
	CHECK((mr = ibv_reg_dm_mr(w->pd, dm, 8, 4992, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED)));
	CHECK_EQ(ibv_free_dm(dm), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(!ibv_reg_dm_mr(w->pd, dm, 8, 4992, WORLD_ACCESS));
	CHECK(!ibv_reg_dm_mr(w->pd, dm, 8, 4993, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED));
	CHECK(!ibv_reg_dm_mr(w->pd, dm, UINT64_MAX, 8, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED));
	CHECK((twin = ibv_import_dm(w->ctx, dm->handle)));
	CHECK_EQ(ibv_memcpy_from_dm(out, twin, 4984, 8), 0);
	CHECK_MEM(in, out, 8);
	fd = ibv_dm_export_dmabuf_fd(dm);
	CHECK(fd >= 0);
	CHECK_EQ(pread(fd, out, 16, 4984), 16);
	CHECK_MEM(in, out, 16);
	close(fd);
	/* Freed through one handle, it is only unimported through the others. */
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK_EQ(ibv_free_dm(twin), EINVAL);
	CHECK(!ibv_reg_dm_mr(w->pd, twin, 0, 8, IBV_ACCESS_ZERO_BASED));
	CHECK(!ibv_import_dm(w->ctx, twin->handle));
	ibv_unimport_dm(twin);
	attr.length = 0;
	CHECK(!ibv_alloc_dm(w->ctx, &attr));
	attr.length = (size_t)1 << 40;
	CHECK(!ibv_alloc_dm(w->ctx, &attr));
	CHECK_EQ(errno, EINVAL);
	all_device_memory(w);
	attr = (struct ibv_alloc_dm_attr){ .length = 16, .comp_mask = 1 };
	CHECK(!ibv_alloc_dm(w->ctx, &attr));
	CHECK_EQ(errno, EINVAL);
}

int main(void)
{
	struct world w;

	world_open(&w);
	busy_while_used(&w);
	parents(&w);
	device_memory(&w);
	world_close(&w);
	return 0;
}
