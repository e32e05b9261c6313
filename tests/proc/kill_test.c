/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process exchanges requests with one peer after another (VERBENA_RUNS of them), and each peer
 * is killed at a random point. The survivor's requests must fail within the QP's timeouts and its
 * other work requests must be flushed; then it continues with the next peer. In the end the run
 * directory must hold no files of dead processes.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fork_settled.h"
#include "rc.h"
#include "rnd.h"

enum {
	RUNS = 60,
	SIZE = 1 << 20,
	DEPTH = 8,
	RECVS = 16,
	TIMEOUT = 6, /* with 3 retries, requests fail after some milliseconds */
	RETRIES = 3,
	RECV_ID = 1 << 30,
};

static void post_request(struct rc *rc, const struct rc_addr *peer, uint64_t wr_id)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	static const uint32_t lens[] = { 8, 64, 2000, 3000, 65536, SIZE };
	uint32_t op = rnd(5);

	if (op == 4)
		CHECK(rc_post_fetch_add(rc, rc->qp, 1, peer, wr_id) == 0);
	else
		CHECK(rc_post_send(rc, rc->qp, ops[op], lens[rnd(6)], peer, wr_id) == 0);
}

struct traffic {
	struct rc *rc;
	struct rc_addr peer;
	bool requests;
	int sends, recvs;	/* outstanding */
};

static void refill(struct traffic *l)
{
	for (; l->recvs < RECVS; l->recvs++)
		rc_post_recv(l->rc, l->rc->qp, RECV_ID);
	for (; l->requests && l->sends < DEPTH; l->sends++)
		post_request(l->rc, &l->peer, 0);
}

/* True if there was a completion; sets *failed if it is an error. */
static bool poll_one(struct traffic *l, bool *failed)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(l->rc->cq, 1, &wc);

	CHECK(n >= 0);
	if (n == 0)
		return false;
	if (wc.wr_id == RECV_ID)
		l->recvs--;
	else
		l->sends--;
	CHECK(l->sends >= 0 && l->recvs >= 0);
	*failed = wc.status != IBV_WC_SUCCESS;
	return true;
}

static void exchange_for_ever(struct traffic *l)
{
	bool failed;

	for (;;) {
		refill(l);
		while (poll_one(l, &failed))
			CHECK(!failed);
	}
}

static void run_victim(int sock, bool requests, bool shared)
{
	struct traffic l = { .requests = requests };
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	if (shared)
		rc_share(&rc);
	l.rc = &rc;
	refill(&(struct traffic){ .rc = &rc });
	l.recvs = RECVS;
	rc_pair(&rc, sock, &l.peer, TIMEOUT, 7);
	exchange_for_ever(&l);
}

/*
 * Exchanges requests until the victim is killed, then until a request fails. Without requests no
 * error reports the death, and the loop ends at once.
 */
static void survive_kill(struct traffic *l, pid_t victim)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint32_t before = rnd(2000);
	bool failed = false, dead = false;

	for (uint32_t polls = 0; !failed; polls++) {
		if (!dead)
			refill(l);
		poll_one(l, &failed);
		if (polls == before) {
			CHECK(kill(victim, SIGKILL) == 0);
			CHECK(waitpid(victim, NULL, 0) == victim);
			dead = true;
			if (l->requests && l->sends == 0) {
				post_request(l->rc, &l->peer, 0);
				l->sends++;
			}
		}
		if (dead && (!l->requests || l->sends == 0))
			break;
	}
	CHECK(dead);
	CHECK(ibv_modify_qp(l->rc->qp, &attr, IBV_QP_STATE) == 0);
	while (l->sends + l->recvs)
		poll_one(l, &failed);
}

static void run_once(struct rc *rc)
{
	uint32_t roles = 1 + rnd(3);
	bool shared = rnd(2); /* the survivor can map the victim's memory */
	struct traffic l = { .rc = rc, .requests = roles & 1 };
	int sock[2];
	pid_t victim;

	alarm(RC_LIMIT_S);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	fflush(NULL);
	victim = fork_settled();
	CHECK(victim >= 0);
	if (victim == 0) {
		close(sock[0]);
		run_victim(sock[1], roles & 2, shared);
	}
	close(sock[1]);
	rc->qp = rc_new_qp(rc);
	for (; l.recvs < RECVS; l.recvs++)
		rc_post_recv(rc, rc->qp, RECV_ID);
	rc_pair(rc, sock[0], &l.peer, TIMEOUT, RETRIES);
	survive_kill(&l, victim);
	CHECK(ibv_destroy_qp(rc->qp) == 0);
	close(sock[0]);
}

int main(void)
{
	const char *runs = getenv("VERBENA_RUNS");
	long n = runs ? strtol(runs, NULL, 0) : RUNS;
	struct ibv_qp *first;
	struct rc rc;

	rnd_start();
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (long i = 0; i < n; i++) {
		if (i == n / 2)
			rc_share(&rc);
		run_once(&rc);
	}
	rc.qp = first;
	rc_close(&rc);
	/* Opening and closing a device both remove the files of dead processes. */
	rc_open(&rc, SIZE);
	rc_close(&rc);
	CHECK(rc_slot_files() == 0);
	printf("%ld processes were killed\n", n);
	return 0;
}
