/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that succeed leave errno alone: a wrapper that looks at it instead of the result, as in Go,
 * would see a failure.
 */
#include <errno.h>

#include "world.h"

enum {
	BEFORE = 4242,	/* no errno value */
	POLLS = 3000,	/* enough to read sockets and to yield */
};

#define KEEPS(call)                                                                                \
	do {                                                                                       \
		errno = BEFORE;                                                                    \
		call;                                                                              \
		CHECK_EQ(errno, BEFORE);                                                           \
	} while (0)
#define SUCCEEDS(call) KEEPS(CHECK_EQ(call, 0))
#define MAKES(object) KEEPS(CHECK(object))

static struct world w;

static struct ibv_context *open_last(void)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	int n;

	MAKES(list = ibv_get_device_list(&n));
	MAKES(ibv_get_device_name(list[n - 1]));
	KEEPS(ibv_get_device_guid(list[n - 1]));
	MAKES(ctx = ibv_open_device(list[n - 1]));
	KEEPS(ibv_free_device_list(list));
	return ctx;
}

static void query(void)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry[16];
	union ibv_gid gid;
	__be16 pkey;

	SUCCEEDS(ibv_query_device(w.ctx, &attr));
	SUCCEEDS(ibv_query_device_ex(w.ctx, NULL, &ex));
	SUCCEEDS(ibv_query_port(w.ctx, 1, &port));
	SUCCEEDS(ibv_query_gid(w.ctx, 1, w.gid_index, &gid));
	SUCCEEDS(ibv_query_gid_ex(w.ctx, 1, w.gid_index, entry, 0));
	KEEPS(CHECK(ibv_query_gid_table(w.ctx, entry, 16, 0) > 0));
	SUCCEEDS(ibv_query_pkey(w.ctx, 1, 0, &pkey));
}

static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		int mask = world_attr(&w, IBV_QPT_RC, s, qp->qp_num, &attr);

		SUCCEEDS(ibv_modify_qp(qp, &attr, mask));
	}
	SUCCEEDS(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
}

static void poll_until(struct ibv_cq *cq, int wanted)
{
	struct ibv_wc wc;

	for (int got = 0; got < wanted;) {
		int n;

		KEEPS(n = ibv_poll_cq(cq, 1, &wc));
		CHECK(n >= 0);
		CHECK(!n || wc.status == IBV_WC_SUCCESS);
		got += n;
	}
	for (int i = 0; i < POLLS; i++)
		KEEPS(CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0));
}

static void transfer(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_comp_channel *channel,
		     struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_cq *event_cq;
	void *context;

	SUCCEEDS(ibv_req_notify_cq(cq, 0));
	SUCCEEDS(ibv_post_recv(qp, &recv, &bad_recv));
	SUCCEEDS(ibv_post_send(qp, &send, &bad));
	SUCCEEDS(ibv_get_cq_event(channel, &event_cq, &context));
	KEEPS(ibv_ack_cq_events(cq, 1));
	poll_until(cq, 2);
	send.opcode = IBV_WR_RDMA_WRITE;
	send.wr.rdma.remote_addr = sge.addr + 64;
	send.wr.rdma.rkey = mr->rkey;
	SUCCEEDS(ibv_post_send(qp, &send, &bad));
	poll_until(cq, 1);
}

static void use(void)
{
	static uint8_t memory[4096];
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
				  .grh = { .dgid = w.gid, .sgid_index = w.gid_index } };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 } };
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mw *mw;

	MAKES(w.pd = ibv_alloc_pd(w.ctx));
	MAKES(mr = ibv_reg_mr(w.pd, memory, sizeof(memory), WORLD_ACCESS));
	MAKES(channel = ibv_create_comp_channel(w.ctx));
	MAKES(cq = ibv_create_cq(w.ctx, 16, NULL, channel, 0));
	SUCCEEDS(ibv_resize_cq(cq, 64));
	MAKES(srq = ibv_create_srq(w.pd, &srq_attr));
	MAKES(ah = ibv_create_ah(w.pd, &to));
	MAKES(mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1));
	attr.send_cq = attr.recv_cq = cq;
	MAKES(qp = ibv_create_qp(w.pd, &attr));
	connect_to_itself(qp);
	transfer(qp, cq, channel, mr);
	SUCCEEDS(ibv_destroy_qp(qp));
	SUCCEEDS(ibv_dealloc_mw(mw));
	SUCCEEDS(ibv_destroy_ah(ah));
	SUCCEEDS(ibv_destroy_srq(srq));
	SUCCEEDS(ibv_destroy_cq(cq));
	SUCCEEDS(ibv_destroy_comp_channel(channel));
	SUCCEEDS(ibv_dereg_mr(mr));
	SUCCEEDS(ibv_dealloc_pd(w.pd));
}

int main(void)
{
	struct ibv_context *ctx;

	/* The library's first call comes before the world has opened the device. */
	ctx = open_last();
	world_open(&w);
	CHECK_EQ(ibv_dealloc_pd(w.pd), 0);
	query();
	for (int i = 0; i < 2; i++)
		use();
	SUCCEEDS(ibv_close_device(ctx));
	SUCCEEDS(ibv_close_device(w.ctx));
	return 0;
}
