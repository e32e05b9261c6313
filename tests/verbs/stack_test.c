/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs may give their threads small stacks: everything that a thread does with a connection
 * fits a stack of STACK bytes besides the C library's own use.
 */
#include <pthread.h>

#include "world.h"

enum {
	STACK = 32 * 1024,
	/* several packets, or one message that the receiver reads from the sender's memory */
	LEN = 20000,
};

static struct world w;

static void exchange(struct ibv_qp *qp, struct ibv_cq *cq, struct buffer *from, struct buffer *to)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_READ };
	struct ibv_wc wc[2];

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct ibv_sge sge = world_sge(from, 0, LEN);
		struct ibv_send_wr wr = world_rdma(opcodes[i], 1, &sge, to, 0);

		if (opcodes[i] == IBV_WR_SEND)
			world_recv(qp, 2, world_sge(to, 0, LEN));
		wr.send_flags = IBV_SEND_SIGNALED;
		world_post(qp, &wr);
		world_poll(cq, wc, opcodes[i] == IBV_WR_SEND ? 2 : 1);
		CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	}
}

static void connection(void)
{
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct buffer from = world_buffer(&w, LEN, WORLD_ACCESS),
		      to = world_buffer(&w, LEN, WORLD_ACCESS);

	world_connect(&w, qp, qp);
	exchange(qp, cq, &from, &to);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&from);
	world_free(&to);
}

static void datagrams(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 }
	};
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct buffer mem = world_buffer(&w, 4096, WORLD_ACCESS);
	struct ibv_ah *ah = ibv_create_ah(w.pd, &attr);
	struct ibv_sge sge = world_sge(&mem, 0, 100);
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
	};

	CHECK(ah);
	world_connect(&w, qp, qp);
	world_recv(qp, 2, world_sge(&mem, 1000, 200));
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = WORLD_QKEY;
	world_post(qp, &wr);
	world_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&mem);
}

static void *work(void *arg)
{
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(w.ctx, 1, &port), 0);
	connection();
	datagrams();
	return NULL;
}

/*
 * Even opening the device runs on the small stack: no thread with a larger one has done anything
 * before.
 */
static void *open_and_work(void *arg)
{
	world_open(&w);
	return work(arg);
}

static void on_small_stack(void *(*fn)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setstacksize(&attr, STACK), 0);
	CHECK_EQ(pthread_create(&thread, &attr, fn, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

int main(void)
{
	on_small_stack(open_and_work);
	on_small_stack(work);
	world_close(&w);
	return 0;
}
