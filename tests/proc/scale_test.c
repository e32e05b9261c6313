/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes, and many QPs.
 *
 *	scale_test PROCS	64 processes, each connected to each
 *	scale_test QPS		8 processes, each connected to each by 180 QPs: 10,080 in all
 *	scale_test MEMORY	1,000 connected QPs in one process: the memory of an idle QP,
 *				beyond its queues, must stay below a limit
 *
 * A WRITE and a SEND over every connection must succeed, and their data arrive.
 */
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	PER_QP = 8192,
	TIMEOUT = 17,
	SLOT = 64,
	MEMORY_QPS = 1000,
};

/* ---- many processes, or many QPs between few ---- */

static const struct scale {
	const char *name;
	int procs, qps;	/* QPs for each of the other processes */
} scales[] = { { "PROCS", 64, 1 }, { "QPS", 8, 180 } };

static struct scale scale;

/* Shared by all processes. */
static struct shared {
	unsigned int arrived[3];	/* atomic: processes that have reached each point */
	struct rc_addr addr[];		/* see address() */
} *shared;

enum kind { RECEIVE, WRITE, SEND, KINDS };

/* The number of QP k for, or of, another process, and of its slot of the buffer. */
static int number(int process, int k)
{
	return process * scale.qps + k;
}

/* The address of a process's QP k for another one. */
static struct rc_addr *address(int of, int to, int k)
{
	return &shared->addr[number(of * scale.procs + to, k)];
}

static void barrier(int point)
{
	__atomic_fetch_add(&shared->arrived[point], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&shared->arrived[point], __ATOMIC_ACQUIRE) <
	       (unsigned int)scale.procs)
		usleep(1000);
}

/* All bytes that a QP sends and writes are the same. */
static char value(int process, int k)
{
	return (char)(1 + number(process, k) % 255);
}

static size_t slots(void)
{
	return (size_t)scale.procs * scale.qps;
}

/* The first slot takes what is sent. */
static size_t in_slot(int process, int k)
{
	return (1 + number(process, k)) * SLOT;
}

static size_t out_slot(int process, int k)
{
	return slots() * SLOT + in_slot(process, k);
}

static void post(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode, int me, int to, int k)
{
	const struct rc_addr *peer = address(to, me, k);
	struct ibv_sge sge = { (uintptr_t)rc->buf + out_slot(to, k), SLOT, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = opcode == IBV_WR_SEND ? SEND : WRITE,
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { peer->addr + in_slot(me, k), peer->rkey },
	};

	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static bool slot_is(const char *slot, char byte)
{
	for (int i = 0; i < SLOT; i++)
		if (slot[i] != byte)
			return false;
	return true;
}

/* Calls f for each QP of this process. */
static void for_each_qp(struct rc *rc, struct ibv_qp **qp, int me,
			void (*f)(struct rc *rc, struct ibv_qp **qp, int me, int other, int k))
{
	for (int other = 0; other < scale.procs; other++)
		for (int k = 0; other != me && k < scale.qps; k++)
			f(rc, &qp[number(other, k)], me, other, k);
}

static void create(struct rc *rc, struct ibv_qp **qp, int me, int other, int k)
{
	*qp = rc_new_qp(rc);
	rc_post_recv(rc, *qp, RECEIVE);
	*address(me, other, k) = rc_address(rc, *qp);
	memset(rc->buf + out_slot(other, k), value(me, k), SLOT);
}

static void connect_qp(struct rc *rc, struct ibv_qp **qp, int me, int other, int k)
{
	rc_connect(rc, *qp, address(other, me, k), TIMEOUT, 7);
}

static void post_both(struct rc *rc, struct ibv_qp **qp, int me, int other, int k)
{
	post(rc, *qp, IBV_WR_RDMA_WRITE, me, other, k);
	post(rc, *qp, IBV_WR_SEND, me, other, k);
}

/* Each SEND came after its sender's WRITE. */
static void check_slot(struct rc *rc, struct ibv_qp **qp, int me, int other, int k)
{
	CHECK(slot_is(rc->buf + in_slot(other, k), value(other, k)));
}

static void destroy(struct rc *rc, struct ibv_qp **qp, int me, int other, int k)
{
	CHECK(ibv_destroy_qp(*qp) == 0);
}

static void wait_for_all(struct rc *rc, int me)
{
	int each = (scale.procs - 1) * scale.qps, expected[KINDS] = { each, each, each };

	for (int left = KINDS * each; left; left--) {
		struct ibv_wc wc = rc_wait(rc);

		if (wc.status != IBV_WC_SUCCESS)
			printf("%d: %s\n", me, ibv_wc_status_str(wc.status));
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < KINDS);
		CHECK(expected[wc.wr_id]-- > 0);
	}
}

static void run_process(int me)
{
	struct ibv_qp **qp = calloc(slots(), sizeof(*qp));
	struct rc rc;

	CHECK(qp);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, (1 + 2 * slots()) * SLOT);
	CHECK(ibv_resize_cq(rc.cq, KINDS * (int)slots()) == 0);
	for_each_qp(&rc, qp, me, create);
	barrier(0);
	for_each_qp(&rc, qp, me, connect_qp);
	barrier(1);
	for_each_qp(&rc, qp, me, post_both);
	wait_for_all(&rc, me);
	for_each_qp(&rc, qp, me, check_slot);
	barrier(2);
	for_each_qp(&rc, qp, me, destroy);
	rc_close(&rc);
	free(qp);
}

static int run_procs(const struct scale *which)
{
	size_t size = sizeof(*shared) + which->procs * which->procs * which->qps *
						sizeof(struct rc_addr);
	pid_t pid[64];
	int failed = 0;

	scale = *which;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int i = 0; i < scale.procs; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0) {
			run_process(i);
			exit(0);
		}
	}
	for (int i = 0; i < scale.procs; i++) {
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
	static struct ibv_qp *qp[MEMORY_QPS];
	size_t before, after, per_qp;
	struct rc_addr addr[2];
	struct rc rc;

	rc_open(&rc, 4096);
	before = resident();
	for (int i = 0; i < MEMORY_QPS; i++)
		qp[i] = rc_new_qp(&rc);
	for (int i = 0; i < MEMORY_QPS; i += 2) {
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
	per_qp = (after - before) / MEMORY_QPS;
	printf("%zu bytes for each of %d QPs, queues included (%d)\n", per_qp, MEMORY_QPS, QUEUES);
	CHECK(per_qp <= QUEUES + PER_QP);
	for (int i = 0; i < MEMORY_QPS; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	rc_close(&rc);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "PROCS";

	alarm(RC_LIMIT_S);
	for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
		if (strcmp(what, scales[i].name) == 0)
			return run_procs(&scales[i]);
	return run_memory();
}
