/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tap points of core/base/tap.h: each call, work request, packet and completion of a program
 * passes them once, and a tap that refuses one has no other effect.
 */
#include <errno.h>
#include <string.h>

#include "core/base/tap.h"
#include "core/qp/qp.h"
#include "wq/qp.h"

#include "world.h"

static unsigned int entered[VERB_END], left[VERB_END];
static int left_err;
static uint64_t left_object, first_arg;

static struct {
	unsigned int sends, recvs, completions, out, in, direct;
	uint64_t wr_id;
	uint32_t index;
} seen;

static enum verb fails;
static int post_fails, status;
static bool loses;

static bool enter(struct tap_call *call)
{
	entered[call->verb]++;
	first_arg = call->args ? call->arg[0] : 0;
	if (call->verb != fails)
		return true;
	call->err = ENOMEM;
	return false;
}

static void leave(struct tap_call *call)
{
	left[call->verb]++;
	left_err = call->err;
	left_object = call->object;
}

static int post(const struct tap_post *p)
{
	seen.sends += p->send != NULL;
	seen.recvs += p->recv != NULL;
	store_relaxed(&seen.wr_id, p->send ? p->send->wr_id : p->recv->wr_id);
	store_relaxed(&seen.index, p->index);
	return post_fails;
}

static void complete(struct tap_completion *c)
{
	fetch_add_relaxed(&seen.completions, 1);
	store_relaxed(&seen.wr_id, c->wc->wr_id);
	store_relaxed(&seen.index, c->index);
	if (load_relaxed(&status))
		c->wc->status = load_relaxed(&status);
}

static bool out(struct tap_packet *p)
{
	fetch_add_relaxed(&seen.out, 1);
	return true;
}

static bool in(struct tap_packet *p)
{
	fetch_add_relaxed(&seen.in, 1);
	CHECK(p->pkt != NULL);
	return !load_relaxed(&loses);
}

static void direct(struct vrb_qp *qp, unsigned int n)
{
	fetch_add_relaxed(&seen.direct, n);
}

static const struct tap_ops ops = { enter, leave, post, complete, out, in, direct, NULL };

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer src, dst;

static void set_up(enum ibv_qp_type type)
{
	cq = world_cq(&w, 64);
	a = world_qp(&w, type, cq, NULL);
	b = world_qp(&w, type, cq, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, 4096, WORLD_ACCESS);
	dst = world_buffer(&w, 4096, WORLD_ACCESS);
	memset(&seen, 0, sizeof(seen));
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_free(&dst);
}

static void test_verbs(void)
{
	struct ibv_device_attr attr;
	struct ibv_pd *pd;

	memset(entered, 0, sizeof(entered));
	memset(left, 0, sizeof(left));
	pd = ibv_alloc_pd(w.ctx);
	CHECK_EQ(entered[VERB_alloc_pd], 1);
	CHECK_EQ(left[VERB_alloc_pd], 1);
	CHECK_EQ(first_arg, (uintptr_t)w.ctx);
	CHECK_EQ(left_object, (uintptr_t)pd);
	CHECK_EQ(left_err, 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(left[VERB_dealloc_pd], 1);
	CHECK_EQ(ibv_query_device(w.ctx, NULL), EINVAL);
	CHECK_EQ(left[VERB_query_device], 1);
	CHECK_EQ(left_err, EINVAL);
	CHECK_EQ(ibv_query_device(w.ctx, &attr), 0);
	CHECK_EQ(left_err, 0);
}

static void test_refused_verbs(void)
{
	union ibv_gid gid;
	struct ibv_pd *pd;

	fails = VERB_alloc_pd;
	errno = 0;
	CHECK(ibv_alloc_pd(w.ctx) == NULL);
	CHECK_EQ(errno, ENOMEM);
	fails = VERB_query_gid;
	CHECK_EQ(ibv_query_gid(w.ctx, 1, 0, &gid), -1);
	fails = VERB_NONE;
	pd = ibv_alloc_pd(w.ctx);
	CHECK(pd != NULL);
	fails = VERB_dealloc_pd;
	CHECK_EQ(ibv_dealloc_pd(pd), ENOMEM);
	fails = VERB_NONE;
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void test_message(void)
{
	set_up(IBV_QPT_RC);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	CHECK_EQ(seen.recvs, 1);
	CHECK_EQ(load_relaxed(&seen.wr_id), 7);
	world_send(a, 9, world_sge(&src, 0, 64));
	CHECK_EQ(seen.sends, 1);
	world_expect(cq, 7, IBV_WC_SUCCESS);
	world_expect(cq, 9, IBV_WC_SUCCESS);
	CHECK_EQ(load_relaxed(&seen.completions), 2);
	CHECK_EQ(load_relaxed(&seen.index), 0);
	CHECK(load_relaxed(&seen.out) >= 1);
	CHECK(load_relaxed(&seen.in) >= 1);
	tear_down();
}

static void test_write(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	set_up(IBV_QPT_RC);
	sge = world_sge(&src, 0, 64);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &dst, 0);
	world_post(a, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(seen.sends, 1);
	CHECK(load_relaxed(&seen.direct) + load_relaxed(&seen.out) >= 1);
	tear_down();
}

static void test_refused_posts(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct ibv_recv_wr recv, *bad_recv;

	set_up(IBV_QPT_RC);
	sge = world_sge(&src, 0, 64);
	wr = (struct ibv_send_wr){
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
	};
	recv = (struct ibv_recv_wr){ .wr_id = 2, .sg_list = &sge, .num_sge = 1 };
	post_fails = EINVAL;
	for (int i = 0; i < 100; i++) {
		bad = NULL;
		bad_recv = NULL;
		CHECK_EQ(ibv_post_send(a, &wr, &bad), EINVAL);
		CHECK(bad == &wr);
		CHECK_EQ(ibv_post_recv(b, &recv, &bad_recv), EINVAL);
		CHECK(bad_recv == &recv);
	}
	post_fails = 0;
	fails = VERB_post_send;
	bad = NULL;
	CHECK_EQ(ibv_post_send(a, &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	fails = VERB_NONE;
	world_recv(b, 7, world_sge(&dst, 0, 64));
	world_send(a, 9, world_sge(&src, 0, 64));
	world_expect(cq, 7, IBV_WC_SUCCESS);
	world_expect(cq, 9, IBV_WC_SUCCESS);
	tear_down();
}

static void test_changed_completion(void)
{
	set_up(IBV_QPT_RC);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	store_relaxed(&status, IBV_WC_GENERAL_ERR);
	world_send(a, 9, world_sge(&src, 0, 64));
	world_expect(cq, 7, IBV_WC_GENERAL_ERR);
	world_expect(cq, 9, IBV_WC_GENERAL_ERR);
	store_relaxed(&status, 0);
	tear_down();
}

/* The second datagram's completion proves that the first one was processed. */
static void test_lost_datagram(void)
{
	set_up(IBV_QPT_UC);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	store_relaxed(&loses, true);
	world_send(a, 8, world_sge(&src, 0, 64));
	world_expect(cq, 8, IBV_WC_SUCCESS);
	while (!load_relaxed(&seen.in))
		CHECK_EQ(ibv_poll_cq(cq, 1, &(struct ibv_wc){ 0 }), 0);
	store_relaxed(&loses, false);
	world_send(a, 9, world_sge(&src, 0, 64));
	struct ibv_wc wc[2];
	world_poll(cq, wc, 2);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
	tear_down();
}

int main(void)
{
	vrb_tap_attach(TAP_FAULT, &ops);
	world_open(&w);
	test_verbs();
	test_refused_verbs();
	test_message();
	test_write();
	test_refused_posts();
	test_changed_completion();
	test_lost_datagram();
	world_close(&w);
	return 0;
}
