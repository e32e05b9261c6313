/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Affiliated asynchronous events of queue pairs, completion queues and shared receive queues. Each
 * cause must raise its event once and for the right object only, and destroying an object must wait
 * until its events are acknowledged. event_test.c covers events of ports and devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer buf;

static void connect_pair(void)
{
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
}

static void disconnect_pair(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
}

/* Returns the next event without acknowledging it. */
static struct ibv_async_event next_event(enum ibv_event_type type)
{
	struct pollfd fd = { .fd = w.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	CHECK_EQ(poll(&fd, 1, WORLD_LIMIT_S * 1000), 1);
	CHECK_EQ(ibv_get_async_event(w.ctx, &e), 0);
	if (e.event_type != type)
		printf("got %s\n", ibv_event_type_str(e.event_type));
	CHECK_EQ(e.event_type, type);
	return e;
}

static void expect_qp_event(enum ibv_event_type type, const struct ibv_qp *qp)
{
	struct ibv_async_event e = next_event(type);

	CHECK(e.element.qp == qp);
	ibv_ack_async_event(&e);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* IBTA 11.6.3.2: the first message of a connection while its receiver is in RTR. */
static void test_comm_est(void)
{
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		world_move(&w, a, s, b->qp_num);
		if (s <= IBV_QPS_RTR)
			world_move(&w, b, s, a->qp_num);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc[2];

		world_recv(b, 1, world_sge(&buf, 64, 64));
		world_send(a, 2, world_sge(&buf, 0, 64));
		world_poll(cq, wc, 2);
	}
	expect_qp_event(IBV_EVENT_COMM_EST, b);
	CHECK(!world_has_event(&w));
	world_move(&w, b, IBV_QPS_RTS, 0);
	disconnect_pair();
}

/*
 * Sends a request that b refuses. a must get an error completion; b, which consumes no receive, an
 * event.
 */
static void refused_request(struct ibv_send_wr wr, enum ibv_wc_status status,
			    enum ibv_event_type type)
{
	world_post(a, &wr);
	world_expect(cq, wr.wr_id, status);
	expect_qp_event(type, b);
	CHECK(!world_has_event(&w));
	CHECK_EQ(state_of(b), IBV_QPS_ERR);
	disconnect_pair();
}

static void test_req_err(void)
{
	struct ibv_qp_attr attr = { .qp_access_flags = 0 };
	struct ibv_sge sge = world_sge(&buf, 0, 8);

	connect_pair();
	CHECK_EQ(ibv_modify_qp(b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	refused_request(world_rdma(IBV_WR_RDMA_READ, 1, &sge, &buf, 8), IBV_WC_REM_INV_REQ_ERR,
			IBV_EVENT_QP_REQ_ERR);
}

static void test_access_err(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 0);

	wr.wr.rdma.rkey ^= 0x100;
	connect_pair();
	refused_request(wr, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

/*
 * Overruns a completion queue: CQ_ERR is raised once, then one QP_FATAL for each queue pair on it.
 */
static void test_cq_err(void)
{
	struct ibv_cq *small = world_cq(&w, 1);
	struct ibv_qp *bystander = world_qp(&w, IBV_QPT_UD, small, NULL);
	struct ibv_async_event e;
	struct ibv_qp *qp;

	world_move(&w, bystander, IBV_QPS_INIT, 0);
	qp = world_qp(&w, IBV_QPT_RC, small, NULL);
	world_connect(&w, qp, qp);
	for (int i = 0; i <= small->cqe; i++) {
		struct ibv_sge sge = world_sge(&buf, 0, 8);
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, i, &sge, &buf, 8);

		world_post(qp, &wr);
	}
	e = next_event(IBV_EVENT_CQ_ERR);
	CHECK(e.element.cq == small);
	ibv_ack_async_event(&e);
	for (int i = 0; i < 2; i++) {
		e = next_event(IBV_EVENT_QP_FATAL);
		CHECK(e.element.qp == qp || e.element.qp == bystander);
		ibv_ack_async_event(&e);
	}
	CHECK(!world_has_event(&w));
	CHECK_EQ(state_of(qp), IBV_QPS_ERR);
	CHECK_EQ(state_of(bystander), IBV_QPS_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(bystander), 0);
	CHECK_EQ(ibv_destroy_cq(small), 0);
}

/* A work queue enters the error state when its completion queue overruns because of other users. */
static void test_wq_fatal(void)
{
	struct ibv_cq *small = world_cq(&w, 1);
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1,
					 .pd = w.pd, .cq = small };
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_wq *wq = ibv_create_wq(w.ctx, &init);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, small, NULL);
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_async_event e;

	CHECK(wq);
	CHECK_EQ(ibv_modify_wq(wq, &ready), 0);
	world_move(&w, qp, IBV_QPS_INIT, 0);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	for (int i = 0; i <= small->cqe; i++)
		ibv_post_recv(qp, &wr, &bad);
	e = next_event(IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&e);
	e = next_event(IBV_EVENT_WQ_FATAL);
	CHECK(e.element.wq == wq);
	ibv_ack_async_event(&e);
	CHECK_EQ(wq->state, IBV_WQS_ERR);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_wq(wq), 0);
	CHECK_EQ(ibv_destroy_cq(small), 0);
}

static void test_drained(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	connect_pair();
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	expect_qp_event(IBV_EVENT_SQ_DRAINED, a);
	/* Without en_sqd_async_notify there is no event. */
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 0 };
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	CHECK(!world_has_event(&w));
	disconnect_pair();
}

static struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &attr);

	CHECK(srq);
	return srq;
}

static void test_last_wqe(void)
{
	struct ibv_srq *srq = make_srq();
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, srq);

	world_connect(&w, qp, qp);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	expect_qp_event(IBV_EVENT_QP_LAST_WQE_REACHED, qp);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void post_empty(struct ibv_srq *srq, int want)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), want);
}

static void test_limit(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 1 };
	struct ibv_srq *srq = make_srq();
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	struct ibv_async_event e;
	struct ibv_wc wc[2];

	world_connect(&w, qp, qp);
	post_empty(srq, 0);
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	world_send(qp, 2, world_sge(&buf, 0, 0));
	world_poll(cq, wc, 2);
	e = next_event(IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(e.element.srq == srq);
	ibv_ack_async_event(&e);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK(!world_has_event(&w));
}

struct xrc {
	struct ibv_xrcd *xrcd;
	struct ibv_cq *srq_cq;
	struct ibv_srq *srq;
	uint32_t number;
	struct ibv_qp *to;	/* receive */
};

static struct ibv_qp *xrc_receiver(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp);
	return qp;
}

static void xrc_open(struct xrc *x)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = w.pd,
	};

	CHECK((x->xrcd = ibv_open_xrcd(w.ctx, &domain)));
	x->srq_cq = world_cq(&w, 1);
	attr.xrcd = x->xrcd;
	attr.cq = x->srq_cq;
	CHECK((x->srq = ibv_create_srq_ex(w.ctx, &attr)));
	CHECK_EQ(ibv_get_srq_num(x->srq, &x->number), 0);
	x->to = xrc_receiver(x->xrcd);
}

static void send_empty(struct ibv_qp *from, uint32_t srqn, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = srqn };

	world_post(from, &wr);
	world_expect(cq, 7, status);
}

/*
 * An SRQ whose own completion queue has overrun can report no receive: it raises SRQ_ERR, and from
 * then on neither posting to it nor a queue pair that uses it succeeds.
 */
static void test_srq_err(void)
{
	struct ibv_qp *from = world_qp(&w, IBV_QPT_XRC_SEND, cq, NULL), *late;
	struct ibv_srq_attr attr;
	struct ibv_async_event e;
	struct xrc x;

	xrc_open(&x);
	world_connect(&w, from, x.to);
	for (int i = 0; i < x.srq_cq->cqe + 2; i++)
		post_empty(x.srq, 0);
	for (int i = 0; i < x.srq_cq->cqe; i++)
		send_empty(from, x.number, IBV_WC_SUCCESS);
	CHECK(!world_has_event(&w));
	{
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .qp_type.xrc.remote_srqn = x.number };

		world_post(from, &wr);
	}
	e = next_event(IBV_EVENT_CQ_ERR);
	CHECK(e.element.cq == x.srq_cq);
	ibv_ack_async_event(&e);
	e = next_event(IBV_EVENT_SRQ_ERR);
	CHECK(e.element.srq == x.srq);
	ibv_ack_async_event(&e);
	expect_qp_event(IBV_EVENT_QP_LAST_WQE_REACHED, x.to);
	expect_qp_event(IBV_EVENT_QP_FATAL, x.to);
	CHECK_EQ(state_of(x.to), IBV_QPS_ERR);

	post_empty(x.srq, EINVAL);
	attr.srq_limit = 1;
	CHECK_EQ(ibv_modify_srq(x.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	CHECK_EQ(ibv_query_srq(x.srq, &attr), EINVAL);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	from = world_qp(&w, IBV_QPT_XRC_SEND, cq, NULL);
	late = xrc_receiver(x.xrcd);
	world_connect(&w, from, late);
	send_empty(from, x.number, IBV_WC_REM_OP_ERR);
	expect_qp_event(IBV_EVENT_QP_FATAL, late);
	expect_qp_event(IBV_EVENT_QP_LAST_WQE_REACHED, late);
	CHECK(!world_has_event(&w));

	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(late), 0);
	CHECK_EQ(ibv_destroy_qp(x.to), 0);
	CHECK_EQ(ibv_destroy_srq(x.srq), 0);
	CHECK_EQ(ibv_close_xrcd(x.xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(x.srq_cq), 0);
}

/* The same for an SRQ with tag matching, overrun by completions of its own operations. */
static void test_srq_err_tag_matching(void)
{
	struct ibv_cq *small = world_cq(&w, 1);
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = w.pd,
		.cq = small,
		.tm_cap = { .max_num_tags = 4, .max_ops = 64 },
	};
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_SIGNALED }, *bad;
	struct ibv_srq *srq = ibv_create_srq_ex(w.ctx, &init);
	struct ibv_async_event e;

	CHECK(srq);
	for (int i = 0; i <= small->cqe; i++)
		CHECK_EQ(ibv_post_srq_ops(srq, &op, &bad), 0);
	e = next_event(IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&e);
	e = next_event(IBV_EVENT_SRQ_ERR);
	CHECK(e.element.srq == srq);
	ibv_ack_async_event(&e);
	CHECK_EQ(ibv_post_srq_ops(srq, &op, &bad), EINVAL);
	CHECK(bad == &op);
	post_empty(srq, EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_cq(small), 0);
}

static int acknowledged;	/* atomic */

static void *acknowledge(void *arg)
{
	__atomic_store_n(&acknowledged, 1, __ATOMIC_RELAXED);
	ibv_ack_async_event(arg);
	return NULL;
}

/*
 * ibv_ack_async_event(3): destruction waits for acknowledgements, so no event refers to an object
 * that no longer exists.
 */
static void test_acknowledgement(void)
{
	struct ibv_srq *srq = make_srq();
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	struct ibv_async_event e;
	pthread_t thread;

	world_connect(&w, qp, qp);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	e = next_event(IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_EQ(pthread_create(&thread, NULL, acknowledge, &e), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK(__atomic_load_n(&acknowledged, __ATOMIC_RELAXED));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* An event that was not fetched is dropped with its object. */
	qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	world_connect(&w, qp, qp);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	CHECK(world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK(!world_has_event(&w));
	/* The public count is that of the acknowledgements. */
	qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	world_connect(&w, qp, qp);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	e = next_event(IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_EQ(qp->events_completed, 0);
	ibv_ack_async_event(&e);
	CHECK_EQ(qp->events_completed, 1);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	setenv("VERBENA_LOG", "error", 1);	/* keeps the expected failures out of the log */
	world_open(&w);
	cq = world_cq(&w, 64);
	buf = world_buffer(&w, 128, WORLD_ACCESS);
	test_comm_est();
	test_req_err();
	test_access_err();
	test_cq_err();
	test_wq_fatal();
	test_drained();
	test_last_wqe();
	test_limit();
	test_srq_err();
	test_srq_err_tag_matching();
	test_acknowledgement();
	world_free(&buf);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
