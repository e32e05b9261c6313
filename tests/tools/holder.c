/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process for tests to inspect: a region, a CQ of 63 entries and an RC queue pair that is
 * connected to itself, with 3 receives posted; $HOLDER_MORE more regions; $HOLDER_MISTAKES: objects
 * with which a program would wait for ever. It prints "ready" with its QP number, does one SEND for
 * each line on stdin, and ends at the end of its input.
 */
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum { SIZE = 4096 };

static struct ibv_context *open_loopback(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	/* Loopback is the last device. */
	for (int i = 0; list && list[i]; i++)
		if (!list[i + 1])
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		exit(2);
	return ctx;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		exit(10);
}

static struct ibv_qp *create(struct ibv_pd *pd, enum ibv_qp_type type, struct ibv_cq *send_cq,
			     struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .send_cq = send_cq, .recv_cq = cq, .qp_type = type,
					 .cap = { 8, 16, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp)
		exit(3);
	to_init(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = peer->qp_num,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .ah_attr = {
					    .is_global = 1, .port_num = 1, .grh.hop_limit = 1 } };
	int fail = ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid);

	fail |= ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	fail |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (fail)
		exit(4);
}

static struct ibv_qp *connect_to_itself(struct ibv_pd *pd, struct ibv_cq *send_cq,
					struct ibv_cq *cq)
{
	struct ibv_qp *qp = create(pd, IBV_QPT_RC, send_cq, cq);

	connect_to(qp, qp);
	return qp;
}

static void post_receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		exit(5);
}

static void send_plain(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	if (ibv_post_send(qp, &wr, &bad))
		exit(6);
}

static void send_datagram(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	if (ibv_query_gid(from->context, 1, 0, &attr.grh.dgid))
		exit(12);
	wr.wr.ud.ah = ibv_create_ah(from->pd, &attr);
	wr.wr.ud.remote_qpn = to->qp_num;
	if (!wr.wr.ud.ah || ibv_post_send(from, &wr, &bad))
		exit(13);
}

/* Datagrams for a QP without a receive; those and a connected peer's for QPs left in INIT. */
static void lose_messages(struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	struct ibv_qp *ready = create(pd, IBV_QPT_UD, cq, cq), *rc = create(pd, IBV_QPT_RC, cq, cq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	if (ibv_modify_qp(ready, &attr, IBV_QP_STATE))
		exit(14);
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(ready, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		exit(15);
	send_datagram(ready, ready);
	send_datagram(ready, create(pd, IBV_QPT_UD, cq, cq));
	connect_to(rc, create(pd, IBV_QPT_RC, cq, cq));
	send_plain(rc);
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
					enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(channel, &e) || e->event != type)
		exit(16);
	return e;
}

/* A connection between ids without QPs, whose client does not call rdma_establish(). */
static void accept_unestablished(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7998),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 0x123 };
	struct rdma_cm_id *listener, *client;

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&to) || rdma_listen(listener, 1) ||
	    rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, 1000))
		exit(17);
	rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(client, 1000))
		exit(18);
	rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));
	if (rdma_connect(client, &param))
		exit(19);
	param.qp_num++;
	if (rdma_accept(next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST)->id, &param))
		exit(20);
	next_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
}

/* Nothing asks for the completion of a SEND; only the receive completes, which nothing polls. */
static void wait_for_nothing(struct ibv_pd *pd, struct ibv_mr *mr)
{
	struct ibv_context *ctx = pd->context;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *solicited = ibv_create_cq(ctx, 8, NULL, channel, 0),
		      *sends = ibv_create_cq(ctx, 8, NULL, NULL, 0),
		      *unused = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = { .send_cq = sends, .recv_cq = sends,
					    .qp_type = IBV_QPT_RC, .pd = pd,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_qp *ex = ibv_create_qp_ex(ctx, &init);
	struct ibv_qp *qp = connect_to_itself(pd, sends, solicited);

	if (!unused || !ex || ibv_req_notify_cq(solicited, 1))
		exit(9);
	post_receive(qp, mr);
	send_plain(qp);
	send_plain(connect_to_itself(pd, sends, sends));
	ibv_wr_start(ibv_qp_to_qp_ex(ex));
	lose_messages(pd);
	accept_unestablished();
}

static void send_one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	int left = 2;

	if (ibv_post_send(qp, &wr, &bad))
		exit(6);
	while (left) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			exit(7);
		left -= n;
	}
	post_receive(qp, mr);
	printf("sent\n");
}

int main(void)
{
	static char memory[SIZE];
	struct ibv_context *ctx = open_loopback();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mr *mr =
		ibv_reg_mr(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_cq *cq = ibv_create_cq(ctx, 63, NULL, NULL, 0);
	struct ibv_qp *qp = connect_to_itself(pd, cq, cq);
	const char *more = getenv("HOLDER_MORE");
	char line[16];

	for (int i = more ? atoi(more) : 0; i; i--)
		if (!ibv_reg_mr(pd, memory, SIZE, 0))
			exit(8);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < 3; i++)
		post_receive(qp, mr);
	if (getenv("HOLDER_MISTAKES"))
		wait_for_nothing(pd, mr);
	printf("ready %u %u\n", qp->qp_num, mr->rkey);
	while (fgets(line, sizeof(line), stdin))
		send_one(qp, cq, mr);
	return 0;
}
