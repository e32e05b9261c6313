/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: attributes, limit event, sharing, destruction; and XRC, in which the
 * sender selects the queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct buffer buf;

static struct ibv_srq *make(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &attr);

	CHECK(srq);
	CHECK(attr.attr.max_wr >= wr && attr.attr.max_sge >= sge);
	return srq;
}

static int post(struct ibv_srq *srq, uint64_t wr_id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = n }, *bad = NULL;
	int ret = ibv_post_srq_recv(srq, &wr, &bad);

	CHECK((ret != 0) == (bad == &wr));
	return ret;
}

static void test_create(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = { .attr = { .max_wr = 1 }, .pd = w.pd };
	static const uint32_t masks[] = { 0, IBV_SRQ_INIT_ATTR_TYPE,
					  1u << 20 | IBV_SRQ_INIT_ATTR_TM };
	struct ibv_device_attr dev;

	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		struct ibv_srq *srq;

		ex.comp_mask = masks[i];
		srq = ibv_create_srq_ex(w.ctx, &ex);
		CHECK(srq);
		CHECK_EQ(ibv_destroy_srq(srq), 0);
	}
	/* mlx5 accepts queues without entries or SGEs. */
	CHECK_EQ(ibv_destroy_srq(make(0, 1)), 0);
	CHECK_EQ(ibv_destroy_srq(make(0, 0)), 0);
	attr.attr.max_wr = dev.max_srq_wr + 1;
	CHECK(!ibv_create_srq(w.pd, &attr));
	attr.attr.max_wr = 1;
	attr.attr.max_sge = dev.max_srq_sge + 1;
	CHECK(!ibv_create_srq(w.pd, &attr));
	CHECK_EQ(errno, EINVAL);
}

static void test_modify(void)
{
	struct ibv_srq *srq = make(8, 2);
	struct ibv_srq_attr attr;

	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 0);
	attr.srq_limit = 3;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.srq_limit = 0;
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 3);
	attr.srq_limit = attr.max_wr + 1;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	attr.srq_limit = 2;
	CHECK_EQ(ibv_modify_srq(srq, &attr, 1 << 5), 0);
	CHECK_EQ(ibv_modify_srq(srq, &attr, 0), 0);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 3);
	attr.srq_limit = 2;
	CHECK_EQ(ibv_modify_srq(srq, &attr, 1 << 5 | IBV_SRQ_LIMIT), 0);
	attr.srq_limit = 0;
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 2);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(post(srq, i, NULL, 0), 0);
	attr.max_wr = 4;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 100;
	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr > 100);	/* rounded up */
	for (uint32_t i = 5; i < attr.max_wr; i++)
		CHECK_EQ(post(srq, i, NULL, 0), 0);
	CHECK_EQ(post(srq, attr.max_wr, NULL, 0), ENOMEM);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void test_post(void)
{
	struct ibv_srq *srq = make(2, 1);
	struct ibv_sge sge[2] = { world_sge(&buf, 0, 8), world_sge(&buf, 8, 8) };

	CHECK_EQ(post(srq, 1, sge, 2), EINVAL);
	CHECK_EQ(post(srq, 1, NULL, 1), EINVAL);
	CHECK_EQ(post(srq, 1, sge, -1), EINVAL);
	CHECK_EQ(post(srq, 1, sge, 1), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* Two queue pairs take receives from one queue in order; the limit event is raised once. */
static void test_sharing(void)
{
	struct ibv_cq *cq = world_cq(&w, 64), *recv_cq = world_cq(&w, 64);
	struct ibv_srq *srq = make(16, 1);
	struct ibv_qp *from[2], *to[2];
	struct ibv_srq_attr limit = { .srq_limit = 3 };
	struct ibv_recv_wr wr = { 0 }, *bad;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq, .recv_cq = recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		};

		from[i] = world_qp(&w, IBV_QPT_RC, cq, NULL);
		to[i] = ibv_create_qp(w.pd, &attr);
		CHECK(to[i]);
		world_connect(&w, from[i], to[i]);
	}
	CHECK_EQ(ibv_post_recv(to[0], &wr, &bad), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq), EBUSY);
	for (int i = 0; i < 6; i++) {
		struct ibv_sge sge = world_sge(&buf, 1024 + i * 64, 64);

		CHECK_EQ(post(srq, i, &sge, 1), 0);
	}
	CHECK_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 6; i++) {
		struct ibv_wc wc;

		buf.data[0] = i;
		world_send(from[i & 1], 100 + i, world_sge(&buf, 0, 64));
		wc = world_expect(recv_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.qp_num, to[i & 1]->qp_num);
		CHECK_EQ(buf.data[1024 + i * 64], i);
		world_expect(cq, 100 + i, IBV_WC_SUCCESS);
		CHECK_EQ(world_has_event(&w), i >= 3);
	}
	world_event(&w, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_query_srq(srq, &limit), 0);
	CHECK_EQ(limit.srq_limit, 0);
	world_move(&w, to[0], IBV_QPS_ERR, 0);
	world_event(&w, IBV_EVENT_QP_LAST_WQE_REACHED);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_qp(from[i]), 0);
		CHECK_EQ(ibv_destroy_qp(to[i]), 0);
	}
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(recv_cq), 0);
}

/*
 * The memory of a receive must belong to its queue's protection domain; the QP's domain is
 * irrelevant.
 */
static void test_domains_of_memory(bool of_srq)
{
	struct ibv_pd *other = ibv_alloc_pd(w.ctx);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_cq *cq = world_cq(&w, 16), *recv_cq = world_cq(&w, 16);
	struct ibv_qp_init_attr attr = { .send_cq = recv_cq,
					 .recv_cq = recv_cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp *from = world_qp(&w, IBV_QPT_RC, cq, NULL), *to;
	struct ibv_mr *mr = ibv_reg_mr(of_srq ? other : w.pd, buf.data, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buf.data, 64, mr->lkey };

	attr.srq = ibv_create_srq(other, &srq_attr);
	to = ibv_create_qp(w.pd, &attr);
	CHECK(attr.srq && to);
	world_connect(&w, from, to);
	CHECK_EQ(post(attr.srq, 1, &sge, 1), 0);
	world_send(from, 2, world_sge(&buf, 128, 64));
	world_expect(recv_cq, 1, of_srq ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	world_expect(cq, 2, of_srq ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_srq(attr.srq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(recv_cq), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	while (world_has_event(&w)) {
		struct ibv_async_event ev;

		CHECK_EQ(ibv_get_async_event(w.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	}
}

static struct ibv_xrcd *open_domain_of(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(ctx, &attr);
}

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	return open_domain_of(w.ctx, fd, oflags);
}

/* An XRC domain belongs to an inode; the flags are those of open(2). */
static void test_domains(void)
{
	char name[] = "/tmp/verbena-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct ibv_xrcd *one, *two;

	CHECK(fd >= 0);
	unlink(name);
	CHECK(!open_domain(fd, 0));
	CHECK_EQ(errno, ENOENT);
	one = open_domain(fd, O_CREAT);
	CHECK(one);
	CHECK(!open_domain(fd, O_CREAT | O_EXCL));
	CHECK_EQ(errno, EEXIST);
	two = open_domain(fd, 0);
	CHECK(two);
	CHECK_EQ(ibv_close_xrcd(one), 0);
	CHECK_EQ(ibv_close_xrcd(two), 0);
	CHECK(!open_domain(fd, 0));
	/* The other flags have no meaning; without a file there is nothing to find. */
	one = open_domain(fd, O_CREAT | O_EXCL | O_RDWR | O_APPEND);
	CHECK(one);
	two = open_domain(-1, 0);
	CHECK(two);
	CHECK_EQ(ibv_close_xrcd(one), 0);
	CHECK_EQ(ibv_close_xrcd(two), 0);
	close(fd);
}

static struct ibv_qp *xrc_recv_qp(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(xrcd->context, &attr);
}

/* NULL: there is none with this number. */
static struct ibv_qp *open_qp(struct ibv_xrcd *xrcd, uint32_t number)
{
	return ibv_open_qp(xrcd->context, &(struct ibv_qp_open_attr){
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV });
}

static struct ibv_srq *xrc_srq_in(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
				  uint32_t *number)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pd->context, &attr);

	CHECK(srq);
	CHECK_EQ(ibv_get_srq_num(srq, number), 0);
	return srq;
}

static struct ibv_srq *xrc_srq(struct ibv_xrcd *xrcd, struct ibv_cq *cq, uint32_t *number)
{
	return xrc_srq_in(w.pd, xrcd, cq, number);
}

/* Sends a message whose completion stays in its CQ. */
static void send_last(struct ibv_qp *from, struct ibv_cq *send_cq, struct ibv_srq *srq,
		      uint32_t number)
{
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = number };

	CHECK_EQ(post(srq, 20, NULL, 0), 0);
	world_post(from, &wr);
	world_expect(send_cq, 2, IBV_WC_SUCCESS);
}

/* One receive QP serves two queues; each request selects one. */
static void test_xrc(void)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_cq *send_cq = world_cq(&w, 16), *cq[2] = { world_cq(&w, 16), world_cq(&w, 16) };
	struct ibv_qp *from = world_qp(&w, IBV_QPT_XRC_SEND, send_cq, NULL);
	struct ibv_qp *to = xrc_recv_qp(xrcd), *handle;
	struct ibv_srq *srq[2];
	uint32_t number[2];

	CHECK(xrcd && to);
	world_connect(&w, from, to);
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = world_sge(&buf, 1024 + i * 64, 64);

		srq[i] = xrc_srq(xrcd, cq[i], &number[i]);
		CHECK_EQ(post(srq[i], 10 + i, &sge, 1), 0);
	}
	CHECK(number[0] != number[1]);
	for (int i = 1; i >= 0; i--) {
		struct ibv_sge sge = world_sge(&buf, 0, 64);
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_SIGNALED,
					  .qp_type.xrc.remote_srqn = number[i] };

		buf.data[0] = 77 + i;
		world_post(from, &wr);
		world_expect(cq[i], 10 + i, IBV_WC_SUCCESS);
		world_expect(send_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(buf.data[1024 + i * 64], 77 + i);
	}
	CHECK((handle = open_qp(xrcd, to->qp_num)));
	CHECK_EQ(handle->qp_num, to->qp_num);
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	send_last(from, send_cq, srq[0], number[0]);
	world_move(&w, handle, IBV_QPS_ERR, 0);	/* not destroyed yet */
	CHECK_EQ(ibv_destroy_qp(handle), 0);
	world_expect(cq[0], 20, IBV_WC_SUCCESS);	/* the completion outlives the QP */
	CHECK_EQ(ibv_destroy_qp(from), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_srq(srq[i]), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_cq(cq[i]), 0);
}

/*
 * An XRC receive QP fails if the completions of its SRQ overrun their CQ, like any other user of
 * that CQ.
 */
static void test_xrc_overrun(void)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_cq *send_cq = world_cq(&w, 16), *cq = world_cq(&w, 1);
	struct ibv_qp *from = world_qp(&w, IBV_QPT_XRC_SEND, send_cq, NULL);
	struct ibv_qp *to = xrc_recv_qp(xrcd);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t number;
	struct ibv_srq *srq = xrc_srq(xrcd, cq, &number);

	world_connect(&w, from, to);
	for (int i = 0; i < cq->cqe + 1; i++) {
		struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND,
					  .qp_type.xrc.remote_srqn = number };

		CHECK_EQ(post(srq, i, NULL, 0), 0);
		world_post(from, &wr);
	}
	world_event(&w, IBV_EVENT_CQ_ERR);
	world_event(&w, IBV_EVENT_SRQ_ERR);
	world_event(&w, IBV_EVENT_QP_LAST_WQE_REACHED);
	world_event(&w, IBV_EVENT_QP_FATAL);
	CHECK_EQ(ibv_query_qp(to, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/*
 * The creator of a receive QP leaves, with its context, while another context has the QP open. The
 * creator has destroyed its objects, or has not.
 */
static void test_xrc_creator_leaves(bool destroys)
{
	/* Those not destroyed are never freed, by contract; static for leak checkers. */
	static struct ibv_context *creator;
	static struct ibv_xrcd *creators;
	static struct ibv_qp *to;
	char name[] = "/tmp/verbena-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct ibv_cq *send_cq = world_cq(&w, 16), *cq = world_cq(&w, 16);
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct ibv_qp *from = world_qp(&w, IBV_QPT_XRC_SEND, send_cq, NULL), *handle;
	struct ibv_srq *srq;
	uint32_t number;

	unlink(name);
	CHECK((creator = ibv_open_device(w.ctx->device)));
	CHECK((creators = open_domain_of(creator, fd, 0)));
	CHECK((to = xrc_recv_qp(creators)));
	world_connect(&w, from, to);
	CHECK((handle = open_qp(xrcd, to->qp_num)));
	if (destroys) {
		CHECK_EQ(ibv_destroy_qp(to), 0);
		CHECK_EQ(ibv_close_xrcd(creators), 0);
	}
	CHECK_EQ(ibv_close_device(creator), 0);
	srq = xrc_srq(xrcd, cq, &number);
	send_last(from, send_cq, srq, number);
	world_expect(cq, 20, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	CHECK_EQ(ibv_destroy_qp(handle), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	close(fd);
}

/* A handle ends with its context: the creator's is then the last one. */
static void test_xrc_handle_leaves(void)
{
	static struct ibv_context *other;
	static struct ibv_xrcd *others;
	static struct ibv_qp *handle;
	char name[] = "/tmp/verbena-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct ibv_qp *qp = xrc_recv_qp(xrcd);

	unlink(name);
	CHECK((other = ibv_open_device(w.ctx->device)));
	CHECK((others = open_domain_of(other, fd, 0)));
	CHECK((handle = open_qp(others, qp->qp_num)));
	CHECK_EQ(ibv_close_device(other), 0);
	CHECK_EQ(ibv_destroy_qp(handle), ENODEV);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	close(fd);
}

/*
 * An SRQ whose context was closed with it inside is as good as destroyed: requests for it are
 * refused. So is a receive QP: it cannot be opened.
 */
static void test_xrc_closed_context(void)
{
	/* Never freed, by contract; static, so that leak checkers find a reference. */
	static struct world other;
	static struct ibv_xrcd *other_xrcd;
	static struct ibv_cq *cq;
	static struct ibv_srq *srq;
	static struct ibv_qp *gone;
	char name[] = "/tmp/verbena-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct ibv_cq *send_cq = world_cq(&w, 16);
	struct ibv_qp *from = world_qp(&w, IBV_QPT_XRC_SEND, send_cq, NULL);
	struct ibv_qp *to = xrc_recv_qp(xrcd);
	struct ibv_send_wr wr = { .wr_id = 3,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	CHECK(xrcd && to);
	unlink(name);
	world_open(&other);
	other_xrcd = open_domain_of(other.ctx, fd, O_CREAT);
	cq = world_cq(&other, 16);
	srq = xrc_srq_in(other.pd, other_xrcd, cq, &wr.qp_type.xrc.remote_srqn);
	CHECK((gone = xrc_recv_qp(other_xrcd)));
	world_connect(&w, from, to);
	send_last(from, send_cq, srq, wr.qp_type.xrc.remote_srqn);
	CHECK_EQ(post(srq, 21, NULL, 0), 0);
	CHECK_EQ(ibv_close_device(other.ctx), 0);
	CHECK(!open_qp(xrcd, gone->qp_num));
	CHECK_EQ(errno, EINVAL);
	world_post(from, &wr);
	world_expect(send_cq, 3, IBV_WC_REM_INV_REQ_ERR);
	world_event(&w, IBV_EVENT_QP_REQ_ERR);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	close(fd);
}

int main(void)
{
	world_open(&w);
	buf = world_buffer(&w, 8192, WORLD_ACCESS);
	test_create();
	test_modify();
	test_post();
	test_sharing();
	test_domains_of_memory(true);
	test_domains_of_memory(false);
	test_domains();
	test_xrc();
	test_xrc_overrun();
	test_xrc_creator_leaves(true);
	test_xrc_creator_leaves(false);
	test_xrc_handle_leaves();
	test_xrc_closed_context();
	world_free(&buf);
	world_close(&w);
	return 0;
}
