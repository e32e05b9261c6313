/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A poll of an empty CQ that yields the CPU finds what other threads completed meanwhile: a program
 * that polls by turns for completions and for the end of the connection destroys the QP, and the
 * completions with it, if it is told of no completion and then of the end (libfabric).
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "world.h"

enum { POLLS = 100000 };

static struct world w;
static struct ibv_cq *completed;	/* by another thread while this one yields */
static struct ibv_qp *flushed;

static __thread void (*at_yield)(void);	/* called once */

__attribute__((visibility("default"))) int sched_yield(void)
{
	void (*once)(void) = at_yield;

	at_yield = NULL;
	if (once)
		once();
	return (int)syscall(SYS_sched_yield);
}

static void *complete(void *arg)
{
	flushed = world_flushed(&w, completed, 1);
	return NULL;
}

static void complete_elsewhere(void)
{
	pthread_t other;

	CHECK_EQ(pthread_create(&other, NULL, complete, NULL), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
}

static int poll_plain(void)
{
	struct ibv_wc wc;

	return ibv_poll_cq(completed, 1, &wc);
}

static int poll_ex(void)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)completed;
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(ex, &attr))
		return 0;
	ibv_end_poll(ex);
	return 1;
}

/* Returns false if no poll yields: this thread has a CPU to itself. */
static bool finds_it(struct ibv_cq *cq, int (*poll)(void))
{
	int n = 0;

	completed = cq;
	at_yield = complete_elsewhere;
	for (int i = 0; i < POLLS && at_yield; i++)
		n = poll();
	if (at_yield)
		return false;
	CHECK_EQ(n, 1);
	CHECK_EQ(ibv_destroy_qp(flushed), 0);
	return true;
}

int main(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct ibv_cq *plain, *ex;
	struct ibv_qp *a, *b;
	bool yielded;

	world_open(&w);
	plain = world_cq(&w, 8);
	ex = ibv_cq_ex_to_cq(ibv_create_cq_ex(w.ctx, &attr));
	CHECK(ex);
	/* by the wire: polls make system calls, and yield */
	a = world_qp(&w, IBV_QPT_RC, plain, NULL);
	b = world_qp(&w, IBV_QPT_RC, ex, NULL);
	world_connect(&w, a, b);
	yielded = finds_it(plain, poll_plain) && finds_it(ex, poll_ex);
	at_yield = NULL;
	world_destroy_pair(a, b, plain, ex);
	world_close(&w);
	if (yielded)
		return 0;
	printf("no poll yields: this thread has a CPU to itself\n");
	return 77;
}
