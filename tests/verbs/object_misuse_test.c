/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Misuse of objects: the program has overwritten their members, destroys them twice or uses them
 * after their destruction. Control calls must report it, as a kernel does for an unknown handle.
 */
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;

/* One kind of object: how to create and destroy it, and where its handle and context are. */
static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*destroy)(void *object);
	uint32_t *(*handle)(void *object);
	struct ibv_context **(*context)(void *object);
} *kind;

#define MEMBERS(type)                                                                              \
	static uint32_t *type##_handle(void *o)                                                    \
	{                                                                                          \
		return &((struct ibv_##type *)o)->handle;                                          \
	}                                                                                          \
	static struct ibv_context **type##_context(void *o)                                        \
	{                                                                                          \
		return &((struct ibv_##type *)o)->context;                                         \
	}

MEMBERS(pd)
MEMBERS(mr)
MEMBERS(cq)
MEMBERS(qp)
MEMBERS(srq)

static uint8_t memory[64];

static void *make_pd(void) { return ibv_alloc_pd(w.ctx); }
static int free_pd(void *o) { return ibv_dealloc_pd(o); }
static void *make_mr(void) { return ibv_reg_mr(w.pd, memory, sizeof(memory), 0); }
static int free_mr(void *o) { return ibv_dereg_mr(o); }
static void *make_cq(void) { return world_cq(&w, 4); }
static int free_cq(void *o) { return ibv_destroy_cq(o); }
static void *make_qp(void) { return world_qp(&w, IBV_QPT_RC, cq, NULL); }
static int free_qp(void *o) { return ibv_destroy_qp(o); }
static int free_srq(void *o) { return ibv_destroy_srq(o); }

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(w.pd, &attr);
}

static const struct kind kinds[] = {
#define KIND(type) { #type, make_##type, free_##type, type##_handle, type##_context }
	KIND(pd), KIND(mr), KIND(cq), KIND(qp), KIND(srq),
};

/* A failing call changes nothing: once the members are restored, the object can be destroyed. */
static void overwritten_members(void)
{
	void *o = kind->make();
	struct ibv_context *context = *kind->context(o);
	uint32_t handle = *kind->handle(o);

	*kind->handle(o) ^= 0xffff;
	CHECK_EQ(kind->destroy(o), ENOENT);
	*kind->handle(o) = handle;
	*kind->context(o) = NULL;
	CHECK_EQ(kind->destroy(o), ENOENT);
	*kind->context(o) = (struct ibv_context *)&w;
	CHECK_EQ(kind->destroy(o), ENOENT);
	*kind->context(o) = context;
	CHECK_EQ(kind->destroy(o), 0);
}

static void destroyed_twice(void)
{
	void *o = kind->make();

	CHECK_EQ(kind->destroy(o), 0);
	CHECK_EQ(kind->destroy(o), ENOENT);
	CHECK_EQ(errno, ENOENT);
}

static void expect_refused(void *made)
{
	CHECK(!made);
	CHECK_EQ(errno, ENOENT);
}

/* Objects that are arguments for the creation of others. */
static void arguments_of_creation(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(w.ctx);
	struct ibv_cq *gone = world_cq(&w, 4);
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = gone, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	pd->handle ^= 1;
	expect_refused(ibv_reg_mr(pd, memory, sizeof(memory), 0));
	expect_refused(ibv_create_srq(pd, &srq_attr));
	expect_refused(ibv_create_qp(pd, &attr));
	pd->handle ^= 1;
	gone->handle ^= 1;
	expect_refused(ibv_create_qp(pd, &attr));
	gone->handle ^= 1;
	CHECK_EQ(ibv_destroy_cq(gone), 0);
	expect_refused(ibv_create_qp(pd, &attr));
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	expect_refused(ibv_reg_mr(pd, memory, sizeof(memory), 0));
}

static void calls_on_an_overwritten_qp(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;

	qp->handle ^= 1;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), ENOENT);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), ENOENT);
	qp->handle ^= 1;
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RESET);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

int main(void)
{
	struct ibv_comp_channel *channel;

	world_open(&w);
	cq = world_cq(&w, 4);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		kind = &kinds[i];
		overwritten_members();
		destroyed_twice();
	}
	channel = ibv_create_comp_channel(w.ctx);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), ENOENT);
	arguments_of_creation();
	calls_on_an_overwritten_qp();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
