/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(): the child owns nothing of the parent's device, cannot harm it, and may open the device
 * for itself.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

struct link {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct buffer from, to;
};

static void link_open(struct link *l)
{
	world_open(&l->w);
	l->cq = world_cq(&l->w, 16);
	l->a = world_qp(&l->w, IBV_QPT_RC, l->cq, NULL);
	l->b = world_qp(&l->w, IBV_QPT_RC, l->cq, NULL);
	world_connect(&l->w, l->a, l->b);
	l->from = world_buffer(&l->w, 64, WORLD_ACCESS);
	l->to = world_buffer(&l->w, 64, WORLD_ACCESS);
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

static void link_close(struct link *l)
{
	world_free(&l->from);
	world_free(&l->to);
	CHECK_EQ(ibv_destroy_qp(l->a), 0);
	CHECK_EQ(ibv_destroy_qp(l->b), 0);
	CHECK_EQ(ibv_destroy_cq(l->cq), 0);
	world_close(&l->w);
}

/* Every call on what was inherited fails. */
static void inherited_is_dead(struct link *l)
{
	struct ibv_sge sge = world_sge(&l->from, 0, 64);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &l->to, 0), *bad;
	struct ibv_recv_wr rwr = { .wr_id = 1 }, *bad_recv;
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct ibv_wc wc;
	union ibv_gid gid;

	CHECK_EQ(ibv_query_device(l->w.ctx, &attr), ENODEV);
	CHECK(ibv_query_gid(l->w.ctx, 1, 0, &gid) != 0);
	CHECK(!ibv_alloc_pd(l->w.ctx));
	CHECK(!ibv_reg_mr(l->w.pd, l->from.data, 64, 0));
	CHECK(!ibv_create_cq(l->w.ctx, 1, NULL, NULL, 0));
	CHECK(ibv_poll_cq(l->cq, 1, &wc) < 0);
	CHECK(ibv_req_notify_cq(l->cq, 0) != 0);
	CHECK(ibv_post_send(l->a, &wr, &bad) != 0);
	CHECK(ibv_post_recv(l->a, &rwr, &bad_recv) != 0);
	CHECK(ibv_get_async_event(l->w.ctx, &ev) != 0);
	CHECK(ibv_dereg_mr(l->from.mr) != 0);
	CHECK(ibv_destroy_qp(l->a) != 0);
	CHECK(ibv_destroy_cq(l->cq) != 0);
	CHECK(ibv_dealloc_pd(l->w.pd) != 0);
	CHECK(ibv_close_device(l->w.ctx) != 0);
}

/*
 * A device of its own, with a progress thread of its own.  Not with the sanitizers: ThreadSanitizer's run-time takes a child for
 * single-threaded, a new thread gets the number of one that the parent had, which ends it; and AddressSanitizer's allocator has no
 * fork handler, a child born while the parent's thread allocates waits for ever.
 */
static void open_anew(struct link *inherited)
{
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	struct link own;

	link_open(&own);
	for (int i = 1; i < 50; i++)
		link_use(&own, i);
	inherited_is_dead(inherited);
	link_close(&own);
#endif
}

static void child(struct link *inherited)
{
	inherited_is_dead(inherited);
	open_anew(inherited);
	_exit(0);
}

int main(void)
{
	struct link l;
	int status;

	CHECK_EQ(ibv_fork_init(), 0);
	CHECK_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	link_open(&l);
	for (int round = 0; round < 3; round++) {
		pid_t pid;

		link_use(&l, round);
		pid = fork();
		if (pid == 0)
			child(&l);
		for (int i = 1; i < 50; i++)
			link_use(&l, i);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
	}
	link_use(&l, 9);
	link_close(&l);
	return 0;
}
