/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes, and many QPs.
 *
 *	scale_test PROCS	64 processes, each connected to each: a WRITE and a SEND over
 *				every connection must succeed, and their data arrive
 *	scale_test MEMORY	1,000 connected QPs in one process: the memory of an idle QP,
 *				beyond its queues, must stay below a limit
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
	struct rc_addr addr[PROCS][PROCS]; /* [i][j]: address of i's QP for j */
	unsigned int arrived[4];           /* atomic: processes that have reached each point */
};

static struct shared *shared;

static void barrier(int point)
{
	__atomic_fetch_add(&shared->arrived[point], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&shared->arrived[point], __ATOMIC_ACQUIRE) < PROCS)
		usleep(1000);
}

/*
 * Slot 0 takes what is sent, slot 1 + i what process i writes; slot 1 + me is the source of both,
 * and all its bytes are me + 1.
 */
static void post_own_slot(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
			  const struct rc_addr *peer, int me, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + (1 + me) * SLOT, SLOT, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { peer->addr + (1 + me) * SLOT, peer->rkey },
	};

	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static bool slot_is(const struct rc *rc, int slot, char byte)
{
	for (int i = 0; i < SLOT; i++)
		if (rc->buf[slot * SLOT + i] != byte)
			return false;
	return true;
}

/* Each SEND came after its sender's WRITE. */
static void check_data(const struct rc *rc)
{
	for (int i = 0; i < PROCS; i++)
		CHECK(slot_is(rc, 1 + i, (char)(i + 1)));
}

static void post_to_all(struct rc *rc, struct ibv_qp **qp, int me)
{
	for (int to = 0; to < PROCS; to++) {
		if (to == me)
			continue;
		post_own_slot(rc, qp[to], IBV_WR_RDMA_WRITE, &shared->addr[to][me], me, 1);
		post_own_slot(rc, qp[to], IBV_WR_SEND, &shared->addr[to][me], me, 2);
	}
}

static void run_process(int me)
{
	struct ibv_qp *qp[PROCS] = { NULL };
	int expected[3] = { PROCS - 1, PROCS - 1, PROCS - 1 }; /* receives, writes, sends */
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, (1 + PROCS) * SLOT);
	CHECK(ibv_resize_cq(rc.cq, 4 * PROCS) == 0);
	for (int i = 0; i < PROCS; i++) {
		if (i == me)
			continue;
		qp[i] = rc_new_qp(&rc);
		rc_post_recv(&rc, qp[i], 0);
		shared->addr[me][i] = rc_address(&rc, qp[i]);
	}
	barrier(0);
	for (int i = 0; i < PROCS; i++)
		if (i != me)
			rc_connect(&rc, qp[i], &shared->addr[i][me], TIMEOUT, 7);
	barrier(1);
	memset(rc.buf + (1 + me) * SLOT, me + 1, SLOT);
	post_to_all(&rc, qp, me);
	while (expected[0] + expected[1] + expected[2] > 0) {
		struct ibv_wc wc = rc_wait(&rc);

		if (wc.status != IBV_WC_SUCCESS)
			printf("%d: %s\n", me, ibv_wc_status_str(wc.status));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < 3);
		expected[wc.wr_id]--;
	}
	check_data(&rc);
	barrier(2);
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

/* The queues of rc_new_qp(): RC_DEPTH slots, of the sizes in src/wq/wqe.h, rounded up. */
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
