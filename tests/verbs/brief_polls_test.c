/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls an empty CQ, for packets from the wire, on a CPU that another thread of the
 * process uses: that may be spinning for a lock that the program holds while it polls. So most
 * polls make no system call; packets arrive all the same.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "next_syscall.h"
#include "one_cpu.h"
#include "util/atomic.h"
#include "world.h"

enum {
	ROUND = 1000,		/* empty polls, of which */
	READS = ROUND / 4,	/* so many may read the socket */
	BYTES = 64,
	LIMIT_S = 5 * WORLD_LIMIT_S,
};

static bool over;
static __thread bool polls;	/* the thread of the test */
static int reads;

/* Replaces that of the C library. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
	va_list args;
	long ret;

	reads += polls && number == SYS_recvmmsg;
	va_start(args, number);
	ret = next_syscall(number, args);
	va_end(args);
	return ret;
}

static void *spin(void *arg)
{
	while (!load_relaxed(&over))
		;
	return NULL;
}

static void poll_until_brief(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	polls = true;
	do {
		reads = 0;
		for (int i = 0; i < ROUND; i++)
			CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	} while (reads > READS);
	polls = false;
	CHECK(reads > 0);
}

int main(void)
{
	struct buffer buf;
	pthread_t spinner;
	struct ibv_qp *a, *b;
	struct ibv_cq *cq;
	struct world w;

#ifdef __SANITIZE_THREAD__
	printf("skip: with ThreadSanitizer each poll takes longer than the pause of reads\n");
	return 77;
#endif
	alarm(LIMIT_S);
	world_open(&w);
	cq = world_cq(&w, 8);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	buf = world_buffer(&w, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!stay_on_one_cpu()) {
		printf("skip: a thread may not choose its CPU\n");
		return 77;
	}
	CHECK_EQ(pthread_create(&spinner, NULL, spin, NULL), 0);
	poll_until_brief(cq);
	world_recv(b, 1, world_sge(&buf, 0, BYTES));
	world_send(a, 1, world_sge(&buf, BYTES, BYTES));
	for (int i = 0; i < 2; i++)
		world_expect(cq, 1, IBV_WC_SUCCESS);
	store_relaxed(&over, true);
	CHECK_EQ(pthread_join(spinner, NULL), 0);
	world_free(&buf);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
