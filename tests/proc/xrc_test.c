/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain of several processes: messages, remote memory access, SRQs, and the life of the
 * domain itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rnd.h"
#include "xrc_group.h"

enum { READ_LEN = 800000 }; /* more READ responses than a lane or an inbox can hold */

/* Messages of many sizes to random receivers, many in flight: all must arrive in order. */
static void run_stream(uint32_t messages)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };

	group_timeout = LONG_TIMEOUT;
	group_start(&f);
	group_run_all(&f, RECEIVE);
	while (s.n < messages) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	for (int i = 0; i < TARGETS; i++)
		CHECK_EQ(group_stop_stream(&f, i, s.sent[i]), s.sent[i]);
	group_end(&f);
}

static void test_stream(void)
{
	run_stream(MESSAGES);
}

/*
 * With one receive at a time, RNR NAKs send the initiator back again and again, and what it left to
 * be fetched comes as packets with PSNs of their own, while the home keeps requests with the old
 * ones.
 */
static void test_rnr(void)
{
	group_recvs = 1;
	run_stream(10 * MESSAGES);
}

/*
 * WRITE, READ, atomics and WRITE with immediate access the memory of the SRQ's process and use its
 * keys.
 */
static void test_memory(void)
{
	struct group f = { 0 };
	uint64_t *local;

	group_start(&f);
	local = (uint64_t *)f.x.rc.buf;
	for (int i = 0; i < TARGETS; i++) {
		uint32_t srqn = f.member_info[i].srqn;
		const struct rc_addr *at = &f.member_info[i].addr;
		struct ibv_wc wc;

		local[0] = 1000 + i;
		xrc_send(&f.x, IBV_WR_RDMA_WRITE, srqn, 0, 20000, at, 1, 0);
		group_expect(&f, IBV_WC_SUCCESS);
		CHECK_EQ(group_read_word(&f, i), 1000 + i);
		xrc_send(&f.x, IBV_WR_ATOMIC_FETCH_AND_ADD, srqn, 8, 8, at, 2, 0);
		group_expect(&f, IBV_WC_SUCCESS);
		CHECK_EQ(local[1], 1000 + i);
		xrc_send(&f.x, IBV_WR_RDMA_READ, srqn, XRC_SLOT, READ_LEN, at, 3, 0);
		group_expect(&f, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint64_t *)xrc_buffer(&f.x, 1), 1001 + i);
		group_run(&f, i, POST);
		xrc_send(&f.x, IBV_WR_RDMA_WRITE_WITH_IMM, srqn, 0, 5000, at, 4, 0);
		group_expect(&f, IBV_WC_SUCCESS);
		wc = group_take(&f, i);
		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQ(wc.imm_data, 4);
		CHECK_EQ(wc.byte_len, 5000);
	}
	/* A key of one process is not valid at the SRQ of another. */
	xrc_send(&f.x, IBV_WR_RDMA_WRITE, f.member_info[1].srqn, 0, 8, &f.member_info[2].addr, 5,
		 0);
	group_expect(&f, f.member_info[1].addr.rkey == f.member_info[2].addr.rkey
				 ? IBV_WC_SUCCESS
				 : IBV_WC_REM_ACCESS_ERR);
	group_end(&f);
}

/* An SRQ: empty, at its limit, with solicited events, with a receive that is too short. */
static void test_queue(void)
{
	struct group f = { 0 };
	struct ibv_wc wc;

	group_start(&f);
	/* RNR NAK until there is a receive. */
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 100, NULL, 1, 0);
	group_run(&f, 1, POST);
	group_expect(&f, IBV_WC_SUCCESS);
	CHECK_EQ(group_take(&f, 1).byte_len, 100);
	/* The limit event is raised when the last receive is taken. */
	group_run(&f, 2, POST);
	group_run(&f, 2, ARM_LIMIT);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[2].srqn, 0, 8, NULL, 2, 0);
	group_expect(&f, IBV_WC_SUCCESS);
	rc_barrier(f.child[2].sock);
	CHECK_EQ(group_take(&f, 2).byte_len, 8);
	/* Only a solicited completion wakes the receiver. */
	group_run(&f, 1, POST);
	group_run(&f, 1, POST);
	group_run(&f, 1, SLEEP);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 9, NULL, 3, 0);
	group_expect(&f, IBV_WC_SUCCESS);
	CHECK(!member_has_command(f.child[1].sock));
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 10, NULL, 4, IBV_SEND_SOLICITED);
	group_expect(&f, IBV_WC_SUCCESS);
	rc_barrier(f.child[1].sock);
	CHECK_EQ(group_take(&f, 1).byte_len, 9);
	CHECK_EQ(group_take(&f, 1).byte_len, 10);
	/* A message longer than its receive fails at both ends. */
	group_run(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, XRC_SLOT + 1, NULL, 5, 0);
	group_expect(&f, IBV_WC_REM_INV_REQ_ERR);
	wc = group_take(&f, 1);
	CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	group_end(&f);
}

/* A process closes and reopens the domain while the responder's state is delegated to it. */
static void test_again(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_send(&f, 1, 100);
	f.member_info[1].srqn = (uint32_t)group_query(&f, 1, REOPEN);
	group_send(&f, 1, 200);
	group_send(&f, 0, 300);
	group_send(&f, 1, 400);
	group_end(&f);
}

/* Requests that name a destroyed SRQ are refused. */
static void test_gone_srq(void)
{
	struct group f = { 0 };

	group_start(&f);
	group_run(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 100, NULL, 1, 0);
	group_expect(&f, IBV_WC_SUCCESS);
	group_take(&f, 1);
	group_run(&f, 1, DROP_SRQ);
	xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 100, NULL, 2, 0);
	group_expect(&f, IBV_WC_REM_INV_REQ_ERR);
	group_end(&f);
}

/* A member dies that has a request and has not begun it: it is refused. */
static void kill_with_request(struct group *f)
{
	child_stop(f->child[1].pid);
	xrc_send(&f->x, IBV_WR_SEND, f->member_info[1].srqn, 0, 100, NULL, 1, 0);
	child_kill(&f->child[1]);
	f->child[1].pid = 0;
	group_expect(f, IBV_WC_REM_INV_REQ_ERR);
}

/*
 * The owner of an SRQ is stopped for longer than the retries take, and then continues: no request
 * fails. The next time it is killed.
 */
static void test_stopped(void)
{
	enum { SENDS = 3, STOPPED_MS = 1000 };
	struct group f = { 0 };
	uint64_t until;
	struct ibv_wc wc;

	group_start(&f);
	group_send(&f, 1, 100);
	for (int i = 0; i < SENDS + 1; i++)
		group_run(&f, 1, POST);
	child_stop(f.child[1].pid);
	for (uint64_t i = 0; i < SENDS; i++)
		xrc_send(&f.x, IBV_WR_SEND, f.member_info[1].srqn, 0, 100, NULL, i, 0);
	for (until = ms_now() + STOPPED_MS; ms_now() < until;)
		CHECK_EQ(ibv_poll_cq(f.x.rc.cq, 1, &wc), 0);
	CHECK(kill(f.child[1].pid, SIGCONT) == 0);
	for (int i = 0; i < SENDS; i++) {
		group_expect(&f, IBV_WC_SUCCESS);
		CHECK_EQ(group_take(&f, 1).status, IBV_WC_SUCCESS);
	}
	kill_with_request(&f);
	group_end(&f);
}

/* Wake-ups of all threads of a process, which may end meanwhile. */
static unsigned long wakeups_of(pid_t pid)
{
	unsigned long n, sum = 0;
	char path[64], line[256];
	glob_t tasks;

	snprintf(path, sizeof(path), "/proc/%d/task/*/status", pid);
	CHECK_EQ(glob(path, 0, NULL, &tasks), 0);
	for (size_t i = 0; i < tasks.gl_pathc; i++) {
		FILE *status = fopen(tasks.gl_pathv[i], "r");

		while (status && fgets(line, sizeof(line), status))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		if (status)
			fclose(status);
	}
	globfree(&tasks);
	return sum;
}

static unsigned long wakeups_in_a_second(pid_t pid)
{
	unsigned long before = wakeups_of(pid);

	sleep(1);
	return wakeups_of(pid) - before;
}

static void wait_until_calm(pid_t pid, unsigned long wakeups)
{
	enum { SECONDS = 20 };
	int i;

	for (i = 0; i < SECONDS && wakeups_in_a_second(pid) > wakeups; i++)
		;
	CHECK(i < SECONDS);
}

enum { READS = 4 };

/* The requester has no progress thread: it is as good as stopped while it does not poll. */
static void start_reads(struct group *f)
{
	group_timeout = NO_TIMEOUT;
	group_start_receivers(f);
	setenv("VERBENA_PROGRESS", "none", 1);
	group_connect(f);
	group_send(f, 1, 100);
	for (int i = 0; i < READS; i++)
		xrc_send(&f->x, IBV_WR_RDMA_READ, f->member_info[1].srqn, 0, XRC_RECVS * XRC_SLOT,
			 &f->member_info[1].addr, i, 0);
}

/*
 * The owner waits for a requester that does not take its answers: at first it looks often whether
 * there is room for more.
 */
static void test_patient(void)
{
	enum { FEW = 100 };
	struct group f = { 0 };

	start_reads(&f);
	wait_until_calm(f.child[1].pid, FEW);
	for (int i = 0; i < READS; i++)
		group_expect(&f, IBV_WC_SUCCESS);
	group_end(&f);
}

/* The home dies meanwhile: then there is nothing to wait for. */
static void test_orphan(void)
{
	enum { NONE = 3 };	/* but for what comes from outside */
	struct group f = { 0 };

	start_reads(&f);
	wait_until_calm(f.child[1].pid, 1000);
	child_kill(&f.child[0]);
	f.child[0].pid = 0;
	wait_until_calm(f.child[1].pid, NONE);
	group_end(&f);
}

/*
 * The owner dies before it has executed a request, and nothing is sent again for a timeout: the
 * home must notice, and the requester gets its error.
 */
static void test_gone_without_timeout(void)
{
	struct group f = { 0 };

	group_timeout = NO_TIMEOUT;
	group_start(&f);
	group_send(&f, 1, 100);
	kill_with_request(&f);
	group_end(&f);
}

static void hold_domain(int sock)
{
	struct xrc x = { 0 };
	char c;

	alarm(RC_LIMIT_S);
	rc_open(&x.rc, 4096);
	CHECK(xrc_open_domain(&x, group_file, O_CREAT | O_EXCL));
	rc_barrier(sock);
	child_recv(sock, &c, 1);
	_exit(0);
}

/* A domain exists while any process has it open, and O_EXCL looks at all of them. */
static void test_domain(void)
{
	struct xrc x = { 0 };
	struct ibv_xrcd *d;
	struct child c;

	alarm(RC_LIMIT_S);
	c = child_fork(hold_domain);
	rc_barrier(c.sock);
	rc_open(&x.rc, 4096);
	CHECK(!xrc_open_domain(&x, group_file, O_CREAT | O_EXCL));
	CHECK_EQ(errno, EEXIST);
	d = xrc_open_domain(&x, group_file, 0);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	child_kill(&c);
	CHECK(!xrc_open_domain(&x, group_file, 0));
	CHECK_EQ(errno, ENOENT);
	d = xrc_open_domain(&x, group_file, O_CREAT | O_EXCL);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	rc_close(&x.rc);
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "DOMAIN", test_domain },
		{ "STREAM", test_stream },
		{ "RNR", test_rnr },
		{ "MEMORY", test_memory },
		{ "QUEUE", test_queue },
		{ "GONE", test_gone_srq },
		{ "AGAIN", test_again },
		{ "STOPPED", test_stopped },
		{ "PATIENT", test_patient },
		{ "ORPHAN", test_orphan },
		{ "GONE_NO_TIMEOUT", test_gone_without_timeout },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
