/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What perftest does not measure, between two processes: WRITEs by a program that sleeps until its
 * completions come, and many queue pairs.
 *
 *	pair write SIZE COUNT QPS [options]	WRITEs on QPS queue pairs in turn, polling; MiB/s
 *	pair sleep SIZE COUNT QPS [options]	the same, sleeping on the completion channel
 *	pair send SIZE COUNT QPS [options]	SENDs in turn, each to a posted receive; ns each
 *	pair idle SIZE COUNT QPS [options]	as sleep, then nothing for two seconds: how often
 *						a thread wakes up in the second one
 *	pair setup SIZE COUNT QPS [options]	creates and connects QPS queue pairs, which exchange
 *						their addresses over TCP, COUNT per message;
 *						pairs per second
 *	pair flag SIZE COUNT 1 [options]	a WRITE of SIZE bytes, a multiple of 8, and one of a
 *						flag, to and fro; each side polls for its
 *						completions, then spins on the flag; median us of
 *						one way
 *
 * The options are those of the examples: -d DEVICE -g GID-INDEX -p TCP-PORT, and at the client the
 * server's address.  The client sends and prints the figure.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum {
	WINDOW = 16, /* requests in flight, all queue pairs together */
	QPS_MAX = 20000,
	TOGETHER_MAX = 256, /* addresses per message: both sides write before they read */
	LIMIT_S = 90,
	FLAG = sizeof(uint64_t),
};

static struct side side;
static struct ibv_comp_channel *channel;
static struct ibv_qp *qp[QPS_MAX];
static struct address peer[QPS_MAX];
static size_t size;
static long count;
static int qps;
static bool sleeping;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Each queue pair has as many receives as it may have messages in flight. */
static int receives_each(void)
{
	return (WINDOW + qps - 1) / qps;
}

/*
 * The examples' CQ has no channel. It must hold what arrives while this process has no CPU: a
 * message on every posted receive.
 */
static void open_channel(void)
{
	struct ibv_cq *old = side.cq;

	channel = ibv_create_comp_channel(side.ctx);
	side.cq = ibv_create_cq(side.ctx, WINDOW + qps * receives_each(), NULL, channel, 0);
	if (!channel || !side.cq || ibv_destroy_cq(old))
		fail("completion queue");
}

/* Polls again after asking for an event, since what came before is not announced. */
static int sleep_for(struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	int n;

	if (ibv_req_notify_cq(side.cq, 0))
		fail("ibv_req_notify_cq");
	n = ibv_poll_cq(side.cq, WINDOW, wc);
	if (n)
		return n;
	if (ibv_get_cq_event(channel, &cq, &context))
		fail("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/* At least one, at most WINDOW. */
static int completions(struct ibv_wc *wc)
{
	int n;

	do {
		n = ibv_poll_cq(side.cq, WINDOW, wc);
		if (n == 0 && sleeping)
			n = sleep_for(wc);
	} while (n == 0);
	if (n < 0)
		fail("ibv_poll_cq");
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
	return n;
}

/* Seconds that all of it took. */
static double request(enum ibv_wr_opcode opcode)
{
	struct ibv_wc wc[WINDOW];
	double start = now_s();
	long posted = 0;

	for (long done = 0; done < count; done += completions(wc))
		for (; posted < count && posted < done + WINDOW; posted++)
			post_request(&side, qp[posted % qps], opcode, size, &peer[posted % qps]);
	return now_s() - start;
}

static void post_receives(void)
{
	for (int i = 0; i < qps; i++)
		for (int n = 0; n < receives_each(); n++)
			post_receive(&side, qp[i], i);
}

static void receive(void)
{
	struct ibv_wc wc[WINDOW];

	for (long done = 0; done < count;) {
		int n = completions(wc);

		for (int i = 0; i < n; i++)
			post_receive(&side, qp[wc[i].wr_id], wc[i].wr_id);
		done += n;
	}
}

/* Both sides run on one machine, so addresses need no byte order. */
static void exchange(const struct address *mine, struct address *theirs, int n)
{
	size_t len = n * sizeof(*mine);

	if (write(side.sock, mine, len) != (ssize_t)len ||
	    recv(side.sock, theirs, len, MSG_WAITALL) != (ssize_t)len)
		fail("exchange of addresses");
}

/* Connects n queue pairs from the one with number `first`. */
static void set_up_some(int first, int n)
{
	struct address mine[TOGETHER_MAX];

	for (int i = 0; i < n; i++) {
		qp[first + i] = create_qp(&side, NULL);
		mine[i] = (struct address){
			.addr = (uintptr_t)side.buf, .rkey = side.mr->rkey,
			.qpn = qp[first + i]->qp_num, .lid = side.port.lid, .gid = side.gid,
		};
	}
	exchange(mine, &peer[first], n);
	for (int i = first; i < first + n; i++) {
		move_to_rtr(&side, qp[i], &peer[i]);
		move_to_rts(qp[i]);
	}
}

/* Seconds that it took. */
static double set_up(int together)
{
	double start = now_s();

	for (int i = 0; i < qps; i += together)
		set_up_some(i, qps - i < together ? qps - i : together);
	/* Requests to a queue pair that is not in RTR yet would be lost. */
	sync_sides(&side);
	return now_s() - start;
}

static long switches(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_nvcsw + used.ru_nivcsw;
}

/* This thread's own sleep is one of them. */
static long wakeups_of_a_second(void)
{
	struct timespec second = { .tv_sec = 1 };
	long before = switches();

	nanosleep(&second, NULL);
	return switches() - before - 1;
}

/* Mode "flag": the buffer has what the peer writes, behind it what it is sent. */

static void put(size_t at, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side.buf + size + FLAG + at,
			       .length = len, .lkey = side.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = peer[0].addr + at, .rkey = peer[0].rkey },
	}, *bad;

	if (ibv_post_send(qp[0], &wr, &bad))
		fail("ibv_post_send");
}

static void put_both(uint64_t number)
{
	struct ibv_wc wc[WINDOW];

	memcpy(side.buf + size + FLAG + size, &number, FLAG);
	put(0, size);
	put(size, FLAG);
	for (int done = 0; done < 2;)
		done += completions(wc);
}

static void await_flag(uint64_t number)
{
	const volatile uint64_t *flag = (const void *)(side.buf + size);

	while (*flag != number)
		;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Median seconds of a round trip. */
static double exchange_flags(void)
{
	double *took = calloc(count, sizeof(*took)), median;

	if (!took)
		fail("memory");
	for (long i = 0; i < count; i++) {
		double start = now_s();

		if (is_client(&side))
			put_both(i + 1);
		await_flag(i + 1);
		if (!is_client(&side))
			put_both(i + 1);
		took[i] = now_s() - start;
	}
	qsort(took, count, sizeof(*took), by_value);
	median = took[count / 2];
	free(took);
	return median;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 4 ? argv[1] : "";
	bool sends = strcmp(mode, "send") == 0, sets_up = strcmp(mode, "setup") == 0, idles;
	bool flags = strcmp(mode, "flag") == 0;
	double took;
	int on = 1;

	idles = strcmp(mode, "idle") == 0;
	sleeping = idles || strcmp(mode, "sleep") == 0;
	if (!sends && !sets_up && !sleeping && !flags && strcmp(mode, "write"))
		return 2;
	size = strtoul(argv[2], NULL, 0);
	count = strtol(argv[3], NULL, 0);
	qps = atoi(argv[4]);
	if (size == 0 || count <= 0 || qps <= 0 || qps > QPS_MAX ||
	    (sets_up && count > TOGETHER_MAX) || (flags && (size % FLAG || qps > 1)))
		return 2;
	alarm(LIMIT_S);
	side_open(&side, argc - 4, argv + 4, flags ? 2 * (size + FLAG) : size);
	setsockopt(side.sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	open_channel();

	took = set_up(sets_up ? count : TOGETHER_MAX);
	if (sends && !is_client(&side))
		post_receives();
	sync_sides(&side);
	if (sends && !is_client(&side))
		receive();
	else if (flags)
		took = exchange_flags();
	else if (!sets_up && is_client(&side))
		took = request(sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE);
	sync_sides(&side);
	if (idles) {
		wakeups_of_a_second();	/* the progress thread stops looking for pollers */
		printf("%ld\n", wakeups_of_a_second());
	} else if (is_client(&side)) {
		printf("%.2f\n", sets_up ? qps / took
				 : sends ? took / count * 1e9
				 : flags ? took / 2 * 1e6
					 : (double)size * count / took / (1 << 20));
	}
	sync_sides(&side);
	return 0;
}
