/* SPDX-License-Identifier: BSD-2-Clause */
/* See xrc.h. */
#include "xrc.h"

#include <string.h>

struct ibv_xrcd *xrc_open_domain(struct xrc *x, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(x->rc.ctx, &attr);
}

void xrc_create_srq(struct xrc *x)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = XRC_RECVS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = x->rc.pd,
		.xrcd = x->xrcd,
		.cq = x->cq,
	};

	x->srq = ibv_create_srq_ex(x->rc.ctx, &attr);
	CHECK(x->srq);
	CHECK(ibv_get_srq_num(x->srq, &x->srqn) == 0);
}

void xrc_open(struct xrc *x, int fd, int oflags)
{
	memset(x, 0, sizeof(*x));
	rc_open(&x->rc, XRC_RECVS * XRC_SLOT);
	x->xrcd = xrc_open_domain(x, fd, oflags);
	CHECK(x->xrcd);
	x->cq = ibv_create_cq(x->rc.ctx, 4 * XRC_RECVS, NULL, x->rc.channel, 0);
	CHECK(x->cq);
	xrc_create_srq(x);
}

void xrc_close(struct xrc *x)
{
	if (x->qp)
		CHECK(ibv_destroy_qp(x->qp) == 0);
	if (x->srq)
		CHECK(ibv_destroy_srq(x->srq) == 0);
	CHECK(ibv_close_xrcd(x->xrcd) == 0);
	CHECK(ibv_destroy_cq(x->cq) == 0);
	rc_close(&x->rc);
}

static struct ibv_qp *to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};

	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

struct ibv_qp *xrc_recv_qp(struct xrc *x)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = x->xrcd,
	};

	return to_init(ibv_create_qp_ex(x->rc.ctx, &attr));
}

struct ibv_qp *xrc_send_qp(struct xrc *x)
{
	struct ibv_qp_init_attr init = {
		.send_cq = x->rc.cq,
		.qp_type = IBV_QPT_XRC_SEND,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = XRC_SENDS, .max_send_sge = 1 },
	};

	return to_init(ibv_create_qp(x->rc.pd, &init));
}

char *xrc_buffer(struct xrc *x, unsigned int i)
{
	return x->rc.buf + i * XRC_SLOT;
}

void xrc_post(struct xrc *x, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)xrc_buffer(x, i), XRC_SLOT, x->rc.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_srq_recv(x->srq, &wr, &bad) == 0);
}

void xrc_send(struct xrc *x, enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t src_off,
	      uint32_t len, const struct rc_addr *target, uint64_t wr_id, int flags)
{
	struct ibv_sge sge = { (uintptr_t)x->rc.buf + src_off, len, x->rc.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = flags, .imm_data = (uint32_t)wr_id,
				  .qp_type.xrc.remote_srqn = srqn }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = target->addr;
		wr.wr.atomic.rkey = target->rkey;
		wr.wr.atomic.compare_add = 1;
	} else if (target) {
		wr.wr.rdma.remote_addr = target->addr;
		wr.wr.rdma.rkey = target->rkey;
	}
	CHECK(ibv_post_send(x->qp, &wr, &bad) == 0);
}

struct ibv_wc xrc_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
	} while (n == 0);
	CHECK(n == 1);
	return wc;
}
