/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two contexts of one process as peers: each thread uses a connection of its own and every path of
 * a request (packet, payload read from the sender's memory, one-sided copy, atomic), while other
 * threads deregister regions, send datagrams and open and close contexts. Under ThreadSanitizer
 * with VERBENA_TRANSPORT=local this makes two threads run in the local transport at once.
 */
#include <pthread.h>
#include <sched.h>

#include "world.h"

enum {
	PAIRS = 2,
	ROUNDS = 60,
	BIG = 20000,	/* the receiver reads it from the sender's memory */
	SMALL = 100,
	RECVS = 4,
	GRH = 40,
	RECEIVE = 6,	/* wr_id of a datagram's receive */
};

/* a belongs to the first context, b to the second. */
struct pair {
	struct ibv_cq *a_cq, *b_cq;
	struct ibv_qp *a, *b;
	struct buffer a_buf, b_buf;
	int received;		/* used by the receiving thread only */
};

static struct world wa, wb;
static struct pair pairs[PAIRS];
static struct buffer counter;	/* in the second context; every pair adds to it */
static int stop;		/* atomic */

static void pair_open(struct pair *p)
{
	p->a_cq = world_cq(&wa, 32);
	p->b_cq = world_cq(&wb, 32);
	p->a = world_qp(&wa, IBV_QPT_RC, p->a_cq, NULL);
	p->b = world_qp(&wb, IBV_QPT_RC, p->b_cq, NULL);
	p->a_buf = world_buffer(&wa, 3 * BIG, WORLD_ACCESS);
	p->b_buf = world_buffer(&wb, (RECVS + 2) * BIG, WORLD_ACCESS);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		world_move(&wa, p->a, s, p->b->qp_num);
		world_move(&wb, p->b, s, p->a->qp_num);
	}
}

static void pair_close(struct pair *p)
{
	CHECK_EQ(ibv_destroy_qp(p->a), 0);
	CHECK_EQ(ibv_destroy_qp(p->b), 0);
	CHECK_EQ(ibv_destroy_cq(p->a_cq), 0);
	CHECK_EQ(ibv_destroy_cq(p->b_cq), 0);
	world_free(&p->a_buf);
	world_free(&p->b_buf);
}

static void post_recv(struct pair *p, int slot)
{
	world_recv(p->b, slot, world_sge(&p->b_buf, (size_t)slot * BIG, BIG));
}

/* Message n is filled with its number; small and big ones alternate. */
static uint32_t message_len(int n)
{
	return n % 2 ? BIG : SMALL;
}

static void *receiver(void *arg)
{
	struct pair *p = arg;

	for (; p->received < ROUNDS; p->received++) {
		struct ibv_wc wc;
		uint8_t *data;

		world_poll(p->b_cq, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, message_len(p->received));
		data = p->b_buf.data + wc.wr_id * BIG;
		CHECK_EQ(data[0], (uint8_t)p->received);
		CHECK_EQ(data[wc.byte_len - 1], (uint8_t)p->received);
		post_recv(p, (int)wc.wr_id);
	}
	return NULL;
}

static void run(struct pair *p, struct ibv_send_wr wr)
{
	world_post(p->a, &wr);
	world_expect(p->a_cq, wr.wr_id, IBV_WC_SUCCESS);
}

/* Writes, reads back and compares, in the last two parts of the pair's buffers. */
static void write_and_read_back(struct pair *p, int n)
{
	size_t far = (size_t)RECVS * BIG;
	struct ibv_sge out = world_sge(&p->a_buf, BIG, BIG),
		       in = world_sge(&p->a_buf, 2 * BIG, BIG);

	memset(p->a_buf.data + BIG, ~n, BIG);
	run(p, world_rdma(IBV_WR_RDMA_WRITE, 1, &out, &p->b_buf, far));
	run(p, world_rdma(IBV_WR_RDMA_READ, 2, &in, &p->b_buf, far));
	CHECK_MEM(p->a_buf.data + BIG, p->a_buf.data + 2 * BIG, BIG);
}

static void add_one(struct pair *p)
{
	struct ibv_sge sge = world_sge(&p->a_buf, 2 * BIG, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, &sge, &counter, 0);

	wr.wr.atomic.compare_add = 1;
	run(p, wr);
}

static void *sender(void *arg)
{
	struct pair *p = arg;

	for (int n = 0; n < ROUNDS; n++) {
		memset(p->a_buf.data, n, BIG);
		world_send(p->a, 9, world_sge(&p->a_buf, 0, message_len(n)));
		world_expect(p->a_cq, 9, IBV_WC_SUCCESS);
		write_and_read_back(p, n);
		add_one(p);
	}
	return NULL;
}

/* The region whose key the writers use; NULL: none at the moment. */
static struct ibv_mr *target;
static pthread_mutex_t target_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t target_memory[4096];

/* Registers and deregisters while another thread writes: after ibv_dereg_mr nothing may change. */
static void *deregister(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ibv_mr *mr = ibv_reg_mr(wb.pd, target_memory, sizeof(target_memory),
					       WORLD_ACCESS);

		CHECK(mr);
		pthread_mutex_lock(&target_lock);
		target = mr;
		pthread_mutex_unlock(&target_lock);
		sched_yield();
		pthread_mutex_lock(&target_lock);
		target = NULL;
		pthread_mutex_unlock(&target_lock);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		memset(target_memory, 0x11, sizeof(target_memory));
		for (size_t i = 0; i < sizeof(target_memory); i++)
			CHECK_EQ(target_memory[i], 0x11);
	}
	return NULL;
}

static uint32_t target_key(void)
{
	uint32_t key;

	pthread_mutex_lock(&target_lock);
	key = target ? target->rkey : 0;
	pthread_mutex_unlock(&target_lock);
	return key;
}

static void *write_target(void *arg)
{
	struct pair p = { 0 };
	struct ibv_wc wc;

	pair_open(&p);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ibv_sge sge = world_sge(&p.a_buf, 0, sizeof(target_memory));
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 4, &sge, &counter, 0);

		wr.wr.rdma.remote_addr = (uintptr_t)target_memory;
		wr.wr.rdma.rkey = target_key();
		world_post(p.a, &wr);
		world_poll(p.a_cq, &wc, 1);
		if (wc.status == IBV_WC_SUCCESS)
			continue;
		CHECK_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
		pair_close(&p);
		pair_open(&p);
	}
	pair_close(&p);
	return NULL;
}

/*
 * One datagram at a time, with a receive posted for it: it must not be lost although contexts come
 * and go.
 */
static void send_datagram(struct ibv_qp *a, struct ibv_send_wr *wr, struct ibv_cq *from,
			  struct ibv_cq *to)
{
	world_post(a, wr);
	world_expect(from, wr->wr_id, IBV_WC_SUCCESS);
	CHECK_EQ(world_expect(to, RECEIVE, IBV_WC_SUCCESS).byte_len, GRH + SMALL);
}

/* Sends datagrams from one context to the other, while a third one is opened and closed. */
static void *send_datagrams(void *arg)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
				  .grh = { .dgid = wb.gid, .sgid_index = wa.gid_index,
					   .hop_limit = 1 } };
	struct ibv_cq *a_cq = world_cq(&wa, 8), *b_cq = world_cq(&wb, 8);
	struct ibv_qp *a = world_qp(&wa, IBV_QPT_UD, a_cq, NULL);
	struct ibv_qp *b = world_qp(&wb, IBV_QPT_UD, b_cq, NULL);
	struct buffer out = world_buffer(&wa, SMALL, 0);
	struct buffer in = world_buffer(&wb, GRH + SMALL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_ah *ah = ibv_create_ah(wa.pd, &to);

	CHECK(ah);
	world_connect(&wa, a, a);
	world_connect(&wb, b, b);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ibv_sge sge = world_sge(&out, 0, SMALL);
		struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1,
					  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = { ah, b->qp_num, WORLD_QKEY } };
		struct world third;

		world_recv(b, RECEIVE, world_sge(&in, 0, GRH + SMALL));
		send_datagram(a, &wr, a_cq, b_cq);
		world_open(&third);
		world_close(&third);
	}
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(a_cq), 0);
	CHECK_EQ(ibv_destroy_cq(b_cq), 0);
	world_free(&out);
	world_free(&in);
	return NULL;
}

int main(void)
{
	void *(*const beside[])(void *) = { deregister, write_target, send_datagrams };
	pthread_t workers[2 * PAIRS], others[3];

	setenv("VERBENA_LOG", "error", 1);	/* keeps the expected errors out of the log */
	world_open(&wa);
	world_open(&wb);
	counter = world_buffer(&wb, 8, WORLD_ACCESS);
	for (int i = 0; i < PAIRS; i++) {
		pair_open(&pairs[i]);
		for (int slot = 0; slot < RECVS; slot++)
			post_recv(&pairs[i], slot);
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&others[i], NULL, beside[i], NULL), 0);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_EQ(pthread_create(&workers[2 * i], NULL, sender, &pairs[i]), 0);
		CHECK_EQ(pthread_create(&workers[2 * i + 1], NULL, receiver, &pairs[i]), 0);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK_EQ(pthread_join(workers[i], NULL), 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(others[i], NULL), 0);
	CHECK_EQ(*(uint64_t *)counter.data, PAIRS * ROUNDS);
	for (int i = 0; i < PAIRS; i++)
		pair_close(&pairs[i]);
	world_free(&counter);
	world_close(&wa);
	world_close(&wb);
	return 0;
}
