/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_destroy_srq() of an XRC SRQ of which a message in progress has taken an entry: it succeeds
 * and does not wait for the message's end, which may never come. The rest of it is refused.
 *
 *	KILLED [TRANSPORT]		the sender is killed; the SRQ is the home's
 *	KILLED_BESIDE [TRANSPORT]	the same, of another process than the home
 *	LIVE, LIVE_BESIDE [TRANSPORT]	the sender lives
 *
 * A message may end too soon; each case is repeated until some have not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xrc_group.h"

enum {
	LEN = 32 << 20,
	SEEN = 1 << 20,	/* of it, when the SRQ is destroyed */
	UNFINISHED = 3,	/* messages at least */
};

static bool live, beside;

/* What the sender has to know. */
struct target {
	struct rc_addr addr;
	uint32_t srqn;
};

static void send_one(int sock)
{
	struct rc_addr own;
	struct xrc x = { 0 };
	struct target to;
	struct ibv_wc wc;

	alarm(RC_LIMIT_S);
	rc_open(&x.rc, LEN);
	memset(x.rc.buf, 1, LEN);
	x.qp = xrc_send_qp(&x);
	own = rc_address(&x.rc, x.qp);
	child_send(sock, &own, sizeof(own));
	child_recv(sock, &to, sizeof(to));
	rc_connect(&x.rc, x.qp, &to.addr, LONG_TIMEOUT, RETRIES);
	xrc_send(&x, IBV_WR_SEND, to.srqn, 0, LEN, NULL, 1, 0);
	wc = xrc_wait(x.rc.cq);
	child_send(sock, &wc, sizeof(wc));
	CHECK_EQ(ibv_destroy_qp(x.qp), 0);
	rc_close(&x.rc);
}

static struct rc_addr connect_home(struct xrc *x, int sock)
{
	struct rc_addr own, sender;

	x->qp = xrc_recv_qp(x);
	own = rc_address(&x->rc, x->qp);
	child_recv(sock, &sender, sizeof(sender));
	rc_connect(&x->rc, x->qp, &sender, LONG_TIMEOUT, RETRIES);
	return own;
}

static void be_home(int sock)
{
	struct rc_addr own;
	struct xrc x;

	alarm(RC_LIMIT_S);
	xrc_open(&x, group_file, O_CREAT);
	own = connect_home(&x, sock);
	child_send(sock, &own, sizeof(own));
	rc_barrier(sock);
	xrc_close(&x);
}

static struct ibv_mr *post_long(struct xrc *x, char *buf)
{
	struct ibv_mr *mr = ibv_reg_mr(x->rc.pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buf, LEN, mr ? mr->lkey : 0 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(mr);
	CHECK_EQ(ibv_post_srq_recv(x->srq, &wr, &bad), 0);
	return mr;
}

/* It looks at a message while it comes, which ThreadSanitizer takes for a race. */
static __attribute__((no_sanitize_thread)) bool is_seen(const volatile char *buf)
{
	return buf[SEEN];
}

/* Returns whether the message has ended. */
static bool destroy_in_between(struct xrc *x, struct child *sender, const char *buf)
{
	struct ibv_wc wc;
	int n = 0;

	while (!is_seen(buf) && !n)
		n = ibv_poll_cq(x->cq, 1, &wc);
	if (!live)
		child_kill(sender);
	CHECK_EQ(ibv_destroy_srq(x->srq), 0);
	x->srq = NULL;
	if (!n)
		n = ibv_poll_cq(x->cq, 1, &wc);
	if (n)
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	if (!live)
		return n;
	child_recv(sender->sock, &wc, sizeof(wc));
	child_join(sender);
	if (wc.status == IBV_WC_SUCCESS)
		return true;
	CHECK_EQ(n, 0);
	CHECK_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
	return false;
}

/* One message; tells whether it has ended. Has no threads when it forks. */
static void attempt(int sock)
{
	struct child sender = child_fork(send_one), home = { 0 };
	char *buf = calloc(1, LEN);
	struct rc_addr from;
	struct target to;
	struct ibv_mr *mr;
	struct xrc x;
	bool ended;

	alarm(RC_LIMIT_S);
	CHECK(buf);
	if (beside)
		home = child_fork(be_home);
	xrc_open(&x, group_file, O_CREAT);
	mr = post_long(&x, buf);
	if (beside) {
		child_recv(sender.sock, &from, sizeof(from));
		child_send(home.sock, &from, sizeof(from));
		child_recv(home.sock, &to.addr, sizeof(to.addr));
	} else {
		to.addr = connect_home(&x, sender.sock);
	}
	to.srqn = x.srqn;
	child_send(sender.sock, &to, sizeof(to));
	ended = destroy_in_between(&x, &sender, buf);
	if (beside) {
		rc_barrier(home.sock);
		child_join(&home);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	xrc_close(&x);
	free(buf);
	child_send(sock, &ended, sizeof(ended));
}

static void test_killed(void)
{
	int unfinished = 0;

	alarm(RC_LIMIT_S);
	while (unfinished < UNFINISHED) {
		struct child c = child_fork(attempt);
		bool ended;

		child_recv(c.sock, &ended, sizeof(ended));
		child_join(&c);
		unfinished += !ended;
	}
}

static void test_killed_beside(void)
{
	beside = true;
	test_killed();
}

static void test_live(void)
{
	live = true;
	test_killed();
}

static void test_live_beside(void)
{
	live = beside = true;
	test_killed();
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "KILLED", test_killed },
		{ "KILLED_BESIDE", test_killed_beside },
		{ "LIVE", test_live },
		{ "LIVE_BESIDE", test_live_beside },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
