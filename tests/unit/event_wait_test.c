/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking a completion event from a channel that does not block: EAGAIN where none is raised,
 * without polling, also where waits are so short that a blocking one would poll; and where several
 * threads take, each event comes to one of them.  The progress thread is stopped, so that nobody
 * takes packets but whoever polls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/cq/comp_channel.h"
#include "core/cq/cq.h"
#include "core/qp/qp.h"
#include "place.h"
#include "run/progress.h"
#include "util/atomic.h"

enum {
	EVENTS = 2000,
	TAKERS = 3,
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static volatile uint64_t memory[2];

static void move(struct ibv_qp_attr attr, int mask)
{
	assert_int_equal(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), 0);
}

/* A QP that is its own peer; as if that were elsewhere, so that posting runs nothing here. */
static void connect_to_itself(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &ah.grh.dgid), 0);
	move((struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE },
	     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	move((struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qp->qp_num, .min_rnr_timer = 1, .ah_attr = ah },
	     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	move((struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .retry_cnt = 7, .rnr_retry = 7 },
	     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		     IBV_QP_MAX_QP_RD_ATOMIC);
	to_vrb_qp(qp)->post.same_process = false;
}

static void post_write(void)
{
	struct ibv_sge sge = { (uintptr_t)&memory[0], sizeof(memory[0]), mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
					.num_sge = 1 };

	memory[0]++;
	wr.wr.rdma.remote_addr = (uintptr_t)&memory[1];
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void expect_success(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* As if the last waits had been short: the next one begins with polling. */
static void expect_short_waits(void)
{
	struct busy_poll *p = &((struct vrb_channel *)channel)->busy_poll;

	store_relaxed(&p->step, 0);
	store_relaxed(&p->sleeps, 0);
}

static int take(void)
{
	struct ibv_cq *from;
	void *context;

	if (ibv_get_cq_event(channel, &from, &context))
		return errno;
	assert_ptr_equal(from, cq);
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/* The request lies in the socket, and whoever polls would run it. */
static void it_does_not_poll(void **state)
{
	expect_short_waits();
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	post_write();
	assert_int_equal(take(), EAGAIN);
	assert_int_not_equal(memory[1], memory[0]);
	expect_success();
	assert_int_equal(memory[1], memory[0]);
	assert_int_equal(take(), 0);
	assert_int_equal(take(), EAGAIN);
}

/* poll(2) says that an event waits, and another thread takes it. */
static void *take_one(void *result)
{
	*(int *)result = take();
	return NULL;
}

static void another_takes_it_between_poll_and_read(void **state)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	pthread_t other;
	int result;

	expect_short_waits();
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	post_write();
	expect_success();
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(pthread_create(&other, NULL, take_one, &result), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(result, 0);
	assert_int_equal(take(), EAGAIN);
	assert_int_equal(poll(&p, 1, 0), 0);
}

static unsigned int taken;	/* atomic */

static void *take_all(void *arg)
{
	while (load_relaxed(&taken) < EVENTS) {
		int ret = take();

		if (!ret)
			fetch_add_relaxed(&taken, 1);
		else if (ret == EAGAIN)
			sched_yield();
		else
			return (void *)"an errno that it must not have";
	}
	return NULL;
}

static void several_take_each_event_once(void **state)
{
	pthread_t taker[TAKERS];
	void *result;

	taken = 0;
	for (int i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&taker[i], NULL, take_all, NULL), 0);
	for (unsigned int i = 0; i < EVENTS; i++) {
		expect_short_waits();
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		post_write();
		expect_success();
	}
	for (int i = 0; i < TAKERS; i++) {
		assert_int_equal(pthread_join(taker[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(load_relaxed(&taken), EVENTS);
	assert_int_equal(take(), EAGAIN);
}

static char dir[64];

static int set_up(void **state)
{
	struct ibv_device **list;
	char port[8];
	int n = 0;

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_TRANSPORT", "udp", 1);
	setenv("VERBENA_LOG", "off", 0);
	list = ibv_get_device_list(&n);
	ctx = n ? ibv_open_device(list[n - 1]) : NULL;
	ibv_free_device_list(list);
	assert_non_null(ctx);
	progress_stop(vrb.progress);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	assert_true(pd && channel);
	cq = ibv_create_cq(ctx, 8, NULL, channel, 0);
	mr = ibv_reg_mr(pd, (void *)memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_true(cq && mr);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	connect_to_itself();
	return 0;
}

static int tear_down(void **state)
{
	int ret = ibv_destroy_qp(qp) || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) ||
		  ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(pd) ||
		  ibv_close_device(ctx);

	place_remove_dir(dir);
	return ret;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_does_not_poll),
		cmocka_unit_test(another_takes_it_between_poll_and_read),
		cmocka_unit_test(several_take_each_event_once),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
