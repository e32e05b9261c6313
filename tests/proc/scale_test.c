/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	scale_test PROCS	64 processes, each connected to each: a WRITE and a SEND over every
 *connection scale_test MEMORY	1,000 connected QPs in one process: what an idle one costs beyond
 *its queues
 */
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sched.h>
#include <unistd.h>

#include "rc.h"

enum {
	PROCS = 64,
	QPS = 1000,
	PER_QP = 8192,
	TIMEOUT = 17,
	SLOT = 64,
};

/* ---- 64 processes ---- */

struct shared {
	struct rc_addr addr[PROCS][PROCS];	/* [i][j]: of i's QP for j */
	unsigned int arrived[4];		/* atomic: processes that have come to a point */
};

static struct shared *shared;

static void meet_all(int point)
{
	__atomic_fetch_add(&shared->arrived[point], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&shared->arrived[point], __ATOMIC_ACQUIRE) < PROCS)
		usleep(1000);
}

static void send_to_all(struct rc *rc, struct ibv_qp **qp, int me)
{
	for (int to = 0; to < PROCS; to++) {
		struct rc_addr peer = shared->addr[to][me];

		if (to == me)
			continue;
		peer.addr += (uint64_t)me * SLOT;
		CHECK(rc_post_send(rc, qp[to], IBV_WR_RDMA_WRITE, 8, &peer, 1) == 0);
		CHECK(rc_post_send(rc, qp[to], IBV_WR_SEND, 8, &peer, 2) == 0);
	}
}

static void run_process(int me)
{
	struct ibv_qp *qp[PROCS] = { NULL };
	int want[3] = { PROCS - 1, PROCS - 1, PROCS - 1 };	/* receives, writes, sends */
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, PROCS * SLOT);
	CHECK(ibv_resize_cq(rc.cq, 4 * PROCS) == 0);
	for (int i = 0; i < PROCS; i++) {
		if (i == me)
			continue;
		qp[i] = rc_new_qp(&rc);
		rc_post_recv(&rc, qp[i], 0);
		shared->addr[me][i] = rc_address(&rc, qp[i]);
	}
	meet_all(0);
	for (int i = 0; i < PROCS; i++)
		if (i != me)
			rc_connect(&rc, qp[i], &shared->addr[i][me], TIMEOUT, 7);
	meet_all(1);
	memset(rc.buf + me * SLOT, me + 1, 8);
	send_to_all(&rc, qp, me);
	while (want[0] + want[1] + want[2] > 0) {
		struct ibv_wc wc = rc_wait(&rc);

		if (wc.status != IBV_WC_SUCCESS)
			printf("%d: %s\n", me, ibv_wc_status_str(wc.status));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < 3);
		want[wc.wr_id]--;
	}
	meet_all(2);
	for (int i = 0; i < PROCS; i++)
		if (qp[i])
			CHECK(ibv_destroy_qp(qp[i]) == 0);
	rc_close(&rc);
}

static int run_procs(void)
{
	pid_t pid[PROCS];
	int failed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < PROCS; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0) {
			run_process(i);
			exit(0);
		}
	}
	for (int i = 0; i < PROCS; i++) {
		int status;

		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		failed += !WIFEXITED(status) || WEXITSTATUS(status);
	}
	CHECK(failed == 0);
	return 0;
}

/* ---- memory ---- */

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long total, pages;

	CHECK(f && fscanf(f, "%lu %lu", &total, &pages) == 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The queues of rc_new_qp(): RC_DEPTH slots of the sizes that src/wq/wqe.h gives, rounded up. */
enum { QUEUES = RC_DEPTH * (128 + 48) };

static int run_memory(void)
{
	static struct ibv_qp *qp[QPS];
	size_t before, after, per_qp;
	struct rc_addr addr[2];
	struct rc rc;

	rc_open(&rc, 4096);
	before = resident();
	for (int i = 0; i < QPS; i++)
		qp[i] = rc_new_qp(&rc);
	for (int i = 0; i < QPS; i += 2) {
		addr[0] = rc_address(&rc, qp[i]);
		addr[1] = rc_address(&rc, qp[i + 1]);
		rc_connect(&rc, qp[i], &addr[1], TIMEOUT, 7);
		rc_connect(&rc, qp[i + 1], &addr[0], TIMEOUT, 7);
		rc_post_recv(&rc, qp[i + 1], 1);
		CHECK(rc_post_send(&rc, qp[i], IBV_WR_SEND, 8, &addr[1], 2) == 0);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	}
	after = resident();
	per_qp = (after - before) / QPS;
	printf("%zu bytes for each of %d QPs, queues included (%d)\n", per_qp, QPS, QUEUES);
	CHECK(per_qp <= QUEUES + PER_QP);
	for (int i = 0; i < QPS; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	rc_close(&rc);
	return 0;
}

int main(int argc, char **argv)
{
	alarm(RC_LIMIT_S);
	return argc > 1 && strcmp(argv[1], "MEMORY") == 0 ? run_memory() : run_procs();
}
