/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that got no processor for a while: its deadline has passed, and the answer lies in its
 * socket.  No thread polls here but the test: the progress thread is stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"
#include "core/tx/tx_sched.h"
#include "place.h"
#include "run/clock.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/time.h"
#include "wire/wire.h"

enum {
	TIMEOUT = 10,	/* 4.2 ms */
	JUNK = 100,	/* datagrams that came before the answer: more than a poll takes */
};

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static volatile uint64_t memory[2];

static void move(struct ibv_qp_attr attr, int mask)
{
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

/* A QP that is its own peer. */
static void connect_to_itself(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	qp = ibv_create_qp(pd, &init);
	assert_non_null(qp);
	move(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = qp->qp_num,
				     .min_rnr_timer = 1,
				     .ah_attr = { .is_global = 1, .port_num = 1 } };
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &attr.ah_attr.grh.dgid), 0);
	move(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = 7, .rnr_retry = 7
	};
	move(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	/* as if its peer were elsewhere: posting runs nothing here */
	to_vrb_qp(qp)->post.same_process = false;
}

static void post_write(void)
{
	struct ibv_sge sge = { (uintptr_t)&memory[0], sizeof(memory[0]), mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.sg_list = &sge,
					.num_sge = 1 };

	wr.wr.rdma.remote_addr = (uintptr_t)&memory[1];
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/*
 * A request is posted and answered. The answer lies in the socket, behind so many datagrams that
 * are no packets.
 */
static void answer_behind(unsigned int junk)
{
	struct wire_pkt pkt = { .path = to_vrb_qp(qp)->wq.path,
				.data = (uint8_t[8]){ 0 },
				.len = 8 };

	memory[0]++;
	post_write();
	while (memory[1] != memory[0])
		vrb_poll_once(load_relaxed(&to_vrb_cq(cq)->shards));
	for (unsigned int i = 0; i < junk; i++)
		assert_int_equal(wire_send(vrb.wire, &pkt, 1), 1);
	vrb_tx_try_flush_delayed();
}

static void deadline_passes(void)
{
	while (!time_reached(to_vrb_qp(qp)->roce.retry.ack_deadline, clock_now()))
		;
}

static uint64_t retransmitted(void)
{
	return roce_qp_counters(&to_vrb_qp(qp)->roce)->retransmitted_pkts;
}

static void expect_success(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void the_thread_reads_before_it_expires(void **state)
{
	for (unsigned int junk = 0; junk <= JUNK; junk += JUNK) {
		uint64_t before;

		answer_behind(junk);
		deadline_passes();
		before = retransmitted();
		vrb_progress_ops.expire(NULL, clock_now());
		assert_int_equal(retransmitted(), before);
		expect_success();
	}
}

static void a_poller_reads_before_it_expires(void **state)
{
	uint64_t before;

	answer_behind(JUNK);
	deadline_passes();
	before = retransmitted();
	vrb_poll_once(load_relaxed(&to_vrb_cq(cq)->shards));
	assert_int_equal(retransmitted(), before);
	expect_success();
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
	cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, (void *)memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_true(pd && cq && mr);
	connect_to_itself();
	return 0;
}

static int tear_down(void **state)
{
	int ret = ibv_destroy_qp(qp) || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) ||
		  ibv_dealloc_pd(pd) || ibv_close_device(ctx);

	place_remove_dir(dir);
	return ret;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_thread_reads_before_it_expires),
		cmocka_unit_test(a_poller_reads_before_it_expires),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
