/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of ids: created by the library, with its own CQs or the program's; and created by the
 * program, with attributes from rdma_init_qp_attr().
 */
#include "world.h"

enum {
	INIT_MASK = 0x39,    /* STATE, ACCESS_FLAGS, PKEY_INDEX, PORT */
	RTR_MASK = 0x129181, /* STATE, AV, PATH_MTU, DEST_QPN, RQ_PSN, MAX_DEST_RD_ATOMIC,
				MIN_RNR_TIMER */
	RTS_MASK = 0x12e01,  /* STATE, SQ_PSN, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC, TIMEOUT */
	UD_INIT_MASK = 0x71, /* STATE, PKEY_INDEX, PORT, QKEY */
};

static const struct ibv_qp_init_attr small = {
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	.qp_type = IBV_QPT_RC,
};

/* ---- Created by the library ---- */

static void created_by_library(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);
	struct ibv_qp_init_attr attr = small;
	struct ibv_cq *cq;

	CHECK_EQ(rdma_create_qp(id, NULL, &attr), 0);
	CHECK(id->qp && id->qp->pd == id->pd);
	CHECK_EQ(id->qp->state, IBV_QPS_INIT);
	CHECK(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq &&
	      id->send_cq != id->recv_cq);
	CHECK(id->send_cq->cq_context == id && id->recv_cq->cq_context == id);
	CHECK(id->send_cq->channel == id->send_cq_channel &&
	      id->recv_cq->channel == id->recv_cq_channel);
	CHECK(id->send_cq_channel != id->recv_cq_channel);
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel &&
	      !id->recv_cq_channel);

	/* The program's CQs are not destroyed with the QP. */
	cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	CHECK(cq);
	attr = small;
	attr.send_cq = attr.recv_cq = cq;
	CHECK_EQ(rdma_create_qp(id, id->pd, &attr), 0);
	CHECK(!id->send_cq && !id->recv_cq);
	rdma_destroy_qp(id);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* After a failure the attributes are unchanged, so the program can retry with smaller values. */
static void second_try(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);
	struct ibv_qp_init_attr attr = small;

	attr.cap.max_inline_data = 1 << 30;
	CHECK_EQ(rdma_create_qp(id, NULL, &attr), -1);
	CHECK(!attr.send_cq && !attr.recv_cq && !id->send_cq && !id->recv_cq && !id->qp);
	attr.cap.max_inline_data = 0;
	CHECK_EQ(rdma_create_qp(id, NULL, &attr), 0);
	CHECK(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq && id->send_cq);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void refused(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = small;
	struct ibv_qp_attr qp = { .qp_state = IBV_QPS_INIT };
	int mask;

	/* An id without a device. */
	CHECK_FAILS(rdma_create_qp(id, NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_qp(id, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_create_qp(NULL, NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(id, &qp, &mask), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void queues(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = small;

	CHECK_EQ(rdma_create_srq(id, NULL, &srq), 0);
	CHECK(id->srq);
	CHECK_FAILS(rdma_create_srq(id, NULL, &srq), EINVAL);
	CHECK_EQ(rdma_create_qp(id, NULL, &attr), 0);
	CHECK(id->qp->srq == id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(!id->srq);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* ---- Extended attributes ---- */

static const struct ibv_qp_init_attr_ex extended = {
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	.qp_type = IBV_QPT_RC,
};

static void send_by_builder(struct rdma_cm_id *id, const char *text, size_t len)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	struct ibv_wc wc;

	CHECK(qp);
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, htobe32(0x1234));
	ibv_wr_set_inline_data(qp, (void *)(uintptr_t)text, len);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(rdma_get_send_comp(id, &wc), 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7);
}

/*
 * A QP with the functions of ibv_wr_start() and kin, room for inline data and a PD of the
 * program's, which becomes the id's; both ends.
 */
static void by_builder(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id[2] = { world_route(ch, listener, LOOPBACK) };
	struct ibv_qp_init_attr_ex attr[2] = { extended, extended };
	char text[128] = "built, with data in the request", to[sizeof(text)];
	struct rdma_cm_event *e;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	CHECK((pd = ibv_alloc_pd(id[0]->verbs)));
	attr[0].comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr[0].send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM;
	attr[0].cap.max_inline_data = sizeof(text);
	attr[0].pd = pd;
	CHECK_EQ(rdma_create_qp_ex(id[0], &attr[0]), 0);
	CHECK(attr[0].cap.max_inline_data >= sizeof(text));
	CHECK(id[0]->pd == pd && id[0]->qp->pd == pd);
	CHECK_EQ(rdma_connect(id[0], &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id[1] = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_create_qp_ex(id[1], &attr[1]), 0);
	CHECK((attr[1].comp_mask & IBV_QP_INIT_ATTR_PD) && attr[1].pd == id[1]->pd);
	CHECK(attr[1].recv_cq == id[1]->recv_cq && attr[1].send_cq == id[1]->send_cq);
	CHECK((mr = rdma_reg_msgs(id[1], to, sizeof(to))));
	CHECK_EQ(rdma_post_recv(id[1], to, to, sizeof(to), mr), 0);
	CHECK_EQ(rdma_accept(id[1], NULL), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);

	send_by_builder(id[0], text, sizeof(text));
	CHECK_EQ(rdma_get_recv_comp(id[1], &wc), 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)to);
	CHECK_EQ(be32toh(wc.imm_data), 0x1234);
	CHECK_MEM(to, text, sizeof(text));

	CHECK_EQ(rdma_disconnect(id[0]), 0);
	world_expect(ch, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(id[1]), 0);
	world_expect(ch, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(id[i]);
		CHECK_EQ(rdma_destroy_id(id[i]), 0);
	}
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

/* The verb's own errors come back, and the attributes as they were. */
static void refused_by_verb(struct rdma_cm_id *id)
{
	static const struct {
		struct ibv_qp_init_attr_ex attr;
		int error;
	} rows[] = {
		{ { .qp_type = IBV_QPT_RC, .comp_mask = 1U << 31 }, EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_RC,
		    .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
		    .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING },
		  EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_RC,
		    .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = IBV_QP_EX_WITH_TSO },
		  EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1U << 30 } }, EINVAL },
		{ { .qp_type = (enum ibv_qp_type)77 }, EINVAL },
		{ { .qp_type = IBV_QPT_DRIVER }, EOPNOTSUPP },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr_ex attr = rows[i].attr;

		attr.cap.max_recv_wr = 4;
		CHECK_FAILS(rdma_create_qp_ex(id, &attr), rows[i].error);
		CHECK(!id->qp && !id->recv_cq && !id->recv_cq_channel && !id->send_cq);
		CHECK(attr.comp_mask == rows[i].attr.comp_mask && !attr.pd && !attr.recv_cq);
	}
}

/* CQs that the program has put into the id are the QP's; others beside them are refused. */
static void cqs_of_id(struct rdma_cm_id *id)
{
	struct ibv_cq *mine = ibv_create_cq(id->verbs, 8, NULL, NULL, 0),
		      *other = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = extended;

	CHECK(mine && other);
	id->send_cq = id->recv_cq = mine;
	attr.send_cq = other;
	CHECK_FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
	attr = extended;
	attr.recv_cq = other;
	CHECK_FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
	attr = extended;
	attr.cap.max_send_wr = 1U << 30;
	CHECK_FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
	CHECK(id->send_cq == mine && id->recv_cq == mine);
	attr = extended;
	CHECK_EQ(rdma_create_qp_ex(id, &attr), 0);
	CHECK(id->qp->send_cq == mine && id->qp->recv_cq == mine && attr.send_cq == mine);
	CHECK_FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
	/* They end with the QP. */
	rdma_destroy_qp(id);
	CHECK(!id->send_cq && !id->recv_cq);
	CHECK_EQ(ibv_destroy_cq(other), 0);
}

static void extended_errors(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK),
			  *no_device = world_id(ch, RDMA_PS_TCP);
	struct ibv_context *other = ibv_open_device(id->verbs->device);
	struct ibv_qp_init_attr_ex attr = extended;

	CHECK(other);
	CHECK_FAILS(rdma_create_qp_ex(NULL, &attr), EINVAL);
	CHECK_FAILS(rdma_create_qp_ex(id, NULL), EINVAL);
	CHECK_FAILS(rdma_create_qp_ex(no_device, &attr), EINVAL);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	CHECK((attr.pd = ibv_alloc_pd(other)));
	CHECK_FAILS(rdma_create_qp_ex(id, &attr), EINVAL);
	CHECK_EQ(ibv_dealloc_pd(attr.pd), 0);
	CHECK_EQ(ibv_close_device(other), 0);
	refused_by_verb(id);
	cqs_of_id(id);
	CHECK_EQ(rdma_destroy_id(no_device), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* ---- Created by the program ---- */

struct own {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct own own_qp(const struct rdma_cm_id *id)
{
	struct own own = { .cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0) };
	struct ibv_qp_init_attr attr = small;

	CHECK(own.cq);
	attr.send_cq = attr.recv_cq = own.cq;
	own.qp = ibv_create_qp(id->pd, &attr);
	CHECK(own.qp);
	return own;
}

static struct ibv_qp_attr move(struct rdma_cm_id *id, const struct own *own,
			       enum ibv_qp_state state, int wanted)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	CHECK_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
	CHECK_EQ(mask, wanted);
	CHECK_EQ(ibv_modify_qp(own->qp, &attr, mask), 0);
	return attr;
}

static void too_early(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;

	CHECK_FAILS(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(id, NULL, &mask), EINVAL);
	CHECK_FAILS(rdma_init_qp_attr(id, &attr, NULL), EINVAL);
}

static void end(struct own *own)
{
	CHECK_EQ(ibv_destroy_qp(own->qp), 0);
	CHECK_EQ(ibv_destroy_cq(own->cq), 0);
}

static void by_hand(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0x77 }, peer;
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK), *child;
	struct rdma_cm_event *e;
	struct own a = own_qp(id), b;

	CHECK_EQ(move(id, &a, IBV_QPS_INIT, INIT_MASK).qp_access_flags, 0);
	too_early(id);
	CHECK_EQ(rdma_set_local_ece(id, &ece), 0);
	param.qp_num = a.qp->qp_num;
	CHECK_EQ(rdma_connect(id, &param), 0);

	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(e->param.conn.qp_num, a.qp->qp_num);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_get_remote_ece(child, &peer), 0);
	CHECK_EQ(peer.vendor_id, 0x15b3);
	CHECK_EQ(peer.options, 0x77);
	b = own_qp(child);
	move(child, &b, IBV_QPS_INIT, INIT_MASK);
	CHECK_EQ(move(child, &b, IBV_QPS_RTR, RTR_MASK).dest_qp_num, a.qp->qp_num);
	move(child, &b, IBV_QPS_RTS, RTS_MASK);
	param.qp_num = b.qp->qp_num;
	CHECK_EQ(rdma_accept(child, &param), 0);

	e = world_event(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_EQ(e->param.conn.qp_num, b.qp->qp_num);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	move(id, &a, IBV_QPS_INIT, INIT_MASK);
	CHECK_EQ(move(id, &a, IBV_QPS_RTR, RTR_MASK).dest_qp_num, b.qp->qp_num);
	move(id, &a, IBV_QPS_RTS, RTS_MASK);
	CHECK_EQ(rdma_establish(id), 0);
	/* Only the other side gets the event. */
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	world_no_event(ch);
	CHECK_FAILS(rdma_notify(child, IBV_EVENT_COMM_EST), EISCONN);

	end(&a);
	end(&b);
	CHECK_EQ(rdma_destroy_id(id), 0);
	world_expect(ch, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_destroy_id(child), 0);
}

/*
 * A packet that arrives before the RTU establishes the connection, when the program reports it by
 * rdma_notify().
 */
static void notified(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .retry_count = 7, .qp_num = 0x1234 };
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK), *child;
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	param.qp_num = 0x1235;
	CHECK_EQ(rdma_accept(child, &param), 0);
	world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void datagrams(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_UDP, LOOPBACK),
			  *id = world_route(ch, listener, LOOPBACK);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	CHECK_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
	CHECK_EQ(mask, UD_INIT_MASK);
	CHECK_EQ(attr.qkey, RDMA_UDP_QKEY);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	created_by_library(ch, listener);
	second_try(ch, listener);
	refused(ch);
	queues(ch, listener);
	by_builder(ch, listener);
	extended_errors(ch, listener);
	by_hand(ch, listener);
	notified(ch, listener);
	datagrams(ch);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	return 0;
}
