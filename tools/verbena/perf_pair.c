/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See perf_pair.h.  Both sides are children of the tool, so that each reads the environment anew
 * and the tool itself opens no device.  They synchronize each step over a socket pair; side 0
 * measures and writes its points to a pipe.
 */
#include "perf_pair.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "perf_limits.h"

enum {
	BUFFER = 1 << 20,
	DEPTH = 64,
	BATCH = 16,
	WARM_UP = 50,
	LIMIT_S = 60,	/* for one size: ends what hangs, not what is slow */
	SAMPLES_MAX = 1 << 20
};

struct address {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey, qpn;
};

struct side {
	int sock;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address peer;
};

static void need(int ok)
{
	if (!ok)
		_exit(1);
}

/* Barrier of both sides, which exchange messages in it. */
static void swap(struct side *s, const void *mine, void *theirs, size_t len)
{
	need(write(s->sock, mine, len) == (ssize_t)len);
	need(recv(s->sock, theirs, len, MSG_WAITALL) == (ssize_t)len);
}

static void connect_qp(struct side *s, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct address own = { *gid, (uintptr_t)s->mr->addr, s->mr->rkey, s->qp->qp_num };

	need(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS));
	swap(s, &own, &s->peer, sizeof(own));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_4096,
				     .dest_qp_num = s->peer.qpn,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 1,
				     .ah_attr = {
					     .is_global = 1,
					     .port_num = 1,
					     .grh = { .dgid = s->peer.gid, .hop_limit = 1 } } };
	need(!ibv_modify_qp(s->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	/* ACK timeout of a second, so that a process may wait for a CPU. */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 18,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	need(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Opens the loopback device, which is the last one. */
static void open_side(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 2 * DEPTH, 2 * DEPTH, 1, 1, 0 } };

	need(list && list[0]);
	while (list[1])
		list++;
	ctx = ibv_open_device(list[0]);
	need(ctx && !ibv_query_gid(ctx, 1, 0, &gid));
	pd = ibv_alloc_pd(ctx);
	s->cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
	need(pd && s->cq);
	s->mr = ibv_reg_mr(pd, calloc(1, BUFFER), BUFFER,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(pd, &init);
	need(s->mr && s->qp);
	connect_qp(s, &gid);
}

static void receive(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, BUFFER, s->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	need(!ibv_post_recv(s->qp, &wr, &bad));
}

static void post(struct side *s, enum ibv_wr_opcode opcode, size_t size)
{
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, (uint32_t)size, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.rdma.remote_addr = s->peer.addr;
	wr.wr.rdma.rkey = s->peer.rkey;
	need(!ibv_post_send(s->qp, &wr, &bad));
}

/* Returns the number of completions, 1 to n. */
static int wait_some(struct side *s, int n, int *receives)
{
	struct ibv_wc wc[BATCH];
	int got;

	while (!(got = ibv_poll_cq(s->cq, n < BATCH ? n : BATCH, wc)))
		continue;
	need(got > 0);
	for (int i = 0; i < got; i++) {
		need(wc[i].status == IBV_WC_SUCCESS);
		*receives += wc[i].opcode == IBV_WC_RECV;
	}
	return got;
}

/* One message each way: waits for both completions. */
static void exchange(struct side *s, size_t size, int first)
{
	int receives = 0, done = 0;

	if (first)
		post(s, IBV_WR_SEND, size);
	while (done < 2) {
		int before = receives;

		done += wait_some(s, 1, &receives);
		if (receives == before)
			continue;
		receive(s);
		if (!first)
			post(s, IBV_WR_SEND, size);
	}
}

/* Median of single messages: other load on the machine affects only some. */
static double ping_pong(struct side *s, size_t size, long count, int first)
{
	double *samples = calloc((size_t)count, sizeof(*samples)), before, now, median;

	need(samples != NULL);
	for (long i = 0; i < WARM_UP; i++)
		exchange(s, size, first);
	before = perf_now();
	for (long i = 0; i < count; i++, before = now) {
		exchange(s, size, first);
		now = perf_now();
		samples[i] = now - before;
	}
	median = perf_median(samples, (unsigned int)count);
	free(samples);
	return median / 2 * 1e6;
}

static double write_stream(struct side *s, size_t size, double seconds, double *rate)
{
	double start = perf_now(), end = start + seconds, now;
	long posted = 0, done = 0;
	int none = 0;

	do {
		while (posted - done < DEPTH) {
			post(s, IBV_WR_RDMA_WRITE, size);
			posted++;
		}
		done += wait_some(s, BATCH, &none);
		now = perf_now();
	} while (now < end);
	while (done < posted)
		done += wait_some(s, BATCH, &none);
	*rate = (double)posted / (perf_now() - start);
	return *rate * (double)size / (1 << 20);
}

static void measure(struct side *s, int first, struct perf_point *p, double seconds, int out)
{
	long count = 20, other;

	p->latency_us = ping_pong(s, p->size, count, first);
	if (first)
		count = MIN(MAX((long)(seconds * 1e6 / 2 / p->latency_us), 20L), (long)SAMPLES_MAX);
	swap(s, &count, &other, sizeof(count));
	p->latency_us = ping_pong(s, p->size, first ? count : other, first);
	swap(s, &count, &other, sizeof(count));
	if (first)
		p->mib_s = write_stream(s, p->size, seconds, &p->rate);
	swap(s, &count, &other, sizeof(count));
	if (first)
		need(write(out, p, sizeof(*p)) == (ssize_t)sizeof(*p));
}

static void run_side(int sock, int first, const struct perf_point *points, size_t n, double seconds,
		     int out)
{
	struct side s = { .sock = sock };
	char byte = 0, other;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	perf_pin(first);
	alarm(LIMIT_S);
	open_side(&s);
	for (int i = 0; i < DEPTH; i++)
		receive(&s);
	swap(&s, &byte, &other, 1);
	for (size_t i = 0; i < n; i++) {
		struct perf_point p = points[i];

		alarm(LIMIT_S);
		measure(&s, first, &p, seconds, out);
	}
	_exit(0);
}

int perf_pair(const char *transport, struct perf_point *points, size_t n, double seconds,
	      void (*step)(void))
{
	int sock[2], result[2], good = 0, status;
	pid_t pid[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0 || pipe(result) < 0)
		return -1;
	setenv("VERBENA_TRANSPORT", transport, 1);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			close(sock[!i]);
			close(result[0]);
			run_side(sock[i], i == 0, points, n, seconds, result[1]);
		}
	}
	close(sock[0]);
	close(sock[1]);
	close(result[1]);
	for (size_t i = 0;
	     i < n && read(result[0], &points[i], sizeof(*points)) == (ssize_t)sizeof(*points); i++)
		step();
	close(result[0]);
	for (int i = 0; i < 2; i++)
		good += pid[i] > 0 && waitpid(pid[i], &status, 0) == pid[i] && WIFEXITED(status) &&
			!WEXITSTATUS(status);
	return good == 2 ? 0 : -1;
}
