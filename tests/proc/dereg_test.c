/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deregistration races with remote access: one process writes into a region of another as fast as it can while that deregisters it.  What
 * ibv_dereg_mr has returned for never changes again, and the writer gets its error.  The same for ibv_rereg_mr, and for a region that stays
 * while the QP is destroyed.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	SIZE = 32768,
	ROUNDS = 60,
	TIMEOUT = 10,
	RETRIES = 3,
	LIMIT_S = 60,
	LOOKS = 50,
	REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC,
};

/* Written by the attacker, read by the victim: how far it has come. */
static volatile uint32_t *progress;

static void attack(int sock)
{
	struct ibv_qp *first;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIMIT_S);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int round = 0; round < ROUNDS; round++) {
		struct rc_addr peer;
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		memset(rc.buf, 0x55, SIZE);
		while (wc.status == IBV_WC_SUCCESS) {
			CHECK(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, SIZE, &peer, 0) == 0);
			wc = rc_wait(&rc);
			++*progress;
		}
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
		rc_meet(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = first;
	rc_close(&rc);
}

static void wait_for_writes(void)
{
	uint32_t seen = *progress;

	while (*progress - seen < 3)
		;
}

/* The memory is the program's own again. */
static void want_quiet(struct rc *rc)
{
	memset(rc->buf, 0xaa, SIZE);
	for (int look = 0; look < LOOKS; look++)
		for (int i = 0; i < SIZE; i += 64)
			CHECK((uint8_t)rc->buf[i] == 0xaa);
}

static void end_access(struct rc *rc, int round, void *elsewhere)
{
	switch (round % 3) {
	case 0:
		CHECK(ibv_dereg_mr(rc->mr) == 0);
		break;
	case 1:
		/* The same region elsewhere: the old address is out of it. */
		CHECK(ibv_rereg_mr(rc->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere,
				   4096, 0) == 0);
		break;
	default:
		CHECK(ibv_destroy_qp(rc->qp) == 0);
		rc->qp = NULL;
	}
}

static void defend(int sock)
{
	struct ibv_qp *first;
	struct rc rc;
	void *elsewhere = calloc(1, 4096);

	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int round = 0; round < ROUNDS; round++) {
		struct rc_addr peer;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		wait_for_writes();
		end_access(&rc, round, elsewhere);
		want_quiet(&rc);
		if (rc.qp == NULL || round % 3 == 1)
			CHECK(ibv_dereg_mr(rc.mr) == 0);
		rc_meet(sock);
		if (rc.qp)
			CHECK(ibv_destroy_qp(rc.qp) == 0);
		rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, REMOTE);
		CHECK(rc.mr);
	}
	rc.qp = first;
	rc_close(&rc);
	free(elsewhere);
}

int main(void)
{
	int sock[2], status;
	pid_t attacker;

	alarm(LIMIT_S);
	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(progress != MAP_FAILED);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	attacker = fork();
	CHECK(attacker >= 0);
	if (attacker == 0) {
		attack(sock[1]);
		exit(0);
	}
	close(sock[1]);
	defend(sock[0]);
	CHECK(waitpid(attacker, &status, 0) == attacker);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}
