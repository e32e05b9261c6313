/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failing allocations. A program that creates an object of each kind runs again and again with the
 * N-th allocation failing once or from then on, for all N. Each call must succeed or report an
 * error; nothing crashes, and the objects can be destroyed. A first post without memory for its
 * queue is refused with ENOMEM, and succeeds later.
 */
#include <errno.h>

#include "objects.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

/* Allocations fail only in the thread that requests it. */
static __thread long countdown = -1; /* -1: none fails */
static __thread bool forever, tripped;

static bool out_of_memory(void)
{
	if (countdown < 0)
		return false;
	if (countdown > 0) {
		countdown--;
		return false;
	}
	tripped = true;
	if (!forever)
		countdown = -1;
	errno = ENOMEM;
	return true;
}

/* These replace the C library's functions for the library under test, too. */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
	return out_of_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return out_of_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return out_of_memory() ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return out_of_memory() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	if (out_of_memory())
		return ENOMEM;
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

#pragma GCC visibility pop

/* Returns whether there was an N-th allocation. */
static bool run(long n, bool persistent)
{
	struct objects o = { 0 };

	tripped = false;
	forever = persistent;
	countdown = n;
	objects_make(&o);
	countdown = -1;
	objects_destroy(&o);
	return tripped;
}

/* The queues of a QP get their memory at the first post. */
static void first_posts(void)
{
	struct world w;
	struct buffer b;
	struct ibv_recv_wr recv = { .wr_id = 1, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	world_open(&w);
	b = world_buffer(&w, 64, IBV_ACCESS_LOCAL_WRITE);
	sge = world_sge(&b, 0, 64);
	recv.sg_list = send.sg_list = &sge;
	cq = world_cq(&w, 4);
	qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, qp, qp);
	forever = true;
	countdown = 0;
	CHECK_EQ(ibv_post_recv(qp, &recv, &bad_recv), ENOMEM);
	CHECK_EQ(ibv_post_send(qp, &send, &bad_send), ENOMEM);
	countdown = -1;
	CHECK(bad_recv == &recv && bad_send == &send);
	world_recv(qp, 1, sge);
	world_send(qp, 2, sge);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	world_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(qp) == 0);
	CHECK(ibv_destroy_cq(cq) == 0);
	world_free(&b);
	world_close(&w);
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("the sanitizer has an allocator of its own");
#endif
	long n;

	setenv("VERBENA_RAW", "virtual", 0);
	/* Run once without failures first, since the set-up of the process is not under test. */
	CHECK(!run(1000000, false));
	for (n = 0; run(n, false); n++)
		CHECK(n < 10000);
	CHECK(n > 10);
	for (n = 0; run(n, true); n++)
		CHECK(n < 10000);
	first_posts();
	return 0;
}
