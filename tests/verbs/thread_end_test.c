/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that end while they still have work for their queue pairs: in destructors of
 * thread-specific data, which run in any order, some after the library's own. And a process that
 * has no key of such data left.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_bench.h"

enum {
	LEN = 128,
	MAPPED = 4096,	/* memory of so many bytes is unmapped once it is freed */
	KEYS = 4096,	/* more than a process can have */
	ENDS = 2,	/* work in the thread, and at its end */
};

struct work {
	struct bench bench;	/* raw packets */
	struct ibv_qp *a, *b;	/* RC */
	pthread_key_t late;
	int done;
};

/* A message and a frame. */
static void do_work(struct work *w)
{
	struct bench *b = &w->bench;
	struct ibv_sge out = world_sge(&b->out, 0, LEN), in = world_sge(&b->in, 0, LEN);

	receive_into(w->b, 1, &in, 1);
	world_send(w->a, 2, out);
	CHECK_EQ(both(b->cq).status, IBV_WC_SUCCESS);
	CHECK_MEM(b->in.data, b->out.data, LEN);
	receive_into(b->qp, 1, &in, 1);
	post(b->qp, 2, &out, 1, IBV_SEND_SIGNALED);
	CHECK_EQ(both(b->cq).status, IBV_WC_SUCCESS);
	w->done++;
}

static void at_end(void *arg)
{
	do_work(arg);
}

static void *run(void *arg)
{
	struct work *w = arg;

	do_work(w);
	/* Destructors run in the order of keys: this one after those of what was just used. */
	CHECK_EQ(pthread_key_create(&w->late, at_end), 0);
	CHECK_EQ(pthread_setspecific(w->late, w), 0);
	return NULL;
}

static void open_work(struct work *w)
{
	struct bench *b = &w->bench;

	open_bench(b, 0);
	ethernet(b->out.data, LEN - ETH);
	w->a = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	w->b = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	world_connect(&b->w, w->a, w->b);
}

static void close_work(struct work *w)
{
	CHECK_EQ(ibv_destroy_qp(w->a), 0);
	CHECK_EQ(ibv_destroy_qp(w->b), 0);
	close_bench(&w->bench);
}

static int work_at_the_end_of_a_thread(void)
{
	struct work w = { .done = 0 };
	pthread_t thread;

#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, MAPPED); /* a sanitizer's malloc() has no such threshold */
#endif
	open_work(&w);
	CHECK_EQ(pthread_create(&thread, NULL, run, &w), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.done, ENDS);
	close_work(&w);
	return 0;
}

/* The data of other keys stay what they are. */
static int without_keys(void)
{
	static char value[KEYS];
	static pthread_key_t key[KEYS];
	struct work w = { .done = 0 };
	int n = 0;

	while (n < KEYS && !pthread_key_create(&key[n], NULL)) {
		CHECK_EQ(pthread_setspecific(key[n], &value[n]), 0);
		n++;
	}
	CHECK(n < KEYS);
	open_work(&w);
	do_work(&w);
	close_work(&w);
	for (int i = 0; i < n; i++)
		CHECK(pthread_getspecific(key[i]) == &value[i]);
	return 0;
}

/* Returns the status of a process that does so. */
static int status_of(int (*fn)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child)
		_exit(fn());
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

int main(void)
{
	int late = status_of(work_at_the_end_of_a_thread), keyless = status_of(without_keys);

	CHECK_EQ(late, 0);
	CHECK_EQ(keyless, 0);
	return 0;
}
