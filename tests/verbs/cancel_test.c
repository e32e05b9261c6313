/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread cancellation: posting, polling and arming a CQ must not be cancellation points, since a
 * thread that ended there would leave locks held. Each thread here cancels itself first, so it
 * would end at the first cancellation point of the C library.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "raw_bench.h"

enum {
	ROUNDS = 50,
	LEN = 4096,
	TIMEOUT = 8,	/* a millisecond */
};

static struct world w;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *rc, *ud;
static struct ibv_ah *ah;
static struct buffer buf;
static struct bench raw;
static atomic_bool not_cancelled;

static void set_up(void)
{
	struct ibv_ah_attr to;

	channel = ibv_create_comp_channel(w.ctx);
	CHECK(channel);
	cq = ibv_create_cq(w.ctx, 32, NULL, channel, 0);
	CHECK(cq);
	buf = world_buffer(&w, 2 * LEN, WORLD_ACCESS);
	rc = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, rc, rc);
	ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	world_connect(&w, ud, ud);
	to = (struct ibv_ah_attr){ .is_global = 1,
				   .port_num = 1,
				   .grh = { .dgid = w.gid, .sgid_index = (uint8_t)w.gid_index } };
	ah = ibv_create_ah(w.pd, &to);
	CHECK(ah);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(rc), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&buf);
}

static void finish(int n)
{
	struct ibv_wc wc[4];

	world_poll(cq, wc, n);
	for (int i = 0; i < n; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
}

static void arm(void)
{
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
}

static void send_and_receive(void)
{
	arm();
	world_recv(rc, 1, world_sge(&buf, LEN, LEN));
	world_send(rc, 2, world_sge(&buf, 0, LEN));
	finish(2);
}

static void one_sided(void)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_sge sge =
			world_sge(&buf, 0, opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LEN);
		struct ibv_send_wr wr = world_rdma(opcodes[i], 1, &sge, &buf, LEN);

		arm();
		world_post(rc, &wr);
		finish(1);
	}
}

static void datagram(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 64);
	struct ibv_send_wr wr = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = ud->qp_num, .remote_qkey = WORLD_QKEY }
	};

	arm();
	world_recv(ud, 1, world_sge(&buf, LEN, 256));
	world_post(ud, &wr);
	finish(2);
}

static void refused_request(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 99, .opcode = IBV_WR_SEND }, *bad;

	CHECK(ibv_post_send(rc, &wr, &bad) != 0);
}

/* A WRITE with an invalid rkey to a QP number, or to the QP itself if `peer` is 0. */
static void failure(uint32_t peer, enum ibv_wc_status status)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 0);
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;
	int mask, cancel;

	/* Creating and connecting a QP may be cancellation points. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	if (!peer)
		peer = qp->qp_num;
	world_move(&w, qp, IBV_QPS_INIT, peer);
	world_move(&w, qp, IBV_QPS_RTR, peer);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, peer, &attr);
	attr.timeout = TIMEOUT;
	attr.retry_cnt = 2;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	pthread_setcancelstate(cancel, NULL);

	wr.wr.rdma.rkey ^= 0xff;
	arm();
	world_post(qp, &wr);
	world_expect(cq, 1, status);

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	pthread_setcancelstate(cancel, NULL);
}

static void unanswered_request(void)
{
	failure(2, IBV_WC_RETRY_EXC_ERR);
}

static void refused_access(void)
{
	/* the QP is its own responder, which fails first and raises an asynchronous event */
	failure(0, IBV_WC_WR_FLUSH_ERR);
}

static void raw_frame(void)
{
	struct ibv_sge out = world_sge(&raw.out, 0, 100), in = world_sge(&raw.in, 0, 100);

	ethernet(raw.out.data, 0x88b5);
	receive_into(raw.qp, 1, &in, 1);
	post(raw.qp, 2, &out, 1, 0);
	both(raw.cq);
}

static void *cancelled_thread(void *arg)
{
	void (*const *action)(void) = arg;

	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	for (int i = 0; i < ROUNDS; i++)
		(*action)();
	atomic_store(&not_cancelled, true);
	pthread_testcancel();
	return NULL;
}

/* The same action succeeds before and after the cancelled thread ran it. */
static void test_action(void (*action)(void))
{
	pthread_t thread;
	void *end;

	action();
	atomic_store(&not_cancelled, false);
	CHECK_EQ(pthread_create(&thread, NULL, cancelled_thread, &action), 0);
	CHECK_EQ(pthread_join(thread, &end), 0);
	CHECK(end == PTHREAD_CANCELED);
	CHECK(atomic_load(&not_cancelled));
	action();
}

/* Also while a sniffer gets a copy of each packet. */
static void test_frames(void)
{
	struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_SNIFFER,
				     .size = sizeof(all),
				     .port = 1 };
	struct ibv_flow *sniffer;
	struct ibv_qp *qp;

	open_bench(&raw, 0);
	test_action(raw_frame);
	qp = new_qp(&raw, NULL, 0);
	to_rts(qp);
	sniffer = ibv_create_flow(qp, &all);
	CHECK(sniffer);
	test_action(send_and_receive);
	test_action(datagram);
	CHECK_EQ(ibv_destroy_flow(sniffer), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	close_bench(&raw);
}

int main(void)
{
	setenv("VERBENA_LOG", "debug", 1);
	setenv("VERBENA_LOG_FILE", "/dev/null", 1);
	world_open(&w);
	set_up();
	test_action(send_and_receive);
	test_action(one_sided);
	test_action(datagram);
	test_action(refused_request);
	test_action(refused_access);
	test_action(unanswered_request);
	test_frames();
	tear_down();
	world_close(&w);
	return 0;
}
