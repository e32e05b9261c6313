/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Behaviour that no manual promises but every adapter shows, so programs rely on it
 * (docs/COMPATIBILITY.md).
 */
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "world.h"

enum {
	LEN = 9000,		/* several packets, the last one partly filled */
	ROUNDS = 50,
	BATCH = 12,
	AREA = BATCH * 512,
};

static struct world w;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *other;
static struct ibv_qp *a, *b;
static struct buffer out, in;

static void set_up(void)
{
	world_open(&w);
	channel = ibv_create_comp_channel(w.ctx);
	CHECK(channel);
	cq = ibv_create_cq(w.ctx, 64, NULL, channel, 0);
	other = world_cq(&w, 64);
	CHECK(cq);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, other, NULL);
	world_connect(&w, a, b);
	out = world_buffer(&w, LEN, WORLD_ACCESS);
	in = world_buffer(&w, LEN, WORLD_ACCESS);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(other), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&out);
	world_free(&in);
	world_close(&w);
}

static void write_one(void)
{
	struct ibv_sge sge = world_sge(&out, 0, 64);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &in, 0);

	world_post(a, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
}

/*
 * brpc uses edge-triggered epoll: each event must be an edge, even if an earlier one is still
 * pending.
 */
static void test_edges(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET }, got;
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct ibv_cq *from;
	void *context;

	CHECK(set >= 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &event), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		write_one();
		CHECK_EQ(epoll_wait(set, &got, 1, WORLD_LIMIT_S * 1000), 1);
		CHECK_EQ(epoll_wait(set, &got, 1, 0), 0);
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQ(ibv_get_cq_event(channel, &from, &context), 0);
	ibv_ack_cq_events(cq, 3);
	close(set);
}

/*
 * Several epoll sets watch one channel, and a thread may wait on one set while another thread adds
 * the channel to it.
 */
static void test_two_sets(void)
{
	struct epoll_event event = { .events = EPOLLIN }, got;
	int set[2] = { epoll_create1(EPOLL_CLOEXEC), epoll_create1(EPOLL_CLOEXEC) };
	struct ibv_cq *from;
	void *context;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(epoll_ctl(set[i], EPOLL_CTL_ADD, channel->fd, &event), 0);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	write_one();
	for (int i = 0; i < 2; i++)
		CHECK_EQ(epoll_wait(set[i], &got, 1, WORLD_LIMIT_S * 1000), 1);
	CHECK_EQ(ibv_get_cq_event(channel, &from, &context), 0);
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(epoll_wait(set[i], &got, 1, 0), 0);
		close(set[i]);
	}
}

static void *poll_last_byte(void *arg)
{
	volatile uint8_t *last = in.data + LEN - 1;

	for (int round = 1; round <= ROUNDS; round++) {
		while (*last != (uint8_t)round)
			sched_yield();
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		for (int i = 0; i < LEN; i++)
			CHECK_EQ(in.data[i], (uint8_t)round);
		__atomic_store_n((int *)arg, round, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* MPI, GPI-2 and collective libraries poll the last byte of a WRITE and then read the rest. */
static void test_last_byte_is_last(void)
{
	struct ibv_sge sge = world_sge(&out, 0, LEN);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &in, 0);
	pthread_t watcher;
	int seen = 0;

	memset(in.data, 0, LEN);
	CHECK_EQ(pthread_create(&watcher, NULL, poll_last_byte, &seen), 0);
	for (int round = 1; round <= ROUNDS; round++) {
		memset(out.data, round, LEN);
		world_post(a, &wr);
		world_expect(cq, 1, IBV_WC_SUCCESS);
		while (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) != round)
			sched_yield();
	}
	CHECK_EQ(pthread_join(watcher, NULL), 0);
}

/*
 * NCCL posts many unsignaled WRITEs, then an empty WRITE with immediate data. When the latter
 * arrives, the data of all earlier ones must be there.
 */
static void test_writes_before_an_empty_one(void)
{
	struct ibv_send_wr wr[BATCH + 1];
	struct ibv_sge sge[BATCH];
	struct ibv_wc wc;

	for (int round = 1; round <= ROUNDS; round++) {
		memset(out.data, round, AREA);
		for (int i = 0; i < BATCH; i++) {
			sge[i] = world_sge(&out, 512 * i, 512);
			wr[i] = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge[i], &in, 512 * i);
			wr[i].send_flags = 0;
			wr[i].next = &wr[i + 1];
		}
		wr[BATCH] = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 2, NULL, &in, 0);
		wr[BATCH].num_sge = 0;
		wr[BATCH].imm_data = htobe32(round);
		world_recv(b, 3, world_sge(&in, 0, 0));
		world_post(a, wr);
		world_poll(other, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(be32toh(wc.imm_data), round);
		for (int i = 0; i < AREA; i++)
			CHECK_EQ(in.data[i], (uint8_t)round);
		world_expect(cq, 2, IBV_WC_SUCCESS);
	}
}

/*
 * eRPC and others keep requests, lists and inline data on the stack: all of it may change once the
 * post has returned.
 */
static void test_requests_are_copied(void)
{
	uint8_t data[32];

	memset(in.data, 0, LEN);
	for (int round = 1; round <= ROUNDS; round++) {
		struct ibv_sge sge = { (uintptr_t)data, sizeof(data), 0 };
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &in, 0), *bad;

		wr.send_flags |= IBV_SEND_INLINE;
		memset(data, round, sizeof(data));
		CHECK_EQ(ibv_post_send(a, &wr, &bad), 0);
		memset(data, 0xee, sizeof(data));
		memset(&sge, 0xee, sizeof(sge));
		memset(&wr, 0xee, sizeof(wr));
		world_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(in.data[0], (uint8_t)round);
		CHECK_EQ(in.data[sizeof(data) - 1], (uint8_t)round);
	}
}

/* Each of several registrations of the same memory works; deregistering one leaves the others. */
static void test_overlapping_regions(void)
{
	struct ibv_mr *second = ibv_reg_mr(w.pd, in.data, LEN / 2, WORLD_ACCESS);
	struct ibv_mr *third = ibv_reg_mr(w.pd, in.data + 100, 200, WORLD_ACCESS);
	struct ibv_mr *all[] = { second, third };
	struct ibv_sge sge = world_sge(&out, 0, 8);

	CHECK(second && third);
	CHECK(second->rkey != third->rkey && second->rkey != in.mr->rkey);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &in, 120);

		wr.wr.rdma.rkey = all[i]->rkey;
		world_post(a, &wr);
		world_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_dereg_mr(all[i]), 0);
	}
	write_one();
}

/*
 * The completion of a failed request has the right wr_id, QP number and status, and so have those
 * of the flushed requests after it, in order.
 */
static void test_failed_requests_identified(void)
{
	struct ibv_sge sge = world_sge(&out, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 10, &sge, &in, 0);
	struct ibv_wc wc[3];

	wr.wr.rdma.rkey ^= 0x10;
	world_post(a, &wr);
	world_send(a, 11, sge);
	world_send(a, 12, sge);
	world_poll(cq, wc, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(wc[i].wr_id, 10 + i);
		CHECK_EQ(wc[i].qp_num, a->qp_num);
		CHECK_EQ(wc[i].status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR);
	}
}

int main(void)
{
	set_up();
	test_edges();
	test_two_sets();
	test_last_byte_is_last();
	test_writes_before_an_empty_one();
	test_requests_are_copied();
	test_overlapping_regions();
	test_failed_requests_identified();
	tear_down();
	return 0;
}
