/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What more threads are worth: each is both ends of a connection, with a context, a CQ and two QPs
 * of its own, so that threads share nothing but the library and the system.
 *
 *	threads N SIZE WINDOW MILLISECONDS	N threads, each with WINDOW SENDs in flight
 *
 * Prints the messages per second of all threads together.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "pin.h"
#include "rc.h"

enum {
	THREADS_MAX = 64,
	WARM_UP = 5,	/* at first, one part in so many of the time */
	TIMEOUT = 14,
	RETRIES = 7,
};

static struct worker {
	pthread_t thread;
	struct rc rc;
	struct ibv_qp *other;
	struct rc_addr to;
	double rate;
} worker[THREADS_MAX];

static uint32_t size;
static int window;
static double duration;	/* ns */
static pthread_barrier_t start;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void send_one(struct worker *w)
{
	rc_post_recv(&w->rc, w->other, 1);
	CHECK(rc_post_send(&w->rc, w->rc.qp, IBV_WR_SEND, size, &w->to, 2) == 0);
}

/* Each message has two completions. */
static void take(struct worker *w, int *completions)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(w->rc.cq, 16, wc);

	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS);
	*completions += n;
}

static void *run(void *arg)
{
	struct worker *w = arg;
	double begin, now, warm = 0;
	long sent = 0, done = 0, warm_done = 0;
	int completions = 0;

	pin((int)(w - worker));
	pthread_barrier_wait(&start);
	begin = now_ns();
	do {
		while (sent - done < window) {
			send_one(w);
			sent++;
		}
		take(w, &completions);
		done = completions / 2;
		now = now_ns();
		if (!warm && now - begin >= duration / WARM_UP) {
			warm = now;
			warm_done = done;
		}
	} while (now - begin < duration);
	w->rate = (done - warm_done) * 1e9 / (now - warm);
	while (completions < 2 * sent)
		take(w, &completions);
	pthread_barrier_wait(&start);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc == 5 ? atoi(argv[1]) : 0;
	double sum = 0;

	if (n < 1 || n > THREADS_MAX)
		return 2;
	size = strtoul(argv[2], NULL, 0);
	window = atoi(argv[3]);
	duration = atof(argv[4]) * 1e6;
	if (!size || window < 1 || window > RC_DEPTH / 2 || duration <= 0)
		return 2;
	pthread_barrier_init(&start, NULL, n);
	for (struct worker *w = worker; w < worker + n; w++) {
		struct rc_addr from;

		rc_open(&w->rc, size);
		w->other = rc_new_qp(&w->rc);
		from = rc_address(&w->rc, w->rc.qp);
		w->to = rc_address(&w->rc, w->other);
		rc_connect(&w->rc, w->rc.qp, &w->to, TIMEOUT, RETRIES);
		rc_connect(&w->rc, w->other, &from, TIMEOUT, RETRIES);
	}
	for (struct worker *w = worker; w < worker + n; w++)
		CHECK(pthread_create(&w->thread, NULL, run, w) == 0);
	for (struct worker *w = worker; w < worker + n; w++) {
		CHECK(pthread_join(w->thread, NULL) == 0);
		sum += w->rate;
	}
	printf("%.0f\n", sum);
	for (struct worker *w = worker; w < worker + n; w++) {
		CHECK(ibv_destroy_qp(w->other) == 0);
		rc_close(&w->rc);
	}
	return 0;
}
