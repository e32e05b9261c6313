/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: events on both sides, parameters, private data, data transfer, rejection,
 * disconnection.
 */
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include "world.h"

static void check_data(const struct rdma_cm_event *e, const char *text, uint8_t room)
{
	const struct rdma_conn_param *p = &e->param.conn;

	CHECK_EQ(p->private_data_len, room);
	CHECK_MEM(p->private_data, text, strlen(text) + 1);
	for (size_t i = strlen(text); i < room; i++)
		CHECK_EQ(((const char *)p->private_data)[i], 0);
}

static struct ibv_qp_attr attr_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT | IBV_QP_ACCESS_FLAGS,
			      &init),
		 0);
	return attr;
}

/*
 * 0xff given to rdma_accept() means the number that the peer requested, since the peer has
 * resources for no more READs.
 */
static void as_many_as_requested(void)
{
	struct rdma_conn_param ask = {
		.responder_resources = 1, .initiator_depth = 2, .retry_count = 7
	};
	struct rdma_conn_param answer = {
		.responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH
	};
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_TCP, &ask);
	struct ibv_qp_attr a;

	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], &answer), 0);
	a = attr_of(p.id[1]->qp);
	CHECK_EQ(a.max_rd_atomic, 1);
	CHECK_EQ(a.max_dest_rd_atomic, 2);
	e = world_event(p.ch[0], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(e->param.conn.responder_resources, 1);
	CHECK_EQ(e->param.conn.initiator_depth, 2);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/* The parameters that the events report on each side, and the attributes that the QPs get. */
static void parameters(void)
{
	struct rdma_conn_param ask = {
		.private_data = "hello",
		.private_data_len = 5,
		.responder_resources = 3,
		.initiator_depth = 2,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 5,
	};
	struct rdma_conn_param answer = {
		.private_data = "welcome",
		.private_data_len = 7,
		.responder_resources = 2,
		.initiator_depth = 3,
		.rnr_retry_count = 4,
	};
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_TCP, &ask);
	struct ibv_qp_attr a, b;

	CHECK(e->listen_id == p.listener);
	CHECK(e->id != p.listener && e->id->context == p.listener->context &&
	      e->id->channel == p.ch[1]);
	check_data(e, "hello", 56);
	CHECK_EQ(e->param.conn.responder_resources, 2);
	CHECK_EQ(e->param.conn.initiator_depth, 3);
	CHECK_EQ(e->param.conn.flow_control, 1);
	CHECK_EQ(e->param.conn.retry_count, 6);
	CHECK_EQ(e->param.conn.rnr_retry_count, 5);
	CHECK_EQ(e->param.conn.qp_num, p.id[0]->qp->qp_num);
	CHECK(p.id[1]->verbs && p.id[1]->pd && p.id[1]->port_num == 1);
	CHECK_EQ(p.id[1]->route.num_paths, 1);
	CHECK_EQ(rdma_get_src_port(p.id[1]), rdma_get_src_port(p.listener));
	CHECK_EQ(rdma_get_dst_port(p.id[1]), rdma_get_src_port(p.id[0]));
	CHECK_MEM(&p.id[1]->route.addr.addr.ibaddr.dgid, &p.id[0]->route.addr.addr.ibaddr.sgid, 16);
	CHECK_EQ(rdma_ack_cm_event(e), 0);

	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], &answer), 0);
	CHECK_EQ(p.id[1]->qp->state, IBV_QPS_RTS);
	e = world_event(p.ch[0], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!e->listen_id);
	check_data(e, "welcome", 196);
	CHECK_EQ(e->param.conn.responder_resources, 3);
	CHECK_EQ(e->param.conn.initiator_depth, 2);
	CHECK_EQ(e->param.conn.rnr_retry_count, 4);
	CHECK_EQ(e->param.conn.qp_num, p.id[1]->qp->qp_num);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	e = world_event(p.ch[1], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!e->param.conn.private_data);
	CHECK_EQ(e->param.conn.private_data_len, 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);

	a = attr_of(p.id[0]->qp);
	b = attr_of(p.id[1]->qp);
	CHECK_EQ(a.qp_state, IBV_QPS_RTS);
	CHECK_EQ(b.qp_state, IBV_QPS_RTS);
	CHECK_EQ(a.dest_qp_num, p.id[1]->qp->qp_num);
	CHECK_EQ(b.dest_qp_num, p.id[0]->qp->qp_num);
	CHECK_EQ(a.rq_psn, b.sq_psn);
	CHECK_EQ(b.rq_psn, a.sq_psn);
	CHECK_EQ(a.path_mtu, b.path_mtu);
	CHECK_EQ(a.max_rd_atomic, 2);
	CHECK_EQ(a.max_dest_rd_atomic, 3);
	CHECK_EQ(b.max_rd_atomic, 3);
	CHECK_EQ(b.max_dest_rd_atomic, 2);
	CHECK_EQ(a.retry_cnt, 6);
	CHECK_EQ(b.retry_cnt, 6);
	CHECK_EQ(a.rnr_retry, 4);
	CHECK_EQ(b.rnr_retry, 5);
	CHECK_EQ(a.timeout, b.timeout);
	CHECK_EQ(a.qp_access_flags,
		 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			 IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);

	pair_disconnect(&p);
	CHECK_EQ(p.id[0]->qp->state, IBV_QPS_ERR);
	world_expect(p.ch[0], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	world_expect(p.ch[1], RDMA_CM_EVENT_TIMEWAIT_EXIT);
	pair_destroy(&p);
}

/* A side with responder_resources 0 permits no READs. */
static void no_reads(void)
{
	struct rdma_conn_param none = { .retry_count = 7, .rnr_retry_count = 7 };
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, &none)), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], &none), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(attr_of(p.id[0]->qp).qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	CHECK_EQ(attr_of(p.id[1]->qp).qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	pair_disconnect(&p);
	pair_destroy(&p);
}

static void data(void)
{
	static char text[2][16] = { "over and out" };
	struct ibv_mr *mr[2];
	struct ibv_wc wc;
	struct pair p;

	pair_connect(&p, NULL);
	for (int i = 0; i < 2; i++) {
		mr[i] = rdma_reg_msgs(p.id[i], text[i], sizeof(text[i]));
		CHECK(mr[i]);
	}
	CHECK_EQ(rdma_post_recv(p.id[1], text[1], text[1], sizeof(text[1]), mr[1]), 0);
	CHECK_EQ(rdma_post_send(p.id[0], text[0], text[0], sizeof(text[0]), mr[0], 0), 0);
	CHECK_EQ(rdma_get_send_comp(p.id[0], &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(rdma_get_recv_comp(p.id[1], &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, (uintptr_t)text[1]);
	CHECK_MEM(text[0], text[1], sizeof(text[0]));
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rdma_dereg_mr(mr[i]), 0);
	pair_disconnect(&p);
	pair_destroy(&p);
}

static void completed(struct rdma_cm_id *id, const void *context, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	CHECK_EQ(rdma_get_send_comp(id, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, opcode);
	CHECK_EQ(wc.wr_id, (uintptr_t)context);
}

/* The calls of rdma_verbs.h for regions of the peer, and for several buffers. */
static void wrapped_verbs(void)
{
	static char mine[16] = "0123456789abcde", theirs[16], in[16];
	struct ibv_mr *own, *readable, *writable, *msgs;
	struct ibv_sge part[2];
	struct ibv_wc wc;
	struct pair p;

	pair_connect(&p, NULL);
	CHECK((own = rdma_reg_msgs(p.id[0], mine, sizeof(mine))));
	CHECK((readable = rdma_reg_read(p.id[1], theirs, sizeof(theirs))));
	CHECK((writable = rdma_reg_write(p.id[1], theirs, sizeof(theirs))));
	CHECK((msgs = rdma_reg_msgs(p.id[1], in, sizeof(in))));

	CHECK_EQ(rdma_post_write(p.id[0], &p, mine, 8, own, 0, (uintptr_t)theirs, writable->rkey),
		 0);
	completed(p.id[0], &p, IBV_WC_RDMA_WRITE);
	part[0] = (struct ibv_sge){ (uintptr_t)mine + 12, 4, own->lkey };
	part[1] = (struct ibv_sge){ (uintptr_t)mine + 8, 4, own->lkey };
	CHECK_EQ(rdma_post_writev(p.id[0], &p, part, 1, 0, (uintptr_t)theirs + 8, writable->rkey),
		 0);
	completed(p.id[0], &p, IBV_WC_RDMA_WRITE);
	CHECK_MEM(theirs, "01234567cde", 12);

	memset(mine, 0, sizeof(mine));
	CHECK_EQ(rdma_post_read(p.id[0], mine, mine, 4, own, 0, (uintptr_t)theirs + 4,
				readable->rkey),
		 0);
	completed(p.id[0], mine, IBV_WC_RDMA_READ);
	CHECK_EQ(rdma_post_readv(p.id[0], mine, part + 1, 1, 0, (uintptr_t)theirs,
				 readable->rkey),
		 0);
	completed(p.id[0], mine, IBV_WC_RDMA_READ);
	CHECK_MEM(mine, "4567\0\0\0\0" "0123", 12);

	part[0] = (struct ibv_sge){ (uintptr_t)in, sizeof(in), msgs->lkey };
	CHECK_EQ(rdma_post_recvv(p.id[1], in, part, 1), 0);
	part[0] = (struct ibv_sge){ (uintptr_t)mine + 8, 4, own->lkey };
	CHECK_EQ(rdma_post_sendv(p.id[0], mine, part, 1, 0), 0);
	completed(p.id[0], mine, IBV_WC_SEND);
	CHECK_EQ(rdma_get_recv_comp(p.id[1], &wc), 1);
	CHECK_EQ(wc.wr_id, (uintptr_t)in);
	CHECK_EQ(wc.byte_len, 4);
	CHECK_MEM(in, "0123", 4);

	for (int i = 0; i < 2; i++)
		CHECK_EQ(((struct sockaddr_in *)rdma_get_peer_addr(p.id[i]))->sin_port,
			 rdma_get_src_port(p.id[1 - i]));
	CHECK_EQ(rdma_dereg_mr(own), 0);
	CHECK_EQ(rdma_dereg_mr(readable), 0);
	CHECK_EQ(rdma_dereg_mr(writable), 0);
	CHECK_EQ(rdma_dereg_mr(msgs), 0);
	pair_disconnect(&p);
	pair_destroy(&p);
}

static void refused(void)
{
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_TCP, NULL);

	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_FAILS(rdma_reject(p.id[1], "not today", 149), EINVAL);
	CHECK_EQ(rdma_reject(p.id[1], "not today", 9), 0);
	e = world_event(p.ch[0], RDMA_CM_EVENT_REJECTED, 28);
	check_data(e, "not today", 148);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(p.id[0]->qp->state, IBV_QPS_ERR);
	/* Both ids are finished. */
	CHECK_FAILS(rdma_connect(p.id[0], NULL), EINVAL);
	CHECK_FAILS(rdma_accept(p.id[1], &(struct rdma_conn_param){ .qp_num = 5 }), EINVAL);
	pair_destroy(&p);

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	CHECK_EQ(rdma_reject_ece(p.id[1], NULL, 9), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[0], RDMA_CM_EVENT_REJECTED, 35)), 0);
	pair_destroy(&p);

	/* Destroying the id of a connection request rejects it. */
	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	CHECK_EQ(rdma_destroy_id(p.id[1]), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[0], RDMA_CM_EVENT_REJECTED, 28)), 0);
	p.id[1] = world_id(p.ch[1], RDMA_PS_TCP);
	pair_destroy(&p);
}

/* Invalid parameters change nothing: the program may accept with others. */
static void accepted_again(void)
{
	struct rdma_conn_param many = { .responder_resources = 254 },
			       long_data = { .private_data = "", .private_data_len = 197 },
			       no_data = { .private_data_len = 200, .rnr_retry_count = 7 };
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, &no_data)), 0);
	world_qp(p.id[1]);
	CHECK_FAILS(rdma_accept(p.id[1], &many), EINVAL);
	CHECK_FAILS(rdma_accept(p.id[1], &long_data), EINVAL);
	CHECK_EQ(p.id[1]->qp->state, IBV_QPS_INIT);
	CHECK_EQ(rdma_accept(p.id[1], &no_data), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	/* Nor does a second call. */
	CHECK_FAILS(rdma_accept(p.id[1], NULL), EINVAL);
	CHECK_EQ(p.id[1]->qp->state, IBV_QPS_RTS);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/* A request is the program's to accept, at leisure, though its listener is gone. */
static void accepted_without_listener(void)
{
	struct pollfd fd = { .events = POLLIN };
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	p.listener = world_id(p.ch[1], RDMA_PS_TCP);
	/* Longer than until the REQ would be repeated, and refused for lack of a listener. */
	fd.fd = p.ch[0]->fd;
	CHECK_EQ(poll(&fd, 1, 500), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	pair_disconnect(&p);
	pair_destroy(&p);
}

static void no_listener(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *gone = world_listen(ch, RDMA_PS_TCP, LOOPBACK),
			  *id = world_route(ch, gone, LOOPBACK);

	CHECK_EQ(rdma_destroy_id(gone), 0);
	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 8)), 0);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/*
 * The active side is destroyed before the request is answered: the passive program gets the error
 * when it accepts.
 */
static void active_side_destroyed(void)
{
	struct rdma_cm_event *e;
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	rdma_destroy_qp(p.id[0]);
	CHECK_EQ(rdma_destroy_id(p.id[0]), 0);
	/* When the next request arrives, the REJ, which was sent earlier, has arrived as well. */
	p.id[0] = world_route(p.ch[0], p.listener, LOOPBACK);
	world_qp(p.id[0]);
	CHECK_EQ(rdma_connect(p.id[0], NULL), 0);
	e = world_event(p.ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	world_qp(p.id[1]);
	CHECK_FAILS(rdma_accept(p.id[1], NULL), EINVAL);
	rdma_destroy_qp(p.id[1]);
	CHECK_EQ(rdma_destroy_id(p.id[1]), 0);
	p.id[1] = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_no_event(p.ch[1]);
	pair_destroy(&p);
}

static void expect_rejected(struct rdma_event_channel *ch)
{
	enum { TIMED_OUT = 4, INVALID_COMM_ID = 6 };	/* reasons */
	struct rdma_cm_event *e;

	world_wait(ch);
	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	CHECK_EQ(e->event, RDMA_CM_EVENT_REJECTED);
	CHECK(e->status == TIMED_OUT || e->status == INVALID_COMM_ID);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
}

/*
 * Many are destroyed at once: a passive side that accepts gets the rejection of the request, or
 * that of its reply, which nobody waits for.
 */
static void active_sides_destroyed(void)
{
	enum { SIDES = 64 };
	struct rdma_event_channel *ch[2] = { rdma_create_event_channel(),
					     rdma_create_event_channel() };
	struct rdma_cm_id *listener = world_listen(ch[1], RDMA_PS_TCP, LOOPBACK);
	struct rdma_cm_id *active[SIDES], *passive[SIDES];

	for (uint32_t i = 0; i < SIDES; i++) {
		struct rdma_conn_param param = { .qp_num = 0x800000 + i };
		struct rdma_cm_event *e;

		active[i] = world_route(ch[0], listener, LOOPBACK);
		CHECK_EQ(rdma_connect(active[i], &param), 0);
		e = world_event(ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		passive[i] = e->id;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
	}
	for (int i = 0; i < SIDES; i++)
		CHECK_EQ(rdma_destroy_id(active[i]), 0);
	for (uint32_t i = 0; i < SIDES; i++) {
		struct rdma_conn_param param = { .qp_num = 0x900000 + i };

		if (!rdma_accept(passive[i], &param))
			expect_rejected(ch[1]);
		else
			CHECK_EQ(errno, EINVAL);
		CHECK_EQ(rdma_destroy_id(passive[i]), 0);
	}
	CHECK_EQ(rdma_destroy_id(listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(ch[i]);
}

/* A peer that ends or destroys its id causes a disconnection. */
static void destroyed(void)
{
	struct pair p;

	pair_connect(&p, NULL);
	rdma_destroy_qp(p.id[0]);
	CHECK_EQ(rdma_destroy_id(p.id[0]), 0);
	world_expect(p.ch[1], RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(p.id[1]), 0);
	/* A second disconnection has no effect. */
	CHECK_EQ(rdma_disconnect(p.id[1]), 0);
	p.id[0] = world_id(p.ch[0], RDMA_PS_TCP);
	pair_destroy(&p);
}

/* Both sides disconnect at once. */
static void simultaneous_disconnect(void)
{
	struct pair p;

	pair_connect(&p, NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rdma_disconnect(p.id[i]), 0);
	for (int i = 0; i < 2; i++)
		world_expect(p.ch[i], RDMA_CM_EVENT_DISCONNECTED);
	pair_destroy(&p);
}

/* Destroying a listener rejects its unfetched requests and keeps its connections. */
static void listener_destroyed(void)
{
	struct rdma_event_channel *ch[2] = { rdma_create_event_channel(),
					     rdma_create_event_channel() };
	struct rdma_cm_id *listener, *id;
	struct pair p;

	pair_connect(&p, NULL);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	p.listener = world_id(p.ch[1], RDMA_PS_TCP);
	world_no_event(p.ch[0]);
	pair_disconnect(&p);
	pair_destroy(&p);

	listener = world_listen(ch[1], RDMA_PS_TCP, LOOPBACK);
	id = world_route(ch[0], listener, LOOPBACK);
	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	world_wait(ch[1]);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch[0], RDMA_CM_EVENT_REJECTED, 28)), 0);
	world_no_event(ch[1]);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(ch[i]);
}

/*
 * A QP that cannot be connected when the REP arrives: the program gets CONNECT_ERROR, its peer a
 * REJ, and there is no connection to end.
 */
static void connect_error(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	CHECK_EQ(ibv_modify_qp(p.id[0]->qp, &attr, IBV_QP_STATE), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[0], RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL)), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[1], RDMA_CM_EVENT_REJECTED, 28)), 0);
	CHECK_EQ(rdma_disconnect(p.id[0]), 0);
	world_no_event(p.ch[0]);
	pair_destroy(&p);
}

/*
 * As with rdma-core, RDMA_PS_IB leaves the numbers of READs to the program and its QP: more than
 * the device has can be offered, and the peer takes fewer.
 */
static void unchecked_resources(void)
{
	struct rdma_conn_param ask = { .responder_resources = 250, .initiator_depth = 251,
				       .retry_count = 7 },
			       answer = { .responder_resources = 1, .initiator_depth = 2 };
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_IB, &ask);

	CHECK_EQ(e->param.conn.initiator_depth, 250);
	CHECK_EQ(e->param.conn.responder_resources, 251);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], &answer), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(attr_of(p.id[0]->qp).max_rd_atomic, 1);
	CHECK_EQ(attr_of(p.id[0]->qp).max_dest_rd_atomic, 2);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/*
 * A connection that is rejected in the last moment leaves timewait without an event: as on Linux,
 * only one that was disconnected has it.
 */
static void rejected_late(void)
{
	struct rdma_conn_param param = { .qp_num = 0x771 };
	struct rdma_event_channel *ch[2] = { rdma_create_event_channel(),
					     rdma_create_event_channel() };
	struct rdma_cm_id *listener = world_listen(ch[1], RDMA_PS_TCP, LOOPBACK),
			  *id[2] = { world_route(ch[0], listener, LOOPBACK),
				     world_route(ch[0], listener, LOOPBACK) }, *child;
	struct rdma_cm_event *e;

	for (int i = 0; i < 2; i++) {
		param.qp_num++;
		CHECK_EQ(rdma_connect(id[i], &param), 0);
		e = world_event(ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		child = e->id;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		param.qp_num++;
		CHECK_EQ(rdma_accept(child, &param), 0);
		world_expect(ch[0], RDMA_CM_EVENT_CONNECT_RESPONSE);
		if (i) {
			CHECK_EQ(rdma_establish(id[i]), 0);
			world_expect(ch[1], RDMA_CM_EVENT_ESTABLISHED);
		}
		CHECK_EQ(rdma_destroy_id(child), 0);
		if (i) {
			world_expect(ch[0], RDMA_CM_EVENT_DISCONNECTED);
			CHECK_EQ(rdma_disconnect(id[i]), 0);
		} else {
			CHECK_EQ(rdma_ack_cm_event(world_event(ch[0], RDMA_CM_EVENT_REJECTED, 28)),
				 0);
		}
	}
	/* That of the first one would have come before. */
	e = world_event(ch[0], RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK(e->id == id[1]);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_no_event(ch[0]);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rdma_destroy_id(id[i]), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(ch[i]);
}

/* Calls in states in which they must fail. */
static void wrong_calls(void)
{
	struct rdma_conn_param param = { .qp_num = 7 },
			       long_data = { .private_data = "", .private_data_len = 57 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_storage a = world_addr(LOOPBACK, 1);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP),
			  *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);

	CHECK_FAILS(rdma_connect(NULL, &param), EINVAL);
	CHECK_FAILS(rdma_connect(id, &param), EINVAL);
	CHECK_FAILS(rdma_accept(id, &param), EINVAL);
	CHECK_FAILS(rdma_reject(id, NULL, 0), EINVAL);
	CHECK_FAILS(rdma_disconnect(id), EINVAL);
	CHECK_FAILS(rdma_establish(id), EINVAL);
	CHECK_FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	CHECK_FAILS(rdma_resolve_route(id, 100), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(listener, NULL, (struct sockaddr *)&a, 100), EINVAL);
	CHECK_FAILS(rdma_listen(listener, 0), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);

	id = world_route(ch, listener, LOOPBACK);
	/* Neither a QP nor a QP number in the parameters. */
	CHECK_FAILS(rdma_connect(id, NULL), EINVAL);
	CHECK_FAILS(rdma_connect(id, &long_data), EINVAL);
	CHECK_FAILS(rdma_listen(id, 0), EINVAL);
	CHECK_FAILS(rdma_resolve_route(id, 100), EINVAL);
	param.responder_resources = 254;
	CHECK_FAILS(rdma_connect(id, &param), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* ids of a channel that is destroyed end with it. */
static void channel_destroyed(void)
{
	struct pair p;

	pair_connect(&p, NULL);
	rdma_destroy_qp(p.id[0]);
	rdma_destroy_event_channel(p.ch[0]);
	world_expect(p.ch[1], RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(p.id[1]), 0);
	CHECK_EQ(rdma_destroy_id(p.id[0]), 0);
	p.ch[0] = rdma_create_event_channel();
	p.id[0] = world_id(p.ch[0], RDMA_PS_TCP);
	pair_destroy(&p);
}

/* Calls that succeed leave errno alone; see tests/verbs/errno_test.c. */
#define SUCCEEDS(call)                                                                             \
	do {                                                                                       \
		errno = E2BIG;                                                                     \
		CHECK_EQ(call, 0);                                                                 \
		CHECK_EQ(errno, E2BIG);                                                            \
	} while (0)

static struct rdma_cm_id *next_id(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	SUCCEEDS(rdma_get_cm_event(ch, &e));
	CHECK_EQ(e->event, type);
	id = e->id;
	SUCCEEDS(rdma_ack_cm_event(e));
	return id;
}

static void errno_is_kept(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_storage to = world_addr(LOOPBACK, 0);
	struct rdma_cm_id *listener, *id, *passive;

	CHECK(ch);
	SUCCEEDS(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP));
	SUCCEEDS(rdma_bind_addr(listener, (struct sockaddr *)&to));
	SUCCEEDS(rdma_listen(listener, 4));
	((struct sockaddr_in *)&to)->sin_port = rdma_get_src_port(listener);
	SUCCEEDS(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	SUCCEEDS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WORLD_TIMEOUT_MS));
	next_id(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	SUCCEEDS(rdma_resolve_route(id, WORLD_TIMEOUT_MS));
	next_id(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	SUCCEEDS(rdma_create_qp(id, NULL, &attr));
	SUCCEEDS(rdma_connect(id, &param));
	passive = next_id(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	attr = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	SUCCEEDS(rdma_create_qp(passive, NULL, &attr));
	SUCCEEDS(rdma_accept(passive, &param));
	next_id(ch, RDMA_CM_EVENT_ESTABLISHED);
	next_id(ch, RDMA_CM_EVENT_ESTABLISHED);
	SUCCEEDS(rdma_disconnect(id));
	SUCCEEDS(rdma_disconnect(passive));
	next_id(ch, RDMA_CM_EVENT_DISCONNECTED);
	next_id(ch, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	rdma_destroy_qp(passive);
	SUCCEEDS(rdma_destroy_id(id));
	SUCCEEDS(rdma_destroy_id(passive));
	SUCCEEDS(rdma_destroy_id(listener));
	rdma_destroy_event_channel(ch);
}

/*
 * Communication ids repeat after 2^22 of them. A connection made then does not get those of one
 * that has lived so long.
 */
static void ids_in_use_are_skipped(void)
{
	uint32_t (*comm_id)(void *) = (__typeof__(comm_id))dlsym(RTLD_DEFAULT, "vrb_mad_comm_id");
	struct pair old, young;
	uint32_t before;

	CHECK(comm_id);
	before = comm_id(NULL);
	pair_connect(&old, NULL);
	while (comm_id(NULL) != before)
		;
	pair_connect(&young, NULL);
	pair_disconnect(&old);
	world_no_event(young.ch[0]);
	world_no_event(young.ch[1]);
	pair_disconnect(&young);
	pair_destroy(&old);
	pair_destroy(&young);
}

int main(void)
{
	parameters();
	errno_is_kept();
	as_many_as_requested();
	no_reads();
	data();
	wrapped_verbs();
	refused();
	accepted_again();
	accepted_without_listener();
	no_listener();
	active_side_destroyed();
	active_sides_destroyed();
	destroyed();
	simultaneous_disconnect();
	listener_destroyed();
	connect_error();
	unchecked_resources();
	rejected_late();
	wrong_calls();
	channel_destroyed();
	ids_in_use_are_skipped();
	return 0;
}
