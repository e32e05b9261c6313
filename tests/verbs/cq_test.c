/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, resizing, polling, moderation, overrun, destruction. */
#include <errno.h>
#include <poll.h>

#include "world.h"

static struct world w;

static void test_create(void)
{
	struct ibv_device_attr dev;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;

	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	for (int cqe = 1; cqe < 100; cqe += 7) {
		cq = ibv_create_cq(w.ctx, cqe, &w, NULL, 0);
		CHECK(cq);
		CHECK(cq->cqe > cqe);	/* one more than requested, as on devices */
		CHECK(cq->context == w.ctx && cq->cq_context == &w && !cq->channel);
		CHECK_EQ(ibv_destroy_cq(cq), 0);
	}
	errno = 0;
	CHECK(!ibv_create_cq(w.ctx, 0, NULL, NULL, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(w.ctx, -1, NULL, NULL, 0));
	CHECK(!ibv_create_cq(w.ctx, dev.max_cqe + 1, NULL, NULL, 0));
	CHECK_EQ(errno, EINVAL);
	CHECK(!ibv_create_cq(w.ctx, 1, NULL, NULL, w.ctx->num_comp_vectors));
	CHECK(!ibv_create_cq(w.ctx, 1, NULL, NULL, -1));
	CHECK_EQ(errno, EINVAL);
	channel = ibv_create_comp_channel(w.ctx);
	cq = ibv_create_cq(w.ctx, 1, NULL, channel, w.ctx->num_comp_vectors - 1);
	CHECK(cq && cq->channel == channel);
	CHECK_EQ(ibv_destroy_comp_channel(channel), EBUSY);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void test_destroy_in_use(void)
{
	struct ibv_cq *cq = world_cq(&w, 8);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);

	CHECK_EQ(ibv_destroy_cq(cq), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void test_poll_bounds(void)
{
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_qp *qp = world_flushed(&w, cq, 5);
	struct ibv_wc wc[8];

	CHECK_EQ(ibv_poll_cq(cq, 0, wc), 0);
	CHECK_EQ(ibv_poll_cq(cq, 2, wc), 2);
	CHECK_EQ(wc[0].wr_id, 0);
	CHECK_EQ(wc[1].wr_id, 1);
	CHECK_EQ(ibv_poll_cq(cq, 8, wc), 3);
	CHECK_EQ(wc[2].wr_id, 4);
	CHECK_EQ(ibv_poll_cq(cq, 8, wc), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* Completions survive a change of size, in order; a size below their number is refused. */
static void test_resize(void)
{
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_qp *qp = world_flushed(&w, cq, 12);
	struct ibv_wc wc[16];

	CHECK_EQ(ibv_poll_cq(cq, 3, wc), 3);
	CHECK_EQ(ibv_resize_cq(cq, 4), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(cq, 100), 0);
	CHECK(cq->cqe >= 100);
	CHECK_EQ(ibv_poll_cq(cq, 16, wc), 9);
	for (int i = 0; i < 9; i++)
		CHECK_EQ(wc[i].wr_id, 3 + i);
	CHECK_EQ(ibv_resize_cq(cq, 1), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* Destroying a queue pair removes its completions and no others. */
static void test_purge(void)
{
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_qp *one = world_flushed(&w, cq, 3), *two = world_flushed(&w, cq, 2);
	uint32_t qpn = two->qp_num;
	struct ibv_wc wc[8];

	CHECK_EQ(ibv_destroy_qp(one), 0);
	CHECK_EQ(ibv_poll_cq(cq, 8, wc), 2);
	CHECK_EQ(wc[0].qp_num, qpn);
	world_move(&w, two, IBV_QPS_RESET, 0);
	CHECK_EQ(ibv_destroy_qp(two), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* One completion too many: CQ_ERR is raised, and the queue pairs that use the CQ enter ERR. */
static void test_overrun(void)
{
	struct ibv_cq *cq = world_cq(&w, 4);
	struct ibv_cq *other = world_cq(&w, 64);
	struct ibv_qp *bystander = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *qp;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc[64];

	world_move(&w, bystander, IBV_QPS_INIT, 0);
	qp = world_flushed(&w, cq, cq->cqe);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_poll_cq(cq, 1, wc), 1);
	for (int i = 0; i < 2; i++) {
		struct ibv_recv_wr wr = { .wr_id = 99 }, *bad;

		ibv_post_recv(qp, &wr, &bad);
	}
	world_event(&w, IBV_EVENT_CQ_ERR);
	world_event(&w, IBV_EVENT_QP_FATAL);
	CHECK_EQ(ibv_query_qp(bystander, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	CHECK_EQ(ibv_poll_cq(cq, 64, wc), cq->cqe);
	CHECK(ibv_poll_cq(cq, 64, wc) < 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(bystander), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(other), 0);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* With moderation an armed CQ raises an event after `count` completions or when the period ends. */
static void test_moderation(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *cq = ibv_create_cq(w.ctx, 16, NULL, channel, 0), *from;
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 3, .cq_period = 0 },
	};
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct ibv_qp *qp;
	void *context;

	CHECK_EQ(ibv_modify_cq(cq, &attr), 0);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	qp = world_flushed(&w, cq, 2);
	CHECK(!readable(channel->fd));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	qp = world_flushed(&w, cq, 1);
	CHECK(readable(channel->fd));
	CHECK_EQ(ibv_get_cq_event(channel, &from, &context), 0);
	CHECK(from == cq);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_destroy_qp(qp), 0);

	attr.moderate = (struct ibv_moderate_cq){ .cq_count = 100, .cq_period = 500 };
	CHECK_EQ(ibv_modify_cq(cq, &attr), 0);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	qp = world_flushed(&w, cq, 1);
	/* nothing but the end of the period raises the event */
	CHECK_EQ(poll(&p, 1, WORLD_LIMIT_S * 1000), 1);
	CHECK_EQ(ibv_get_cq_event(channel, &from, &context), 0);
	ibv_ack_cq_events(cq, 1);
	attr.attr_mask = IBV_CQ_ATTR_RESERVED;
	CHECK(ibv_modify_cq(cq, &attr));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

int main(void)
{
	world_open(&w);
	test_create();
	test_destroy_in_use();
	test_poll_bounds();
	test_resize();
	test_purge();
	test_overrun();
	test_moderation();
	world_close(&w);
	return 0;
}
