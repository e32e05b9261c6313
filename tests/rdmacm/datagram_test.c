/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram services: resolved by SIDR and reached with the values of the event; rejected, or
 * without a listener.
 */
#include <poll.h>

#include "world.h"

static void check_service(const struct rdma_ud_param *p, const struct rdma_cm_id *service)
{
	CHECK_EQ(p->qp_num, service->qp->qp_num);
	CHECK_EQ(p->qkey, RDMA_UDP_QKEY);
	CHECK_EQ(p->ah_attr.is_global, 1);
	CHECK_EQ(p->ah_attr.port_num, 1);
	CHECK_MEM(&p->ah_attr.grh.dgid, &service->route.addr.addr.ibaddr.sgid, 16);
}

static void send_and_receive(struct pair *p, struct rdma_ud_param *to)
{
	static struct {
		struct ibv_grh grh;
		char text[8];
	} in;
	static char out[8] = "to you";
	struct ibv_mr *mr[2] = { rdma_reg_msgs(p->id[0], out, sizeof(out)),
				 rdma_reg_msgs(p->id[1], &in, sizeof(in)) };
	struct ibv_ah *ah = ibv_create_ah(p->id[0]->pd, &to->ah_attr);
	struct ibv_wc wc;

	CHECK(mr[0] && mr[1] && ah);
	CHECK_EQ(rdma_post_recv(p->id[1], NULL, &in, sizeof(in), mr[1]), 0);
	CHECK_EQ(rdma_post_ud_send(p->id[0], NULL, out, sizeof(out), mr[0], 0, ah, to->qp_num), 0);
	CHECK_EQ(rdma_get_recv_comp(p->id[1], &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.src_qp, p->id[0]->qp->qp_num);
	CHECK_MEM(in.text, out, sizeof(out));
	CHECK_EQ(rdma_get_send_comp(p->id[0], &wc), 1);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rdma_dereg_mr(mr[i]), 0);
}

static void resolved(void)
{
	struct rdma_conn_param ask = { .private_data = "who?", .private_data_len = 4 };
	struct rdma_conn_param answer = { .private_data = "me", .private_data_len = 2 };
	struct rdma_ud_param to;
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_UDP, &ask);

	CHECK_EQ(p.id[1]->qp_type, IBV_QPT_UD);
	CHECK_EQ(e->param.ud.private_data_len, 180);
	CHECK_MEM(e->param.ud.private_data, "who?", 5);
	CHECK_EQ(e->param.ud.qp_num, 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p.id[1]);
	CHECK_EQ(p.id[1]->qp->state, IBV_QPS_RTS);
	CHECK_EQ(rdma_accept(p.id[1], &answer), 0);
	e = world_event(p.ch[0], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(e->param.ud.private_data_len, 136);
	CHECK_MEM(e->param.ud.private_data, "me", 3);
	check_service(&e->param.ud, p.id[1]);
	to = e->param.ud;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	/* A SIDR_REP is not acknowledged, so there is no further event. */
	world_no_event(p.ch[1]);
	send_and_receive(&p, &to);
	pair_destroy(&p);
}

static void refused(void)
{
	struct rdma_conn_param ask = { .private_data_len = 0 };
	struct rdma_cm_event *e;
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_UDP, &ask)), 0);
	CHECK_FAILS(rdma_reject(p.id[1], "x", 137), EINVAL);
	CHECK_EQ(rdma_reject(p.id[1], "no", 2), 0);
	e = world_event(p.ch[0], RDMA_CM_EVENT_UNREACHABLE, 2);
	CHECK_MEM(e->param.ud.private_data, "no", 3);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	pair_destroy(&p);
}

/* Neither side needs parameters; disconnecting flushes the QP, though there is no connection. */
static void without_parameters(void)
{
	static char in[64];
	struct rdma_cm_event *e;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_UDP, NULL)), 0);
	/* An answer names a QP. */
	CHECK_FAILS(rdma_accept(p.id[1], NULL), EINVAL);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	e = world_event(p.ch[0], RDMA_CM_EVENT_ESTABLISHED, 0);
	check_service(&e->param.ud, p.id[1]);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK((mr = rdma_reg_msgs(p.id[1], in, sizeof(in))));
	CHECK_EQ(rdma_post_recv(p.id[1], NULL, in, sizeof(in), mr), 0);
	CHECK_EQ(rdma_disconnect(p.id[1]), 0);
	CHECK_EQ(rdma_get_recv_comp(p.id[1], &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	pair_destroy(&p);
}

/* An answer comes through though the listener has ended, and another one has the port. */
static void answered_without_listener(void)
{
	struct pollfd fd = { .events = POLLIN };
	struct rdma_cm_event *e;
	struct sockaddr_storage a;
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_UDP, NULL)), 0);
	a = p.listener->route.addr.src_storage;
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	/* Longer than until the request would be repeated, and refused for lack of a listener. */
	fd.fd = p.ch[0]->fd;
	CHECK_EQ(poll(&fd, 1, 500), 0);
	p.listener = world_id(p.ch[1], RDMA_PS_UDP);
	CHECK_EQ(rdma_bind_addr(p.listener, (struct sockaddr *)&a), 0);
	CHECK_EQ(rdma_listen(p.listener, 0), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	e = world_event(p.ch[0], RDMA_CM_EVENT_ESTABLISHED, 0);
	check_service(&e->param.ud, p.id[1]);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	pair_destroy(&p);
}

/* Of two requests the second is answered after the first has ended. */
static void answered_in_turn(void)
{
	struct rdma_event_channel *ch[2] = { rdma_create_event_channel(),
					     rdma_create_event_channel() };
	struct rdma_cm_id *listener = world_listen(ch[1], RDMA_PS_UDP, LOOPBACK), *id[2], *child[2];
	struct pollfd fd = { .events = POLLIN };

	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *e;

		id[i] = world_route(ch[0], listener, LOOPBACK);
		CHECK_EQ(rdma_connect(id[i], NULL), 0);
		e = world_event(ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		child[i] = e->id;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	CHECK_EQ(rdma_destroy_id(listener), 0);
	CHECK_EQ(rdma_destroy_id(child[0]), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch[0], RDMA_CM_EVENT_UNREACHABLE, 2)), 0);
	fd.fd = ch[0]->fd;
	CHECK_EQ(poll(&fd, 1, 500), 0);
	world_qp(child[1]);
	CHECK_EQ(rdma_accept(child[1], NULL), 0);
	world_expect(ch[0], RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(child[1]);
	CHECK_EQ(rdma_destroy_id(child[1]), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rdma_destroy_id(id[i]), 0);
		rdma_destroy_event_channel(ch[i]);
	}
}

static void no_listener(void)
{
	struct rdma_conn_param ask = { .private_data_len = 0 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *gone = world_listen(ch, RDMA_PS_UDP, LOOPBACK),
			  *id = world_route(ch, gone, LOOPBACK);

	CHECK_EQ(rdma_destroy_id(gone), 0);
	CHECK_EQ(rdma_connect(id, &ask), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_UNREACHABLE, 1)), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	resolved();
	refused();
	without_parameters();
	answered_without_listener();
	answered_in_turn();
	no_listener();
	return 0;
}
