/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(): the child owns none of the parent's objects and cannot damage them. In the child the
 * inherited context and protection domain are replaced by new ones, and the child can open the
 * device itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_single.h"
#include "world.h"

struct link {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct buffer from, to;
};

/* Creates objects in the open world. */
static void link_make(struct link *l)
{
	l->cq = world_cq(&l->w, 16);
	l->a = world_qp(&l->w, IBV_QPT_RC, l->cq, NULL);
	l->b = world_qp(&l->w, IBV_QPT_RC, l->cq, NULL);
	world_connect(&l->w, l->a, l->b);
	l->from = world_buffer(&l->w, 64, WORLD_ACCESS);
	l->to = world_buffer(&l->w, 64, WORLD_ACCESS);
}

static void link_open(struct link *l)
{
	world_open(&l->w);
	link_make(l);
}

static void link_use(struct link *l, uint8_t value)
{
	struct ibv_sge sge = world_sge(&l->from, 0, 64);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, value, &sge, &l->to, 0);

	memset(l->from.data, value, 64);
	world_post(l->a, &wr);
	world_expect(l->cq, value, IBV_WC_SUCCESS);
	CHECK_MEM(l->from.data, l->to.data, 64);
}

static void link_free(struct link *l)
{
	world_free(&l->from);
	world_free(&l->to);
	CHECK_EQ(ibv_destroy_qp(l->a), 0);
	CHECK_EQ(ibv_destroy_qp(l->b), 0);
	CHECK_EQ(ibv_destroy_cq(l->cq), 0);
}

static void link_close(struct link *l)
{
	link_free(l);
	world_close(&l->w);
}

/* Every call on the parent's objects fails in the child. */
static void parent_objects_fail(struct link *l)
{
	struct ibv_sge sge = world_sge(&l->from, 0, 64);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &l->to, 0), *bad;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *bad_recv;
	struct ibv_qp_init_attr init = { .send_cq = l->cq,
					 .recv_cq = l->cq,
					 .qp_type = IBV_QPT_RC };
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(l->cq, 1, &wc) < 0);
	CHECK_EQ(ibv_req_notify_cq(l->cq, 0), ENODEV);
	CHECK_EQ(ibv_post_send(l->a, &wr, &bad), ENODEV);
	CHECK_EQ(ibv_post_recv(l->a, &rwr, &bad_recv), ENODEV);
	CHECK_EQ(ibv_dereg_mr(l->from.mr), ENODEV);
	CHECK_EQ(ibv_destroy_qp(l->a), ENODEV);
	CHECK_EQ(ibv_destroy_cq(l->cq), ENODEV);
	CHECK(!ibv_create_qp(l->w.pd, &init));
	CHECK_EQ(errno, ENODEV);
}

/* The child opens a device of its own with a progress thread of its own. */
static void open_in_child(struct link *inherited)
{
	struct link own;

	link_open(&own);
	for (int i = 1; i < 50; i++)
		link_use(&own, i);
	parent_objects_fail(inherited);
	link_close(&own);
}

/*
 * In the child the inherited context stands for a device of the child: events go to it and not to
 * the parent.
 */
static void use_inherited_context(const struct link *inherited)
{
	struct link l = { .w = inherited->w };
	struct ibv_alloc_dm_attr dm_attr = { .length = 4 };
	struct ibv_device_attr attr;
	struct ibv_parent_domain_init_attr domain = { .pd = l.w.pd };
	struct ibv_pd *parent_domain, *pd = ibv_alloc_pd(l.w.ctx);
	struct ibv_dm *dm = ibv_alloc_dm(l.w.ctx, &dm_attr);

	CHECK(pd && dm);
	CHECK_EQ(ibv_query_device(l.w.ctx, &attr), 0);
	link_make(&l);
	for (int i = 1; i < 50; i++)
		link_use(&l, i);
	CHECK(!world_has_event(&l.w));
	world_move(&l.w, l.a, IBV_QPS_ERR, 0);
	parent_domain = ibv_alloc_parent_domain(l.w.ctx, &domain);
	CHECK(parent_domain);
	CHECK_EQ(ibv_dealloc_pd(l.w.pd), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(parent_domain), 0);
	link_free(&l);
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/*
 * The child's child inherits the objects that the child created through its inherited context, and
 * continues in the same way.
 */
static void grandchild(const struct link *inherited)
{
	pid_t pid = fork();

	if (pid == 0) {
		use_inherited_context(inherited);
		_exit(0);
	}
	wait_for(pid);
}

static void child(struct link *inherited, int round)
{
	parent_objects_fail(inherited);
	if (round != 1)
		use_inherited_context(inherited);
	open_in_child(inherited);
	grandchild(inherited);
	if (round != 1)
		CHECK_EQ(ibv_dealloc_pd(inherited->w.pd), 0);
	CHECK_EQ(ibv_close_device(inherited->w.ctx), 0);
	CHECK_EQ(ibv_close_device(inherited->w.ctx), -1);
	CHECK_EQ(errno, ENODEV);
	CHECK(!ibv_alloc_pd(inherited->w.ctx));
	CHECK_EQ(errno, ENODEV);
	_exit(0);
}

static bool enough;	/* atomic */
static unsigned int cycles;	/* atomic */

static void *open_and_close(void *arg)
{
	while (!__atomic_load_n(&enough, __ATOMIC_ACQUIRE)) {
		struct world w;

		world_open(&w);
		world_close(&w);
		__atomic_add_fetch(&cycles, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/*
 * A child that is forked while other threads open and close devices inherits no lock of theirs: it
 * opens and closes a device of its own.
 */
static void test_beside_a_closing_device(void)
{
	enum { THREADS = 2, FORKS = 60 };
	pthread_t thread[THREADS];

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	left_out(1, "sanitizers do not support fork with several threads");
	return;
#endif
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, open_and_close, NULL), 0);
	while (__atomic_load_n(&cycles, __ATOMIC_ACQUIRE) < THREADS)
		sched_yield();
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct world own;

			alarm(WORLD_LIMIT_S * test_slower());
			world_open(&own);
			world_close(&own);
			_exit(0);
		}
		wait_for(pid);
	}
	__atomic_store_n(&enough, true, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
}

int main(void)
{
	struct link l;

	fork_single_threaded();
	CHECK_EQ(ibv_fork_init(), 0);
	CHECK_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	link_open(&l);
	for (int round = 0; round < 3; round++) {
		pid_t pid;

		link_use(&l, round);
		pid = fork();
		if (pid == 0)
			child(&l, round);
		for (int i = 1; i < 50; i++)
			link_use(&l, i);
		wait_for(pid);
	}
	link_use(&l, 9);
	link_close(&l);
	test_beside_a_closing_device();
	return 0;
}
