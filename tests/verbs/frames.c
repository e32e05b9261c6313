/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/frames.h"

#include <time.h>

static const char *const from = "\x02\0\0\0\0\x01", *const to = "\x02\0\0\0\0\x02";

void frames_init(void)
{
	setenv("VERBENA_RAW", "virtual", 0);
}

struct ibv_qp *frames_qp(struct world *w, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { FRAME_SLOTS, FRAME_SLOTS, 2, 2, 0 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(w->pd, &init);

	CHECK(qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	return qp;
}

void frames_post(struct receiver *r, uint64_t slot)
{
	struct ibv_sge sge = world_sge(&r->room, slot * FRAME_ROOM, FRAME_ROOM);
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	CHECK_EQ(r->wq ? ibv_post_wq_recv(r->wq, &wr, &bad) : ibv_post_recv(r->qp, &wr, &bad), 0);
}

struct receiver frames_receiver(struct world *w)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * FRAME_SLOTS,
		.wc_flags =
			IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_QP_NUM,
	};
	struct receiver r = { .cq = ibv_create_cq_ex(w->ctx, &attr) };

	CHECK(r.cq);
	r.qp = frames_qp(w, ibv_cq_ex_to_cq(r.cq));
	r.room = world_buffer(w, FRAME_SLOTS * FRAME_ROOM, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned int i = 0; i < FRAME_SLOTS; i++)
		frames_post(&r, i);
	return r;
}

void frames_end(struct receiver *r)
{
	CHECK_EQ(ibv_destroy_qp(r->qp), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(r->cq)), 0);
	world_free(&r->room);
}

bool frames_take(struct receiver *r)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(r->cq, &attr))
		return false;
	r->status = r->cq->status;
	r->slot = r->cq->wr_id;
	if (r->status == IBV_WC_SUCCESS) {
		r->len = ibv_wc_read_byte_len(r->cq);
		r->tag = ibv_wc_read_flow_tag(r->cq);
		r->number = get_be32(r->room.data + r->slot * FRAME_ROOM + r->len - 4);
	}
	ibv_end_poll(r->cq);
	return true;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

void frames_expect(struct receiver *r, uint32_t number)
{
	double end = seconds() + WORLD_LIMIT_S;

	while (!frames_take(r))
		CHECK(seconds() < end);
	CHECK_EQ(r->status, IBV_WC_SUCCESS);
	CHECK_EQ(r->number, number);
	frames_post(r, r->slot);
}

struct ibv_flow *frames_flow(struct ibv_qp *qp, struct spec_list *list)
{
	struct ibv_flow *flow = ibv_create_flow(qp, &list->attr);

	CHECK(flow);
	return flow;
}

void sender_open(struct sender *s, struct world *w)
{
	struct spec_list list;

	s->w = w;
	s->cq = world_cq(w, FRAME_SLOTS);
	s->qp = frames_qp(w, s->cq);
	s->room = world_buffer(w, 2048, IBV_ACCESS_LOCAL_WRITE);
	s->mark = frames_receiver(w);
	s->marks = 0;
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH, .val.ether_type = htobe16(MARK_TYPE),
		 .mask.ether_type = 0xffff);
	s->mark_flow = frames_flow(s->mark.qp, &list);
}

void sender_close(struct sender *s)
{
	CHECK_EQ(ibv_destroy_flow(s->mark_flow), 0);
	frames_end(&s->mark);
	CHECK_EQ(ibv_destroy_qp(s->qp), 0);
	CHECK_EQ(ibv_destroy_cq(s->cq), 0);
	world_free(&s->room);
}

void sender_send(struct sender *s, struct frame *f, uint32_t number)
{
	put_be32(frame_room(f, 4), number);
	memcpy(s->room.data, f->data, f->len);
	world_send(s->qp, number, world_sge(&s->room, 0, f->len));
	world_expect(s->cq, number, IBV_WC_SUCCESS);
}

void sender_sync(struct sender *s)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, to, from, MARK_TYPE);
	sender_send(s, &f, s->marks);
	frames_expect(&s->mark, s->marks++);
}

struct frame frames_udp(uint16_t src, uint16_t dst)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, to, from, 0x0800);
	frame_ipv4(&f, 0x0a000001, 0x0a000002, 17, 0, 8 + 4);
	frame_udp(&f, src, dst, 4);
	return f;
}
