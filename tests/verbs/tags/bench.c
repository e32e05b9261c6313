/* SPDX-License-Identifier: BSD-2-Clause */
/* See bench.h. */
#include "tags/bench.h"

#include <endian.h>

struct ibv_srq_init_attr_ex srq_attr(struct bench *b)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = ORDINARY, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = b->w.pd,
		.cq = ibv_cq_ex_to_cq(b->tag_cq),
		.tm_cap = { .max_num_tags = TAGS, .max_ops = OPS },
	};
}

struct ibv_qp *new_receiver(struct bench *b, uint32_t max_send_wr)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = b->send_cq,
		.srq = b->srq,
		.cap = { .max_send_wr = max_send_wr, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(b->w.pd, &attr);

	CHECK(qp);
	CHECK(!qp->recv_cq);
	return qp;
}

void move_qp(struct bench *b, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	struct ibv_qp_attr attr;
	int mask = world_attr(&b->w, IBV_QPT_RC, to, peer, &attr);

	attr.path_mtu = b->mtu;
	attr.rnr_retry = b->rnr_retry;
	attr.timeout = b->timeout;
	attr.max_rd_atomic = qp == b->to ? b->rd_atomic : 4;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

void connect_qps(struct bench *b)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		move_qp(b, b->to, s, b->from->qp_num);
		move_qp(b, b->from, s, b->to->qp_num);
	}
}

void post_ordinary(struct bench *b, unsigned int i)
{
	struct ibv_sge sge = world_sge(&b->ordinary, i * ORDINARY_LEN, ORDINARY_LEN);
	struct ibv_recv_wr wr = { .wr_id = ORDINARY_ID + i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_srq_recv(b->srq, &wr, &bad), 0);
}

void bench_open(struct bench *b, uint32_t max_send_wr, unsigned int ordinary)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 256,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_srq_init_attr_ex attr;

	memset(b, 0, sizeof(*b));
	b->mtu = IBV_MTU_1024;
	b->rnr_retry = 7;
	b->timeout = 14;
	b->rd_atomic = 4;
	world_open(&b->w);
	b->send_cq = world_cq(&b->w, 256);
	b->tag_cq = ibv_create_cq_ex(b->w.ctx, &cq);
	CHECK(b->tag_cq);
	attr = srq_attr(b);
	b->srq = ibv_create_srq_ex(b->w.ctx, &attr);
	CHECK(b->srq);
	b->from = world_qp(&b->w, IBV_QPT_RC, b->send_cq, NULL);
	b->to = new_receiver(b, max_send_wr);
	b->src = world_buffer(&b->w, MEM, WORLD_ACCESS);
	b->dst = world_buffer(&b->w, MEM, WORLD_ACCESS);
	b->ordinary = world_buffer(&b->w, ORDINARY * ORDINARY_LEN, WORLD_ACCESS);
	for (size_t i = 0; i < MEM; i++)
		b->src.data[i] = i * 7 + (i >> 8) + 1;
	for (unsigned int i = 0; i < ordinary; i++)
		post_ordinary(b, i);
}

void bench_close(struct bench *b)
{
	if (b->to)
		CHECK_EQ(ibv_destroy_qp(b->to), 0);
	if (b->from)
		CHECK_EQ(ibv_destroy_qp(b->from), 0);
	CHECK_EQ(ibv_destroy_srq(b->srq), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b->tag_cq)), 0);
	CHECK_EQ(ibv_destroy_cq(b->send_cq), 0);
	world_free(&b->src);
	world_free(&b->dst);
	world_free(&b->ordinary);
	world_close(&b->w);
}

bool try_poll(struct bench *b, struct seen *s)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = b->tag_cq;

	if (ibv_start_poll(cq, &attr))
		return false;
	*s = (struct seen){
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = ibv_wc_read_opcode(cq),
		.flags = ibv_wc_read_wc_flags(cq),
		.byte_len = ibv_wc_read_byte_len(cq),
		.imm = be32toh(ibv_wc_read_imm_data(cq)),
		.qp_num = ibv_wc_read_qp_num(cq),
		.vendor_err = ibv_wc_read_vendor_err(cq),
	};
	ibv_wc_read_tm_info(cq, &s->info);
	ibv_end_poll(cq);
	return true;
}

struct seen next_seen(struct bench *b)
{
	struct seen s;
	struct ibv_wc none;

	for (long tries = 0; !try_poll(b, &s); tries++) {
		CHECK(tries < 200000000);
		CHECK(ibv_poll_cq(b->send_cq, 0, &none) == 0);
	}
	if (s.status == IBV_WC_SUCCESS && s.opcode == IBV_WC_TM_RECV && !(s.flags & BOTH))
		b->unexpected++;
	return s;
}

struct seen expect(struct bench *b, uint64_t wr_id, enum ibv_wc_opcode opcode, unsigned int flags)
{
	struct seen s = next_seen(b);

	CHECK_EQ(s.status, IBV_WC_SUCCESS);
	CHECK_EQ(s.wr_id, wr_id);
	CHECK_EQ(s.opcode, opcode);
	CHECK_EQ(s.flags, flags);
	return s;
}

struct seen expect_error(struct bench *b, uint64_t wr_id, enum ibv_wc_status status)
{
	struct seen s = next_seen(b);

	CHECK_EQ(s.status, status);
	CHECK_EQ(s.wr_id, wr_id);
	return s;
}

void expect_nothing(struct bench *b)
{
	struct seen s;

	for (int i = 0; i < 100; i++)
		CHECK(!try_poll(b, &s));
}

struct ibv_ops_wr make_op(struct bench *b, enum ibv_ops_wr_opcode opcode, int flags)
{
	return (struct ibv_ops_wr){
		.wr_id = 77,
		.opcode = opcode,
		.flags = flags,
		.tm = { .unexpected_cnt = __atomic_load_n(&b->unexpected, __ATOMIC_ACQUIRE) },
	};
}

int post_op(struct bench *b, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int ret = ibv_post_srq_ops(b->srq, wr, &bad);

	CHECK(ret ? bad != NULL : !bad);
	return ret;
}

struct ibv_ops_wr tag_at(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask,
			 struct ibv_sge *sge)
{
	struct ibv_ops_wr wr = make_op(b, IBV_WR_TAG_ADD, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

	wr.tm.add.recv_wr_id = wr_id;
	wr.tm.add.tag = tag;
	wr.tm.add.mask = mask;
	wr.tm.add.sg_list = sge;
	wr.tm.add.num_sge = 1;
	return wr;
}

uint32_t add_tag(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask, size_t offset,
		 uint32_t len)
{
	struct ibv_sge sge = world_sge(&b->dst, offset, len);
	struct ibv_ops_wr wr = tag_at(b, wr_id, tag, mask, &sge);

	CHECK_EQ(post_op(b, &wr), 0);
	expect(b, 77, IBV_WC_TM_ADD, 0);
	return wr.tm.handle;
}

struct seen run_op(struct bench *b, enum ibv_ops_wr_opcode opcode, uint32_t handle)
{
	struct ibv_ops_wr wr = make_op(b, opcode, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

	wr.tm.handle = handle;
	CHECK_EQ(post_op(b, &wr), 0);
	return next_seen(b);
}

struct ibv_tmh *put_tmh(struct bench *b, uint8_t opcode, uint64_t tag)
{
	struct ibv_tmh *tmh = (struct ibv_tmh *)b->src.data;

	*tmh = (struct ibv_tmh){ .opcode = opcode, .app_ctx = htobe32(PRIV), .tag = htobe64(tag) };
	return tmh;
}

void send_raw(struct bench *b, uint32_t len)
{
	world_send(b->from, 1, world_sge(&b->src, 0, len));
	world_expect(b->send_cq, 1, IBV_WC_SUCCESS);
}

void send_tag(struct bench *b, uint8_t opcode, uint64_t tag, uint32_t payload)
{
	put_tmh(b, opcode, tag);
	send_raw(b, TMH + payload);
}

void send_request(struct bench *b, uint64_t tag, size_t offset, uint32_t len, uint32_t more)
{
	struct ibv_rvh *rvh = (struct ibv_rvh *)(b->src.data + TMH);

	*rvh = (struct ibv_rvh){
		.va = htobe64((uintptr_t)b->src.data + offset),
		.rkey = htobe32(b->src.mr->rkey),
		.len = htobe32(len),
	};
	put_tmh(b, IBV_TMH_RNDV, tag);
	send_raw(b, REQUEST + more);
}

void post_fin(struct bench *b, unsigned int i)
{
	world_recv(b->from, FIN_ID + i, world_sge(&b->src, MEM - (i + 1) * 64, 64));
}

void expect_fin(struct bench *b, unsigned int i, uint64_t tag, uint32_t len)
{
	struct ibv_wc wc = world_expect(b->send_cq, FIN_ID + i, IBV_WC_SUCCESS);
	const uint8_t *got = b->src.data + MEM - (i + 1) * 64;
	const struct ibv_tmh *tmh = (const void *)got;
	const struct ibv_rvh *rvh = (const void *)(got + TMH);

	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, REQUEST);
	CHECK_EQ(tmh->opcode, IBV_TMH_FIN);
	CHECK_EQ(be32toh(tmh->app_ctx), PRIV);
	CHECK_EQ(be64toh(tmh->tag), tag);
	CHECK_EQ(be32toh(rvh->rkey), b->src.mr->rkey);
	CHECK_EQ(be32toh(rvh->len), len);
}

void expect_dead(struct bench *b, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	world_event(&b->w, IBV_EVENT_QP_LAST_WQE_REACHED);
}
