/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What more threads get from bare UDP sockets, the reference of bench/threads: each is both ends
 * of a pair of connected sockets of its own.
 *
 *	udp_threads N SIZE WINDOW MILLISECONDS		N threads, each with WINDOW datagrams of
 *							SIZE in flight, one per call
 *	udp_threads N SIZE WINDOW MILLISECONDS SEGMENT	messages of SIZE as datagrams of SEGMENT,
 *							by UDP_SEGMENT out and UDP_GRO in
 *
 * Prints the messages per second of all threads together.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "pin.h"
#include "udp.h"

enum {
	THREADS_MAX = 64,
	WARM_UP = 5,	/* at first, one part in so many of the time */
	LONGEST = 1 << 16,
};

static struct worker {
	pthread_t thread;
	int from, to;
	double rate;
} worker[THREADS_MAX];

static size_t size, per_call;
static int window;
static double duration;	/* s */
static pthread_barrier_t start;

static void open_sockets(struct worker *w, int segment)
{
	struct sockaddr_in from, to;

	w->from = bound_socket("127.0.0.1", &from);
	w->to = bound_socket("127.0.0.1", &to);
	join_sockets(w->from, &from, w->to, &to, segment);
}

static void send_one(const struct worker *w, const char *buf)
{
	for (size_t sent = 0, n; sent < size; sent += n) {
		n = size - sent < per_call ? size - sent : per_call;
		if (send(w->from, buf + sent, n, 0) != (ssize_t)n)
			fail("send");
	}
}

static void *run(void *arg)
{
	struct worker *w = arg;
	double begin, now, warm = 0;
	long sent = 0, warm_bytes = 0, bytes = 0;
	char *buf = calloc(2, LONGEST);

	if (!buf)
		fail("calloc");
	pin((int)(w - worker));
	pthread_barrier_wait(&start);
	begin = now_s();
	do {
		ssize_t n;

		for (; sent - bytes / (long)size < window; sent++)
			send_one(w, buf);
		n = recv(w->to, buf + LONGEST, LONGEST, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			fail("recv");
		bytes += n > 0 ? n : 0;
		now = now_s();
		if (!warm && now - begin >= duration / WARM_UP) {
			warm = now;
			warm_bytes = bytes;
		}
	} while (now - begin < duration);
	w->rate = (double)(bytes - warm_bytes) / (double)size / (now - warm);
	free(buf);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc == 5 || argc == 6 ? atoi(argv[1]) : 0;
	int segment = argc == 6 ? atoi(argv[5]) : 0;
	double sum = 0;

	if (n < 1 || n > THREADS_MAX)
		return 2;
	size = strtoul(argv[2], NULL, 0);
	window = atoi(argv[3]);
	duration = atof(argv[4]) / 1e3;
	if (!size || size > (segment ? LONGEST : UDP_CALL_MAX) || window < 1 || duration <= 0 ||
	    segment < 0 || segment > UDP_CALL_MAX)
		return 2;
	per_call = size;
	if (segment) {
		per_call = UDP_CALL_MAX / (size_t)segment;
		if (per_call > UDP_SEGMENTS_MAX)
			per_call = UDP_SEGMENTS_MAX;
		per_call *= (size_t)segment;
	}
	pthread_barrier_init(&start, NULL, n);
	for (struct worker *w = worker; w < worker + n; w++)
		open_sockets(w, segment);
	for (struct worker *w = worker; w < worker + n; w++)
		if (pthread_create(&w->thread, NULL, run, w))
			fail("pthread_create");
	for (struct worker *w = worker; w < worker + n; w++) {
		pthread_join(w->thread, NULL);
		sum += w->rate;
		close(w->from);
		close(w->to);
	}
	printf("%.0f\n", sum);
	return 0;
}
