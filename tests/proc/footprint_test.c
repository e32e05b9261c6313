/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What connections cost in memory (docs/SHM.md):
 *
 *	footprint_test QPS	idle RC queue pairs of depth 16, then with a receive posted on each
 *	footprint_test PAIRS	processes that talk, each with each, beyond their queue pairs
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	KIB = 1024,
	DEPTH = 16,
	QPS = 2000,
	QP_MOST = 4 * KIB,
	PROCS = 8,
	PAIRS = PROCS * (PROCS - 1) / 2,
	PAIR_MOST = 64 * KIB,
	BLOCK = 4 * KIB,
	/* beside the lanes: both send queues, and what a process first touches when it talks */
	PRIVATE_MOST = 32 * KIB,
	SHORT = 8,
	LONG = 4000,		/* travels through the ring of a lane */
	MESSAGES = 300,		/* more than a lane has slots */
	TIMEOUT = 17,
};

/* A line of /proc/self/smaps_rollup, in bytes. */
static long rollup(const char *name)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = -1;

	if (!f)
		SKIP("there is no /proc/self/smaps_rollup");
	while (kib < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtol(line + strlen(name), NULL, 10);
	fclose(f);
	CHECK(kib >= 0);
	return kib * KIB;
}

static struct ibv_qp *new_qp(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = rc->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

/* ---- queue pairs ---- */

static void connect_pair(struct rc *rc, struct ibv_qp *const qp[2])
{
	struct rc_addr a = rc_address(rc, qp[0]), b = rc_address(rc, qp[1]);

	rc_connect(rc, qp[0], &b, TIMEOUT, 7);
	rc_connect(rc, qp[1], &a, TIMEOUT, 7);
}

static void expect_at_most(const char *what, long bytes, long n, long most)
{
	printf("%s: %ld bytes each\n", what, bytes / n);
	fflush(stdout);
	CHECK(bytes <= most * n);
}

static int run_qps(void)
{
	static struct ibv_qp *qp[QPS];
	struct rc_addr peer;
	struct rc rc;
	long before;

	rc_open(&rc, KIB);
	before = rollup("Rss:");
	for (int i = 0; i < QPS; i += 2) {
		qp[i] = new_qp(&rc);
		qp[i + 1] = new_qp(&rc);
		connect_pair(&rc, qp + i);
	}
	expect_at_most("connected", rollup("Rss:") - before, QPS, QP_MOST);
	for (int i = 0; i < QPS; i++)
		rc_post_recv(&rc, qp[i], 1);
	expect_at_most("connected, a receive posted", rollup("Rss:") - before, QPS, QP_MOST);
	for (int i = 0; i < QPS; i++) {
		peer = rc_address(&rc, qp[i ^ 1]);
		CHECK(rc_post_send(&rc, qp[i], IBV_WR_SEND, SHORT, &peer, 2) == 0);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	}
	expect_at_most("after a message each way", rollup("Rss:") - before, QPS, 2 * QP_MOST);
	for (int i = 0; i < QPS; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	rc_close(&rc);
	return 0;
}

/* ---- pairs of processes ---- */

static struct shared {
	struct rc_addr addr[PROCS][PROCS];	/* [i][j]: of i's QP for j */
	long anonymous[PROCS];			/* how much a process has grown */
	unsigned int arrived[4];		/* atomic: processes that have come to a point */
	unsigned int measured;			/* atomic: points passed by the parent */
} *shared;

/* One side of a connection. Messages alternate in length, and all bytes of one are its number. */
struct talk {
	struct rc *rc;
	struct ibv_qp *qp;
	char *out, *in;		/* DEPTH messages each */
	int posted, sent, awaited, received;
};

static void await(const unsigned int *count, unsigned int n)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
}

/* All processes come to the point before the parent measures, and go on after it. */
static void meet(unsigned int point)
{
	__atomic_fetch_add(&shared->arrived[point], 1, __ATOMIC_ACQ_REL);
	await(&shared->measured, point + 1);
}

static uint32_t length_of(int message)
{
	return message % 2 ? LONG : SHORT;
}

static void await_message(struct talk *t, int me)
{
	struct ibv_sge sge = { (uintptr_t)(t->in + t->awaited % DEPTH * LONG), LONG,
			       t->rc->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = (uint64_t)me << 1, .sg_list = &sge, .num_sge = 1 };

	CHECK(ibv_post_recv(t->qp, &wr, &bad) == 0);
	t->awaited++;
}

static void send_message(struct talk *t, int me)
{
	char *out = t->out + t->posted % DEPTH * LONG;
	struct ibv_sge sge = { (uintptr_t)out, length_of(t->posted), t->rc->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)me << 1 | 1, .opcode = IBV_WR_SEND,
					.sg_list = &sge, .num_sge = 1 };

	memset(out, t->posted, sge.length);
	CHECK(ibv_post_send(t->qp, &wr, &bad) == 0);
	t->posted++;
}

static void check_message(struct talk *t, uint32_t len)
{
	const char *in = t->in + t->received % DEPTH * LONG;

	CHECK(len == length_of(t->received));
	for (uint32_t i = 0; i < len; i++)
		CHECK(in[i] == (char)t->received);
	t->received++;
}

/* Goes on with the connection that a completion belongs to; returns 1 if it has ended. */
static int go_on(struct talk *t, const struct ibv_wc *wc)
{
	int number = (int)(wc->wr_id >> 1);

	CHECK(wc->status == IBV_WC_SUCCESS);
	if (wc->wr_id & 1) {
		t->sent++;
		if (t->posted < MESSAGES)
			send_message(t, number);
	} else {
		check_message(t, wc->byte_len);
		if (t->awaited < MESSAGES)
			await_message(t, number);
	}
	return t->sent == MESSAGES && t->received == MESSAGES;
}

static void talk_to_all(struct rc *rc, struct talk *talk, int me)
{
	int ended = 0;

	for (int i = 0; i < PROCS; i++)
		for (int n = 0; i != me && n < DEPTH; n++)
			send_message(&talk[i], i);
	while (ended < PROCS - 1) {
		struct ibv_wc wc = rc_wait(rc);

		ended += go_on(&talk[wc.wr_id >> 1], &wc);
	}
}

static void run_process(int me)
{
	struct talk talk[PROCS] = { 0 };
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, 2 * PROCS * DEPTH * LONG);
	memset(rc.buf, 0, rc.size);	/* touched before the measurement */
	for (int i = 0; i < PROCS; i++) {
		talk[i] = (struct talk){ .rc = &rc, .out = rc.buf + 2 * i * DEPTH * LONG,
					 .in = rc.buf + (2 * i + 1) * DEPTH * LONG };
		if (i == me)
			continue;
		talk[i].qp = new_qp(&rc);
		for (int n = 0; n < DEPTH; n++)
			await_message(&talk[i], i);
		shared->addr[me][i] = rc_address(&rc, talk[i].qp);
	}
	shared->anonymous[me] = -rollup("Anonymous:");
	meet(0);
	for (int i = 0; i < PROCS; i++)
		if (i != me)
			rc_connect(&rc, talk[i].qp, &shared->addr[i][me], TIMEOUT, 7);
	meet(1);
	talk_to_all(&rc, talk, me);
	shared->anonymous[me] += rollup("Anonymous:");
	meet(2);
	for (int i = 0; i < PROCS; i++)
		CHECK(i == me || ibv_destroy_qp(talk[i].qp) == 0);
	rc_close(&rc);
}

/* The memory of all segments. */
static long segments(void)
{
	DIR *d = opendir(getenv("VERBENA_DIR"));
	struct dirent *entry;
	struct stat st;
	long bytes = 0;

	CHECK(d);
	while ((entry = readdir(d)))
		if (strstr(entry->d_name, ".seg") &&
		    fstatat(dirfd(d), entry->d_name, &st, 0) == 0)
			bytes += st.st_blocks * 512;
	closedir(d);
	return bytes;
}

/* File systems on disks count the blocks that list the parts of a sparse file, too. */
static long lists_of_parts(void)
{
	struct statfs fs;

	CHECK(statfs(getenv("VERBENA_DIR"), &fs) == 0);
	return fs.f_type == TMPFS_MAGIC ? 0 : PROCS * BLOCK;
}

static long measure_at(unsigned int point)
{
	long bytes;

	await(&shared->arrived[point], PROCS);
	bytes = segments();
	__atomic_store_n(&shared->measured, point + 1, __ATOMIC_RELEASE);
	return bytes;
}

static int run_pairs(void)
{
	long before, after, grown = 0;
	pid_t pid[PROCS];
	int status;

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
	before = measure_at(0);
	measure_at(1);
	after = measure_at(2);
	for (int i = 0; i < PROCS; i++) {
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && WIFEXITED(status) &&
		      WEXITSTATUS(status) == 0);
		grown += shared->anonymous[i];
	}
	after -= lists_of_parts();
	expect_at_most("lanes of a pair of processes", after - before, PAIRS, PAIR_MOST);
	expect_at_most("private memory of a pair", grown, PAIRS, PRIVATE_MOST);
	return 0;
}

int main(int argc, char **argv)
{
	alarm(RC_LIMIT_S);
	CHECK(argc > 1);
	return strcmp(argv[1], "PAIRS") == 0 ? run_pairs() : run_qps();
}
