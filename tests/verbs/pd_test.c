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
	attr.free = NULL;	/* nothing was allocated */
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

/* ibv_alloc_parent_domain(3): the program's allocator provides the memory of queues. */
enum answer { OWN, DEFAULT, NOTHING };

static struct allocator {
	struct ibv_pd *pd;
	enum answer answer;
	int live;		/* allocated and not freed */
	unsigned int asked;	/* bit mask of resource types */
	size_t alignment;
} allocator;

static void *provide(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		     uint64_t type)
{
	struct allocator *a = context;
	uint8_t *mem;

	CHECK(a == &allocator && pd == a->pd && type && type < 8);
	CHECK_EQ(alignment, sysconf(_SC_PAGESIZE));
	CHECK(size && size % alignment == 0);
	a->alignment = alignment;
	a->asked |= 1u << type;
	if (a->answer != OWN)
		return a->answer == DEFAULT ? IBV_ALLOCATOR_USE_DEFAULT : NULL;
	CHECK((mem = aligned_alloc(alignment, alignment + size)));
	memcpy(mem, &type, sizeof(type));	/* in front, to compare it when it is freed */
	memset(mem + alignment, 0xa5, size);
	a->live++;
	return mem + alignment;
}

static void take_back(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
	struct allocator *a = context;
	uint8_t *mem = (uint8_t *)ptr - a->alignment;

	CHECK(a == &allocator && pd == a->pd);
	CHECK_MEM(mem, &type, sizeof(type));
	a->live--;
	free(mem);
}

struct queues {
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *shared;
	struct ibv_wq *wq;
};

static void *made(void *object)
{
	CHECK(object || (allocator.answer == NOTHING && errno == ENOMEM));
	return object;
}

/* What fails for want of memory is NULL; the QPs then use the world's CQ. */
static struct queues make_queues(struct world *w, struct ibv_cq *other)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 20, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					  .parent_domain = allocator.pd };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 5, .max_sge = 1 } };
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 5, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 5, .max_sge = 1,
				       .pd = allocator.pd };
	struct queues q = { 0 };

	q.cq = made(ibv_create_cq_ex(w->ctx, &cq));
	qp.send_cq = qp.recv_cq = wq.cq = q.cq ? ibv_cq_ex_to_cq(q.cq) : other;
	q.srq = made(ibv_create_srq(allocator.pd, &srq));
	q.qp = made(ibv_create_qp(allocator.pd, &qp));
	qp.srq = q.srq;
	q.shared = made(ibv_create_qp(allocator.pd, &qp));
	q.wq = made(ibv_create_wq(w->ctx, &wq));
	return q;
}

/* Messages through each queue, before and after two of them get another size. */
static void use_queues(struct world *w, struct queues *q)
{
	struct buffer buf = world_buffer(w, 128, WORLD_ACCESS);
	struct ibv_srq_attr attr = { .max_wr = 300 };
	struct ibv_sge to = world_sge(&buf, 64, 64);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad;
	struct ibv_wc wc[2];

	world_connect(w, q->qp, q->shared);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 40; i++) {
			if (i & 1)
				CHECK_EQ(ibv_post_srq_recv(q->srq, &recv, &bad), 0);
			else
				world_recv(q->qp, 1, to);
			world_send(i & 1 ? q->qp : q->shared, 1, world_sge(&buf, 0, 64));
			world_poll(ibv_cq_ex_to_cq(q->cq), wc, 2);
			CHECK(!wc[0].status && !wc[1].status);
		}
		CHECK_EQ(ibv_modify_srq(q->srq, &attr, IBV_SRQ_MAX_WR), 0);
		CHECK_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(q->cq), 300), 0);
	}
	world_free(&buf);
}

static void destroy_queues(struct queues *q)
{
	CHECK_EQ(q->wq ? ibv_destroy_wq(q->wq) : 0, 0);
	CHECK_EQ(q->qp ? ibv_destroy_qp(q->qp) : 0, 0);
	CHECK_EQ(q->shared ? ibv_destroy_qp(q->shared) : 0, 0);
	CHECK_EQ(q->srq ? ibv_destroy_srq(q->srq) : 0, 0);
	CHECK_EQ(q->cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)) : 0, 0);
}

static void allocators(struct world *w)
{
	enum { QP = 1, WQ = 2, SRQ = 4, CQ = 5 };
	struct ibv_parent_domain_init_attr attr = {
		.pd = w->pd,
		.alloc = provide,
		.free = take_back,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.pd_context = &allocator,
	};
	struct ibv_cq *other = world_cq(w, 20);

	CHECK((allocator.pd = ibv_alloc_parent_domain(w->ctx, &attr)));
	for (enum answer answer = OWN; answer <= NOTHING; answer++) {
		struct queues q;

		allocator.answer = answer;
		allocator.asked = 0;
		q = make_queues(w, other);
		CHECK_EQ(allocator.asked, 1 << QP | 1 << WQ | 1 << SRQ | 1 << CQ);
		CHECK_EQ(allocator.live, answer == OWN ? 5 : 0);
		if (answer == NOTHING)
			CHECK(!q.cq && !q.srq && !q.qp && !q.shared && !q.wq);
		else
			use_queues(w, &q);
		CHECK_EQ(allocator.live, answer == OWN ? 5 : 0);
		destroy_queues(&q);
		CHECK_EQ(allocator.live, 0);
	}
	CHECK_EQ(ibv_destroy_cq(other), 0);
	CHECK_EQ(ibv_dealloc_pd(allocator.pd), 0);
}

/* A refused change of size keeps the queue. */
static void refused_resizing(struct world *w)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = w->pd,
		.alloc = provide,
		.free = take_back,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.pd_context = &allocator,
	};
	struct ibv_srq_attr more = { .max_wr = 300 };
	struct queues q;

	CHECK((allocator.pd = ibv_alloc_parent_domain(w->ctx, &attr)));
	allocator.answer = OWN;
	q = make_queues(w, NULL);
	allocator.answer = NOTHING;
	CHECK_EQ(ibv_modify_srq(q.srq, &more, IBV_SRQ_MAX_WR), ENOMEM);
	CHECK_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(q.cq), 300), ENOMEM);
	allocator.answer = DEFAULT;
	CHECK_EQ(ibv_modify_srq(q.srq, &more, IBV_SRQ_MAX_WR), 0);
	CHECK_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(q.cq), 300), 0);
	CHECK_EQ(allocator.live, 3);
	use_queues(w, &q);
	destroy_queues(&q);
	CHECK_EQ(allocator.live, 0);
	CHECK_EQ(ibv_dealloc_pd(allocator.pd), 0);
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
	allocators(&w);
	refused_resizing(&w);
	device_memory(&w);
	world_close(&w);
	return 0;
}
