/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several threads poll at once, each its own CQs. Every message arrives once, in order and
 * unchanged, although other QPs are created and destroyed, two threads poll the same CQ, and no
 * thread polls another one. A forked child then does the same with a library of its own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_settled.h"
#include "world.h"

enum {
	WORKERS = 4,
	MESSAGES = 3000,
	WINDOW = 8,
	LEN = 32,
	CHURNS = 40,
	/* in a worker's buffer: first those that are sent, then those that are received */
	SLOTS = 2 * WINDOW,
};

static struct world w;
static atomic_bool stop;
static atomic_int shared_done;
static struct ibv_cq *shared;
static struct ibv_qp *quiet_from, *quiet_to;

struct worker {
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	struct buffer buf;
};

static void worker_open(struct worker *k, struct ibv_cq *cq)
{
	k->cq = cq ? cq : world_cq(&w, 4 * WINDOW);
	k->from = world_qp(&w, IBV_QPT_RC, k->cq, NULL);
	k->to = world_qp(&w, IBV_QPT_RC, k->cq, NULL);
	world_connect(&w, k->from, k->to);
	k->buf = world_buffer(&w, SLOTS * LEN, WORLD_ACCESS);
}

static void worker_close(struct worker *k)
{
	CHECK_EQ(ibv_destroy_qp(k->from), 0);
	CHECK_EQ(ibv_destroy_qp(k->to), 0);
	if (k->cq != shared)
		CHECK_EQ(ibv_destroy_cq(k->cq), 0);
	world_free(&k->buf);
}

static void send_numbered(struct worker *k, int i)
{
	size_t at = (size_t)(i % WINDOW) * LEN;

	memset(k->buf.data + at, 0, LEN);
	memcpy(k->buf.data + at, &i, sizeof(i));
	world_recv(k->to, (uint64_t)i, world_sge(&k->buf, WINDOW * LEN + at, LEN));
	world_send(k->from, (uint64_t)i, world_sge(&k->buf, at, LEN));
}

/* Sends and receives each complete in order; the opcode tells them apart. */
static void take(struct worker *k, int *sent, int *received)
{
	struct ibv_wc wc[WINDOW];
	int n = ibv_poll_cq(k->cq, WINDOW, wc), value;

	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].opcode != IBV_WC_RECV) {
			CHECK_EQ(wc[i].wr_id, (uint64_t)(*sent)++);
			continue;
		}
		CHECK_EQ(wc[i].wr_id, (uint64_t)*received);
		memcpy(&value, k->buf.data + (WINDOW + *received % WINDOW) * LEN, sizeof(value));
		CHECK_EQ(value, (*received)++);
	}
}

static void *work(void *arg)
{
	struct worker *k = arg;
	int posted = 0, sent = 0, received = 0;

	while (sent < MESSAGES || received < MESSAGES) {
		while (posted < MESSAGES && posted - sent < WINDOW && posted - received < WINDOW)
			send_numbered(k, posted++);
		take(k, &sent, &received);
	}
	return NULL;
}

/* Creates QPs with a new CQ each time, so of any shard. */
static void *churn(void *arg)
{
	for (int i = 0; i < CHURNS; i++) {
		struct worker k;

		worker_open(&k, NULL);
		send_numbered(&k, i);
		if (i % 2) {
			int sent = i, received = i;

			while (sent == i || received == i)
				take(&k, &sent, &received);
		}
		worker_close(&k);	/* every other time with requests in flight */
	}
	return NULL;
}

/* Polls a CQ that other threads poll as well; any of them may get a completion. */
static void *poll_shared(void *arg)
{
	struct ibv_wc wc[4];

	while (!atomic_load(&stop)) {
		int n = ibv_poll_cq(shared, 4, wc);

		CHECK(n >= 0);
		for (int i = 0; i < n; i++)
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		atomic_fetch_add(&shared_done, n);
		if (!n)
			sched_yield();
	}
	return NULL;
}

static void start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	CHECK_EQ(pthread_create(t, NULL, fn, arg), 0);
}

static void join(pthread_t t)
{
	CHECK_EQ(pthread_join(t, NULL), 0);
}

/* No thread polls the CQ of this QP, so other threads must process the WRITE. */
static void write_unpolled(struct buffer *b)
{
	struct ibv_sge sge = world_sge(b, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, b, 8);

	memset(b->data, 0x5a, 8);
	world_post(quiet_from, &wr);
	while (*(volatile uint8_t *)(b->data + 15) != 0x5a)
		sched_yield();
}

static void everything(void)
{
	struct worker worker[WORKERS], beside;
	pthread_t thread[WORKERS], churner, sharers[2];
	struct ibv_cq *unpolled;
	struct buffer quiet;

	world_open(&w);
	atomic_store(&stop, false);
	atomic_store(&shared_done, 0);
	shared = world_cq(&w, 64);
	unpolled = world_cq(&w, 4);
	quiet = world_buffer(&w, 16, WORLD_ACCESS);
	quiet_from = world_qp(&w, IBV_QPT_RC, unpolled, NULL);
	quiet_to = world_qp(&w, IBV_QPT_RC, unpolled, NULL);
	world_connect(&w, quiet_from, quiet_to);
	for (int i = 0; i < WORKERS; i++)
		worker_open(&worker[i], NULL);
	worker_open(&beside, shared);

	for (int i = 0; i < WORKERS; i++)
		start(&thread[i], work, &worker[i]);
	start(&churner, churn, NULL);
	for (int i = 0; i < 2; i++)
		start(&sharers[i], poll_shared, NULL);
	write_unpolled(&quiet);
	for (int i = 0; i < MESSAGES / 10; i++) {
		while (2 * i - atomic_load(&shared_done) >= WINDOW)
			sched_yield();
		send_numbered(&beside, i);
	}
	while (atomic_load(&shared_done) < 2 * (MESSAGES / 10))
		sched_yield();
	for (int i = 0; i < WORKERS; i++)
		join(thread[i]);
	join(churner);
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		join(sharers[i]);

	CHECK_EQ(ibv_destroy_qp(quiet_from), 0);
	CHECK_EQ(ibv_destroy_qp(quiet_to), 0);
	CHECK_EQ(ibv_destroy_cq(unpolled), 0);
	world_free(&quiet);
	for (int i = 0; i < WORKERS; i++)
		worker_close(&worker[i]);
	worker_close(&beside);
	CHECK_EQ(ibv_destroy_cq(shared), 0);
}

/* ThreadSanitizer does not support threads in a forked child. */
static void in_child(void)
{
#if !defined(__SANITIZE_THREAD__)
	int status;
	pid_t child = fork_settled();

	CHECK(child >= 0);
	if (!child) {
		everything();
		world_close(&w);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
#endif
}

int main(void)
{
	everything();
	in_child();
	world_close(&w);
	everything();
	world_close(&w);
	return 0;
}
