/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues of ids: what rdma_create_srq_ex() fills in, which queue a QP then receives
 * from, how long the CQ of an XRC one lives, and what is refused.
 */
#include <pthread.h>

#include "world.h"

enum { LEN = 16 };

static const struct ibv_qp_cap caps = {
	.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1
};

static struct ibv_srq_init_attr_ex of_type(enum ibv_srq_type type)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = type,
	};
}

/* ---- Basic ---- */

/* A QP that is created on the id later receives from the SRQ. */
static void basic(void)
{
	struct ibv_srq_init_attr_ex attr = of_type(IBV_SRQT_BASIC);
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	char from[LEN] = "by the queue", to[LEN];
	struct ibv_mr *sent, *received;
	struct pair p;
	struct ibv_wc wc;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, &param)), 0);
	CHECK_EQ(rdma_create_srq_ex(p.id[1], &attr), 0);
	CHECK(p.id[1]->srq && attr.pd == p.id[1]->pd);
	CHECK(attr.comp_mask & IBV_SRQ_INIT_ATTR_PD);
	CHECK(attr.attr.max_wr >= 4 && attr.attr.max_sge >= 1);
	/* Only an XRC SRQ has a CQ. */
	CHECK(!attr.cq && !p.id[1]->recv_cq);
	world_qp(p.id[1]);
	CHECK(p.id[1]->qp->srq == p.id[1]->srq);
	CHECK((received = rdma_reg_msgs(p.id[1], to, LEN)));
	CHECK_EQ(rdma_post_recv(p.id[1], to, to, LEN, received), 0);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);

	CHECK((sent = rdma_reg_msgs(p.id[0], from, LEN)));
	CHECK_EQ(rdma_post_send(p.id[0], NULL, from, LEN, sent, 0), 0);
	CHECK_EQ(rdma_get_recv_comp(p.id[1], &wc), 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)to && wc.byte_len == LEN);
	CHECK_MEM(to, from, LEN);
	CHECK_EQ(rdma_get_send_comp(p.id[0], &wc), 1);

	pair_disconnect(&p);
	CHECK_EQ(rdma_dereg_mr(sent), 0);
	CHECK_EQ(rdma_dereg_mr(received), 0);
	rdma_destroy_qp(p.id[1]);
	rdma_destroy_srq(p.id[1]);
	CHECK(!p.id[1]->srq);
	pair_destroy(&p);
}

/* ---- XRC ---- */

static struct rdma_cm_id *xrc_end(const char *service, int flags, enum ibv_qp_type type)
{
	struct rdma_addrinfo hints = { .ai_flags = flags,
				       .ai_port_space = RDMA_PS_TCP,
				       .ai_qp_type = (int)type },
			     *res;
	struct rdma_cm_id *id;

	CHECK_EQ(rdma_getaddrinfo(LOOPBACK, service, &hints, &res), 0);
	CHECK_EQ(rdma_create_ep(&id, res, NULL, NULL), 0);
	CHECK_EQ(id->qp_type, type);
	rdma_freeaddrinfo(res);
	return id;
}

/* The number of the SRQ is what a sender needs. */
static void accept_with_number(struct rdma_cm_id *id)
{
	uint32_t number;
	struct rdma_conn_param answer = { .private_data = &number,
					  .private_data_len = sizeof(number) };

	CHECK_EQ(ibv_get_srq_num(id->srq, &number), 0);
	CHECK_EQ(rdma_accept(id, &answer), 0);
}

static void create_xrc_queue(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex srq = of_type(IBV_SRQT_XRC);
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_XRC_RECV };

	CHECK_EQ(rdma_create_srq_ex(id, &srq), 0);
	CHECK(srq.pd == id->pd && srq.xrcd && srq.cq && srq.cq == id->recv_cq);
	CHECK_EQ(srq.comp_mask, IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
					IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ);
	CHECK(id->recv_cq->cq_context == id && id->recv_cq->channel == id->recv_cq_channel);
	CHECK_EQ(rdma_create_qp_ex(id, &qp), 0);
	/* One domain of each device. */
	CHECK((qp.comp_mask & IBV_QP_INIT_ATTR_XRCD) && qp.xrcd == srq.xrcd);
	CHECK(!id->send_cq && id->qp->qp_type == IBV_QPT_XRC_RECV);
}

/* The CQ belongs to the SRQ: it outlives the QP. */
static void destroy_xrc_queue(struct rdma_cm_id *id)
{
	const struct ibv_cq *cq = id->recv_cq;

	rdma_destroy_qp(id);
	CHECK(id->recv_cq == cq && id->recv_cq_channel);
	rdma_destroy_srq(id);
	CHECK(!id->srq && !id->recv_cq && !id->recv_cq_channel);
}

static void *xrc_serve(void *listener)
{
	struct rdma_cm_id *id;
	char to[LEN];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	CHECK_EQ(rdma_get_request(listener, &id), 0);
	create_xrc_queue(id);
	CHECK((mr = rdma_reg_msgs(id, to, LEN)));
	CHECK_EQ(rdma_post_recv(id, to, to, LEN, mr), 0);
	accept_with_number(id);
	CHECK_EQ(rdma_get_recv_comp(id, &wc), 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)to);
	CHECK_MEM(to, "through the SRQ", LEN);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	destroy_xrc_queue(id);
	rdma_destroy_ep(id);
	return NULL;
}

/* A SEND to the SRQ whose number the peer's answer has. */
static void xrc_send(struct rdma_cm_id *id)
{
	static char from[LEN] = "through the SRQ";
	struct ibv_mr *mr = rdma_reg_msgs(id, from, LEN);
	struct ibv_sge sge = { (uintptr_t)from, LEN, mr ? mr->lkey : 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_wc wc;

	CHECK(mr && id->event->param.conn.private_data_len >= sizeof(uint32_t));
	memcpy(&wr.qp_type.xrc.remote_srqn, id->event->param.conn.private_data, sizeof(uint32_t));
	CHECK_EQ(ibv_post_send(id->qp, &wr, &bad), 0);
	CHECK_EQ(rdma_get_send_comp(id, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
}

static void xrc(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener = xrc_end("0", RAI_PASSIVE, IBV_QPT_XRC_RECV), *id;
	struct ibv_qp_init_attr_ex attr = { .cap = caps, .qp_type = IBV_QPT_XRC_SEND };
	pthread_t thread;
	char port[8];

	CHECK_EQ(rdma_listen(listener, 0), 0);
	CHECK_EQ(pthread_create(&thread, NULL, xrc_serve, listener), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	id = xrc_end(port, 0, IBV_QPT_XRC_SEND);
	attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	CHECK_EQ(rdma_create_qp_ex(id, &attr), 0);
	CHECK(id->send_cq && !id->recv_cq);
	CHECK_EQ(rdma_connect(id, &param), 0);
	xrc_send(id);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

/* ---- Refused ---- */

/* A failed call leaves nothing behind, and the attributes as they were. */
static void second_try(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex attr = of_type(IBV_SRQT_XRC);

	attr.attr.max_sge = 1 << 20;
	CHECK_EQ(rdma_create_srq_ex(id, &attr), -1);
	CHECK(!id->srq && !id->recv_cq && !id->recv_cq_channel);
	CHECK(attr.comp_mask == IBV_SRQ_INIT_ATTR_TYPE && !attr.pd && !attr.cq && !attr.xrcd);
	attr.attr.max_sge = 1;
	CHECK_EQ(rdma_create_srq_ex(id, &attr), 0);
	CHECK_FAILS(rdma_create_srq_ex(id, &attr), EINVAL);
	rdma_destroy_srq(id);
	CHECK(!id->recv_cq && !id->recv_cq_channel);
}

/* The CQ that the program passes stays its own. */
static void own_cq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex attr = of_type(IBV_SRQT_XRC);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);

	CHECK(cq);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	attr.cq = cq;
	CHECK_EQ(rdma_create_srq_ex(id, &attr), 0);
	CHECK(attr.cq == cq && !id->recv_cq);
	rdma_destroy_srq(id);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void wrong(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK),
			  *id = world_route(ch, listener, LOOPBACK),
			  *no_device = world_id(ch, RDMA_PS_TCP);
	struct ibv_srq_init_attr_ex attr = of_type(IBV_SRQT_BASIC);
	struct ibv_context *other = ibv_open_device(id->verbs->device);

	CHECK(other);
	CHECK_FAILS(rdma_create_srq_ex(NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_srq_ex(id, NULL), EINVAL);
	CHECK_FAILS(rdma_create_srq(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_create_srq_ex(no_device, &attr), EINVAL);
	attr.comp_mask = 0;
	CHECK_FAILS(rdma_create_srq_ex(id, &attr), EINVAL);
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	CHECK((attr.pd = ibv_alloc_pd(other)));
	CHECK_FAILS(rdma_create_srq_ex(id, &attr), EINVAL);
	CHECK_EQ(ibv_dealloc_pd(attr.pd), 0);
	CHECK_EQ(ibv_close_device(other), 0);
	second_try(id);
	own_cq(id);
	CHECK_EQ(rdma_destroy_id(no_device), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	basic();
	xrc();
	wrong();
	return 0;
}
