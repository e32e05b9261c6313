/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device lists, opening and closing devices, device attributes, import, and closing a context that
 * still has objects.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "world.h"

static void lists(void)
{
	struct ibv_device **a, **b;
	int n = -1, m = -1;

	a = ibv_get_device_list(&n);
	CHECK(a);
	CHECK(n >= 1);
	CHECK(!a[n]);
	b = ibv_get_device_list(&m);
	CHECK_EQ(m, n);
	for (int i = 0; i < n; i++) {
		/* Both lists hold the same objects. */
		CHECK(a[i] == b[i]);
		CHECK_EQ(a[i]->node_type, IBV_NODE_CA);
		CHECK_EQ(a[i]->transport_type, IBV_TRANSPORT_IB);
		CHECK(strcmp(ibv_get_device_name(a[i]), a[i]->name) == 0);
		CHECK(ibv_get_device_guid(a[i]) != 0);
		for (int j = 0; j < i; j++) {
			CHECK(strcmp(a[i]->name, a[j]->name) != 0);
			CHECK(ibv_get_device_guid(a[i]) != ibv_get_device_guid(a[j]));
			CHECK(ibv_get_device_index(a[i]) != ibv_get_device_index(a[j]));
		}
	}
	ibv_free_device_list(b);
	ibv_free_device_list(a);
	ibv_free_device_list(NULL);
	a = ibv_get_device_list(NULL);
	CHECK(a);
	ibv_free_device_list(a);
	CHECK_EQ(ibv_get_device_index(NULL), -1);
	CHECK_EQ(ibv_get_device_guid(NULL), 0);
}

/* rdma-core keeps its devices too: programs name and open one whose list they have freed. */
static void a_device_outlives_its_list(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), *dev = list[0];
	struct ibv_context *ctx;
	char name[64];

	strcpy(name, dev->name);
	ibv_free_device_list(list);
	CHECK(strcmp(ibv_get_device_name(dev), name) == 0);
	CHECK((ctx = ibv_open_device(dev)));
	CHECK_EQ(ibv_close_device(ctx), 0);
	CHECK(strcmp(ibv_get_device_name(dev), name) == 0);
	list = ibv_get_device_list(NULL);
	CHECK(list[0] == dev);
	ibv_free_device_list(list);
}

static void a_context_keeps_its_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	char name[64];

	CHECK(ctx);
	strcpy(name, list[0]->name);
	ibv_free_device_list(list);
	CHECK(strcmp(ctx->device->name, name) == 0);
	CHECK(ctx->num_comp_vectors > 1);
	CHECK(fcntl(ctx->async_fd, F_GETFD) >= 0);
	CHECK(fcntl(ctx->cmd_fd, F_GETFD) >= 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
	CHECK(!ibv_open_device(NULL));
	CHECK_EQ(errno, EINVAL);
	CHECK(ibv_close_device(NULL) != 0);
}

static void attributes(struct world *w)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK }, later = v;
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;

	CHECK_EQ(ibv_query_device(w->ctx, &attr), 0);
	CHECK_EQ(ibv_query_device_ex(w->ctx, NULL, &ex), 0);
	CHECK_MEM(&attr, &ex.orig_attr, sizeof(attr));
	CHECK_EQ(attr.node_guid, ibv_get_device_guid(w->ctx->device));
	CHECK_EQ(attr.phys_port_cnt, 1);
	CHECK(attr.max_sge >= 2);
	CHECK(attr.max_qp_wr > 0 && attr.max_cqe > 0 && attr.max_mr > 0 && attr.max_pd > 0);
	CHECK(strlen(attr.fw_ver) > 0);
	CHECK_EQ(ibv_query_device_ex(w->ctx, &input, &ex), EINVAL);
	CHECK_EQ(ibv_query_device(w->ctx, NULL), EINVAL);
	/* A device that reports its raw clock also reports completion timestamps. */
	CHECK(ex.completion_timestamp_mask && ex.hca_core_clock);
	CHECK_EQ(ibv_query_rt_values_ex(w->ctx, &v), 0);
	CHECK_EQ(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	CHECK_EQ(ibv_query_rt_values_ex(w->ctx, &later), 0);
	CHECK(later.raw_clock.tv_nsec >= v.raw_clock.tv_nsec);
	v.comp_mask = 2;
	CHECK_EQ(ibv_query_rt_values_ex(w->ctx, &v), EINVAL);
}

static void import(struct world *w)
{
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx), *other;
	struct ibv_context *ctx;
	int fd = dup(w->ctx->cmd_fd);

	ctx = ibv_import_device(fd);
	CHECK(ctx);
	CHECK(ctx->device == w->ctx->device);
	other = ibv_import_pd(ctx, pd->handle);
	CHECK(other);
	CHECK(!ibv_import_pd(ctx, pd->handle + 1000));
	CHECK_EQ(errno, ENOENT);
	/* Deallocation through either handle ends the domain for both. */
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK(!ibv_alloc_null_mr(pd));
	CHECK_EQ(errno, EINVAL);
	ibv_unimport_pd(pd);
	CHECK_EQ(ibv_close_device(ctx), 0);
	CHECK(fcntl(fd, F_GETFD) < 0); /* closed with the context */
	CHECK(!ibv_import_device(0));
	CHECK(!ibv_import_device(-1));
}

/* As rdma-core's test of a shared domain does: what was made with a handle outlives it. */
static void unimport_before_its_objects(struct world *w)
{
	static uint8_t mem[64];
	struct ibv_alloc_dm_attr dm_attr = { .length = sizeof(mem) };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx), *other;
	struct ibv_mr *mr = ibv_reg_mr(pd, mem, sizeof(mem), 0), *imported, *own, *on_dm;
	struct ibv_dm *dm = ibv_alloc_dm(w->ctx, &dm_attr), *other_dm;
	struct ibv_context *ctx = ibv_import_device(dup(w->ctx->cmd_fd));
	struct ibv_qp *qp;

	CHECK(ctx && mr && dm);
	CHECK((other = ibv_import_pd(ctx, pd->handle)));
	CHECK((other_dm = ibv_import_dm(ctx, dm->handle)));
	CHECK((imported = ibv_import_mr(other, mr->handle)));
	CHECK((own = ibv_reg_mr(other, mem, sizeof(mem), 0)));
	CHECK((on_dm = ibv_reg_dm_mr(other, other_dm, 0, sizeof(mem), IBV_ACCESS_ZERO_BASED)));
	init.send_cq = init.recv_cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	CHECK((qp = ibv_create_qp(other, &init)));

	ibv_unimport_pd(other);
	ibv_unimport_dm(other_dm);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_free_dm(dm), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dereg_mr(on_dm), 0);
	CHECK_EQ(ibv_dereg_mr(own), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
	/* Deregistration through either handle ends the region for both. */
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(imported), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	ibv_unimport_mr(mr);
	CHECK_EQ(ibv_destroy_cq(init.send_cq), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* A second context with a handle of w's domain, and a region on device memory. */
struct shared {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *other;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
};

static struct shared share(struct world *w)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct shared s = { .pd = ibv_alloc_pd(w->ctx), .dm = ibv_alloc_dm(w->ctx, &attr) };

	CHECK((s.ctx = ibv_import_device(dup(w->ctx->cmd_fd))));
	CHECK((s.other = ibv_import_pd(s.ctx, s.pd->handle)));
	CHECK((s.mr = ibv_reg_dm_mr(s.pd, s.dm, 0, 64, IBV_ACCESS_ZERO_BASED)));
	return s;
}

static void end_sharing(struct shared *s)
{
	ibv_unimport_pd(s->other);
	CHECK_EQ(ibv_dealloc_pd(s->pd), 0);
	CHECK_EQ(ibv_close_device(s->ctx), 0);
}

/* ibv_import_mr(3), ibv_import_dm(3): any handle may end the object, before or after the others. */
static void ended_through_another_handle(struct world *w)
{
	for (int first = 0; first < 2; first++) {
		struct shared s = share(w);
		struct ibv_mr *mr = ibv_import_mr(s.other, s.mr->handle);
		struct ibv_dm *dm = ibv_import_dm(s.ctx, s.dm->handle);

		CHECK(mr && dm);
		if (first)
			ibv_unimport_mr(s.mr);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		if (first)
			ibv_unimport_dm(s.dm);
		CHECK_EQ(ibv_free_dm(dm), 0);
		if (!first) {
			ibv_unimport_mr(s.mr);
			ibv_unimport_dm(s.dm);
		}
		end_sharing(&s);
	}
}

/* A region belongs to the domain that it was last registered in, whatever its handles say. */
static void regions_of_other_handles(struct world *w)
{
	static uint8_t mem[64];
	struct shared s = share(w);
	struct ibv_parent_domain_init_attr attr = { .pd = s.other };
	struct ibv_pd *parent = ibv_alloc_parent_domain(s.ctx, &attr), *last = ibv_alloc_pd(w->ctx);
	struct ibv_mr *mr = ibv_reg_mr(s.pd, mem, sizeof(mem), 0), *in_parent, *moved;

	CHECK((in_parent = ibv_import_mr(parent, s.mr->handle)));
	CHECK((moved = ibv_import_mr(s.other, mr->handle)));
	CHECK_EQ(ibv_dereg_mr(in_parent), 0);
	ibv_unimport_mr(s.mr);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, last, NULL, 0, 0), 0);
	CHECK_EQ(ibv_dealloc_pd(last), EBUSY);
	CHECK_EQ(ibv_dereg_mr(moved), 0);
	ibv_unimport_mr(mr);
	CHECK_EQ(ibv_dealloc_pd(last), 0);
	CHECK_EQ(ibv_free_dm(s.dm), 0);
	end_sharing(&s);
}

static void closing_with_objects_inside(struct world *w)
{
	/* Never freed, by contract; static, so that leak checkers find a reference. */
	static struct ibv_context *ctx;
	static struct ibv_pd *pd;
	static struct ibv_cq *cq;
	static struct ibv_qp *qp;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_wc wc;

	CHECK((ctx = ibv_open_device(w->ctx->device)));
	CHECK((pd = ibv_alloc_pd(ctx)));
	CHECK((cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = cq;
	CHECK((qp = ibv_create_qp(pd, &init)));
	CHECK_EQ(ibv_close_device(ctx), 0);
	/* The remaining objects return errors and do no harm. */
	CHECK(ibv_poll_cq(cq, 1, &wc) <= 0);
	CHECK(ibv_destroy_qp(qp) != 0);
	CHECK(ibv_dealloc_pd(pd) != 0);
	CHECK(!ibv_alloc_pd(ctx));
	CHECK(ibv_close_device(ctx) != 0);
}

/* Objects that few programs have, each alone in a context that is closed. */
static void closing_with_one_object_inside(struct world *w)
{
	/* Never freed, as above. */
	static struct ibv_context *with_domain, *with_counter;
	static struct ibv_td *td;
	static struct ibv_comp_cntr *cntr;
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_comp_cntr_init_attr cntr_attr = { .type = IBV_COMP_CNTR_TYPE_WRS };

	CHECK((with_domain = ibv_open_device(w->ctx->device)));
	CHECK((td = ibv_alloc_td(with_domain, &td_attr)));
	CHECK_EQ(ibv_close_device(with_domain), 0);
	CHECK_EQ(ibv_dealloc_td(td), ENODEV);
	CHECK((with_counter = ibv_open_device(w->ctx->device)));
	CHECK((cntr = ibv_create_comp_cntr(with_counter, &cntr_attr)));
	CHECK_EQ(ibv_close_device(with_counter), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(cntr), ENODEV);
}

static void limit_of_domains(struct world *w)
{
	enum { MANY = 1000 };
	static struct ibv_pd *pds[MANY];

	for (int i = 0; i < MANY; i++)
		CHECK((pds[i] = ibv_alloc_pd(w->ctx)));
	for (int i = 1; i < MANY; i++)
		CHECK(pds[i]->handle != pds[i - 1]->handle);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(ibv_dealloc_pd(pds[i]), 0);
}

int main(void)
{
	struct world w;

	lists();
	a_device_outlives_its_list();
	a_context_keeps_its_device();
	world_open(&w);
	attributes(&w);
	import(&w);
	unimport_before_its_objects(&w);
	ended_through_another_handle(&w);
	regions_of_other_handles(&w);
	closing_with_objects_inside(&w);
	closing_with_one_object_inside(&w);
	limit_of_domains(&w);
	world_close(&w);
	return 0;
}
