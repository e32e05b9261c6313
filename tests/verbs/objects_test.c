/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does to its objects behind the library's back: members that it has garbled, and
 * objects that it destroys twice or names after their end.  Control calls tell, as a kernel would
 * that is given a handle that it does not know.
 */
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;

/* One object of a kind: how it is made and destroyed, and where its handle and its context are. */
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

/* A call that fails changes nothing: the object can be destroyed once it is mended. */
static void garbled_members(void)
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

static void refused(void *made)
{
	CHECK(!made);
	CHECK_EQ(errno, ENOENT);
}

/* Objects that are named to make others of. */
static void named_by_others(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(w.ctx);
	struct ibv_cq *gone = world_cq(&w, 4);
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = gone, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	pd->handle ^= 1;
	refused(ibv_reg_mr(pd, memory, sizeof(memory), 0));
	refused(ibv_create_srq(pd, &srq_attr));
	refused(ibv_create_qp(pd, &attr));
	pd->handle ^= 1;
	gone->handle ^= 1;
	refused(ibv_create_qp(pd, &attr));
	gone->handle ^= 1;
	CHECK_EQ(ibv_destroy_cq(gone), 0);
	refused(ibv_create_qp(pd, &attr));
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	refused(ibv_reg_mr(pd, memory, sizeof(memory), 0));
}

static void calls_on_a_garbled_qp(void)
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
		garbled_members();
		destroyed_twice();
	}
	channel = ibv_create_comp_channel(w.ctx);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), ENOENT);
	named_by_others();
	calls_on_a_garbled_qp();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
