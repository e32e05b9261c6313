/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_open_qp() of an XRC receive QP of another process: calls through the handle, events, and the
 * QP's life until its last handle is closed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rnd.h"
#include "xrc_group.h"

enum {
	WRITES = 100,	/* fit into a lane */
	OPENING = 4,
	STOPPED_MS = 1500,	/* longer than a message takes to end */
	FROZEN_S = 300,
	LATE_LEN = 5000,	/* several packets */
	LOOKS = 100,		/* of the home at the clock, in which it has begun to move */
	MANY = 100,
};

/* A process that is stopped for FROZEN_S: its clock jumps. Shared and atomic; NULL: none. */
static struct frozen {
	pid_t pid;
	int seconds, looks;
} *frozen;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	if (frozen && __atomic_load_n(&frozen->pid, __ATOMIC_RELAXED) == getpid()) {
		t->tv_sec += __atomic_load_n(&frozen->seconds, __ATOMIC_RELAXED);
		__atomic_fetch_add(&frozen->looks, 1, __ATOMIC_RELAXED);
	}
	return ret;
}

/* Or until the process has something to say. */
static void await_looks(const struct child *c)
{
	int looks = __atomic_load_n(&frozen->looks, __ATOMIC_RELAXED);

	while (__atomic_load_n(&frozen->looks, __ATOMIC_RELAXED) - looks < LOOKS &&
	       !member_has_command(c->sock))
		usleep(1000);
}

/* A handle answers queries and gets the QP's events. */
static void test_open(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 1, OPEN);
	CHECK_EQ(group_query(&f, 1, STATE), IBV_QPS_RTS);
	group_send(&f, 2, 100);
	/* An SRQ number that is not in use. */
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[0].srqn ^ 0x10000, 0, 8, NULL, 1, 0);
	group_expect(&f, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(group_query(&f, i, EVENT), IBV_EVENT_QP_REQ_ERR);
		CHECK_EQ(group_query(&f, i, EVENT), IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK_EQ(group_query(&f, i, STATE), IBV_QPS_ERR);
	}
	group_run(&f, 1, CLOSE);
	group_end(&f);
}

/*
 * The first message at a QP in RTR raises COMM_EST at every handle, but not at the SRQ's owner,
 * whose process executes the message.
 */
static void test_established(void)
{
	struct group f = { 0 };

	group_home_in_rtr = true;
	group_start(&f);
	group_run(&f, 1, OPEN);
	CHECK_EQ(group_query(&f, 1, STATE), IBV_QPS_RTR);
	group_send(&f, 2, 100);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(group_query(&f, i, EVENT), IBV_EVENT_COMM_EST);
	group_send(&f, 1, 100);
	group_send(&f, 0, 100);
	group_run(&f, 1, CLOSE);
	group_end(&f);
}

/* ibv_modify_qp() through a handle changes the QP for all. */
static void test_open_modify(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 2, OPEN);
	group_send(&f, 1, 100);
	group_run(&f, 2, TO_ERROR);
	CHECK_EQ(group_query(&f, 0, STATE), IBV_QPS_ERR);
	group_run(&f, 2, CLOSE);
	CHECK_EQ(group_query(&f, 0, STATE), IBV_QPS_ERR);
	group_end(&f);
}

/* Until the process waits for the answer to a call at the home, which has it then. */
static void await_call(pid_t pid)
{
	char name[32];
	long call = 0;

	snprintf(name, sizeof(name), "/proc/%d/syscall", pid);
	while (call != SYS_clock_nanosleep && call != SYS_nanosleep) {	/* musl's is the second */
		FILE *f = fopen(name, "r");

		CHECK(f);
		if (fscanf(f, "%ld", &call) != 1)
			call = 0;	/* it runs */
		fclose(f);
	}
}

/* What had arrived before ibv_modify_qp() was called through a handle is executed. */
static void test_arrived(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 1, OPEN);
	group_send(&f, 0, 100);
	group_run(&f, 0, POST);
	child_stop(f.child[0].pid);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[0].srqn, 0, 8, NULL, 1, 0);
	group_send_command(f.child[1].sock, TO_ERROR);
	await_call(f.child[1].pid);
	CHECK_EQ(kill(f.child[0].pid, SIGCONT), 0);
	group_expect(&f, IBV_WC_SUCCESS);
	rc_barrier(f.child[1].sock);
	CHECK_EQ(group_take(&f, 0).byte_len, 8);
	group_run(&f, 1, CLOSE);
	group_end(&f);
}

/* The QP exists until its last handle is closed, in any process; the home moves. */
static void test_inherit(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 1, OPEN);
	group_run(&f, 2, OPEN);
	group_send(&f, 0, 10);
	group_send(&f, 1, 11);
	group_run(&f, 0, CLOSE);
	for (int i = 0; i < TARGETS; i++)
		group_send(&f, i, 20 + i);
	CHECK_EQ(group_query(&f, 2, STATE), IBV_QPS_RTS);
	group_send_command(f.child[0].sock, END);
	child_join(&f.child[0]);
	f.child[0].pid = 0;
	group_send(&f, 1, 30);
	group_send(&f, 2, 40);
	/* The home moves again. */
	group_run(&f, 1, CLOSE);
	CHECK_EQ(group_query(&f, 2, STATE), IBV_QPS_RTS);
	group_send(&f, 1, 50);
	group_send(&f, 2, 60);
	group_run(&f, 2, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 8, NULL, 1, 0);
	group_expect(&f, IBV_WC_RETRY_EXC_ERR);
	group_end(&f);
}

/* The home moves while a stream runs: every message must arrive. */
static void test_move(void)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = 100 + rnd(100);

	group_timeout = LONG_TIMEOUT;
	group_start(&f);
	group_run(&f, 1, OPEN);
	group_run(&f, 1, RECEIVE);
	group_run(&f, 2, RECEIVE);
	while (s.n < MESSAGES) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
		if (s.n == move_at)
			group_send_command(f.child[0].sock, CLOSE);
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	rc_barrier(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		CHECK_EQ(group_stop_stream(&f, i, s.sent[i]), s.sent[i]);
	group_end(&f);
}

static void write_many(struct group *f)
{
	for (uint64_t i = 0; i < WRITES; i++)
		xrc_send(&f->x, IBV_WR_RDMA_WRITE, f->member_info[1].srqn, 0, 8,
			 &f->member_info[1].addr, i, 0);
}

static void expect_many(struct group *f)
{
	for (int i = 0; i < WRITES; i++)
		group_expect(f, IBV_WC_SUCCESS);
}

/*
 * More requests wait for the home than it takes before it moves, and no timeout sends them again.
 * Some before them open the requester's window.
 */
static void test_waiting(void)
{
	struct group f = { 0 };

	group_timeout = NO_TIMEOUT;
	group_home_polls = true;
	group_start(&f);
	group_run(&f, 0, RECEIVE);
	group_run(&f, 1, OPEN);
	for (int i = 0; i < OPENING; i++) {
		write_many(&f);
		expect_many(&f);
	}
	group_stop_stream(&f, 0, 0);
	write_many(&f);
	group_send_command(f.child[0].sock, CLOSE);
	expect_many(&f);
	rc_barrier(f.child[0].sock);
	group_end(&f);
}

/* The home, too, does not run. */
static void freeze(const struct child *c)
{
	__atomic_store_n(&frozen->pid, c->pid, __ATOMIC_RELAXED);
	await_looks(c);
	__atomic_store_n(&frozen->seconds, FROZEN_S, __ATOMIC_RELAXED);
	await_looks(c);
}

/* The process that executes the last request does not run for a while; the home closes its QP. */
static void stop(bool home_too)
{
	struct group f = { 0 };

	group_timeout = NO_TIMEOUT;
	frozen = mmap(NULL, sizeof(*frozen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(frozen != MAP_FAILED);
	group_start(&f);
	group_run(&f, 1, OPEN);
	group_send(&f, 2, 8);
	group_run(&f, 2, POST);
	child_stop(f.child[2].pid);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[2].srqn, 0, 8, NULL, 1, 0);
	CHECK_EQ(group_query(&f, 0, STATE), IBV_QPS_RTS);
	group_send_command(f.child[0].sock, CLOSE);
	if (home_too)
		freeze(&f.child[0]);
	else
		usleep(STOPPED_MS * 1000);
	CHECK_EQ(kill(f.child[2].pid, SIGCONT), 0);
	group_expect(&f, IBV_WC_SUCCESS);
	CHECK_EQ(group_take(&f, 2).status, IBV_WC_SUCCESS);
	rc_barrier(f.child[0].sock);
	CHECK_EQ(group_query(&f, 1, STATE), IBV_QPS_RTS);
	group_send(&f, 2, 100);
	group_end(&f);
}

static void test_stopped(void)
{
	stop(false);
}

static void test_frozen(void)
{
	stop(true);
}

/* The end of a message takes a while to arrive, and the home closes its QP meanwhile. */
static void test_late(void)
{
	struct group f = { 0 };

	group_timeout = NO_TIMEOUT;
	group_start_receivers(&f);
	setenv("VERBENA_FAULTS", "packet tx opcode SEND_LAST delay 1500ms", 1);
	group_connect(&f);
	group_run(&f, 1, OPEN);
	group_run(&f, 2, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[2].srqn, 0, LATE_LEN, NULL, 1, 0);
	CHECK_EQ(group_query(&f, 0, STATE), IBV_QPS_RTS);
	group_send_command(f.child[0].sock, CLOSE);
	group_expect(&f, IBV_WC_SUCCESS);
	CHECK_EQ(group_take(&f, 2).byte_len, LATE_LEN);
	rc_barrier(f.child[0].sock);
	CHECK_EQ(group_query(&f, 1, STATE), IBV_QPS_RTS);
	group_send(&f, 2, 100);
	group_end(&f);
}

/* When the home is killed, its QP ends; processes that have it open get an event. */
static void test_orphan(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 1, OPEN);
	group_send(&f, 1, 100);
	child_kill(&f.child[0]);
	f.child[0].pid = 0;
	CHECK_EQ(group_query(&f, 1, EVENT), IBV_EVENT_QP_FATAL);
	CHECK_EQ(group_query(&f, 1, STATE), -1);
	group_run(&f, 1, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 8, NULL, 1, 0);
	group_expect(&f, IBV_WC_RETRY_EXC_ERR);
	group_end(&f);
}

/* How many processes does this one watch? Each takes a descriptor, and one of 64 watches. */
static int watched(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	CHECK(dir);
	while ((e = readdir(dir))) {
		char link[64] = "";

		if (readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1) > 0)
			n += strstr(link, "[pidfd]") != NULL;
	}
	closedir(dir);
	return n;
}

static struct ibv_qp *open_number(struct xrc *x, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn, .xrcd = x->xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(x->rc.ctx, &attr);
}

/* Creates MANY QPs, and closes them once they are open elsewhere. */
static void many_home(int sock)
{
	struct ibv_qp *qp[MANY];
	struct xrc x;

	alarm(RC_LIMIT_S);
	xrc_open(&x, group_file, O_CREAT);
	for (int i = 0; i < MANY; i++) {
		qp[i] = xrc_recv_qp(&x);
		child_send(sock, &qp[i]->qp_num, sizeof(uint32_t));
	}
	rc_barrier(sock);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	rc_barrier(sock);
	rc_barrier(sock);
	xrc_close(&x);
}

/*
 * A process watches each home once, however many of its QPs it has open, and not any more when it
 * has none: also if it has become their home, and the old one goes on.
 */
static void test_many(void)
{
	struct child home = child_fork(many_home);
	struct ibv_qp *qp[MANY];
	struct xrc x;

	alarm(RC_LIMIT_S);
	xrc_open(&x, group_file, O_CREAT);
	for (int i = 0; i < MANY; i++) {
		uint32_t qpn;

		child_recv(home.sock, &qpn, sizeof(qpn));
		qp[i] = open_number(&x, qpn);
		CHECK(qp[i]);
	}
	CHECK_EQ(watched(), 1);
	rc_barrier(home.sock);
	rc_barrier(home.sock);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	CHECK_EQ(watched(), 0);
	rc_barrier(home.sock);
	child_join(&home);
	xrc_close(&x);
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "OPEN", test_open },          { "ESTABLISHED", test_established },
		{ "MODIFY", test_open_modify }, { "INHERIT", test_inherit },
		{ "MOVE", test_move },          { "ORPHAN", test_orphan },
		{ "WAITING", test_waiting },    { "STOPPED", test_stopped },
		{ "FROZEN", test_frozen },      { "LATE", test_late },
		{ "ARRIVED", test_arrived },    { "MANY", test_many },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
