/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deregistration races with remote access: one process writes into a region of another as fast as
 * it can while that deregisters it.  What ibv_dereg_mr has returned for never changes again, and
 * the writer gets its error.  The same for ibv_rereg_mr, for a region that stays while the QP is
 * destroyed, and for memory windows that are invalidated, unbound or deallocated.
 */
#include <signal.h>
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
	LOOKS = 50,
	REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

/* Written by the attacker, read by the victim: how far it has come. */
static volatile uint32_t *progress;

static void attack(int sock)
{
	struct ibv_qp *first;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int round = 0; round < ROUNDS; round++) {
		struct rc_addr peer;
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		CHECK(read(sock, &peer.rkey, sizeof(peer.rkey)) == sizeof(peer.rkey));
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

enum way { DEREG, REREG, DESTROY_QP, INVALIDATE, UNBIND, DEALLOC_MW, WAYS };

static struct ibv_mw *mw;	/* bound to the whole region in the last three */

static void want_success(struct rc *rc)
{
	CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
}

/* Type 1 in UNBIND, else type 2, which is bound and invalidated by work requests of the QP. */
static void bind_window(struct rc *rc, enum way way, uint64_t length)
{
	struct ibv_mw_bind_info info = {
		.mr = rc->mr, .addr = (uintptr_t)rc->buf, .length = length,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_mw_bind bind = { .bind_info = info };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW };

	if (way == UNBIND) {
		CHECK(ibv_bind_mw(rc->qp, mw, &bind) == 0);
	} else {
		mw->rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey;
		wr.bind_mw.bind_info = info;
		CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	}
	want_success(rc);
}

static void invalidate(struct rc *rc)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey };

	CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	want_success(rc);
}

/* The key that the attacker shall use. */
static uint32_t begin_access(struct rc *rc, enum way way)
{
	if (way < INVALIDATE)
		return rc->mr->rkey;
	mw = ibv_alloc_mw(rc->pd, way == UNBIND ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	CHECK(mw);
	bind_window(rc, way, SIZE);
	return mw->rkey;
}

static void end_access(struct rc *rc, enum way way, void *elsewhere)
{
	switch (way) {
	case DEREG:
		CHECK(ibv_dereg_mr(rc->mr) == 0);
		break;
	case REREG:
		/* The same region elsewhere: the old address is out of it. */
		CHECK(ibv_rereg_mr(rc->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere,
				   4096, 0) == 0);
		break;
	case DESTROY_QP:
		CHECK(ibv_destroy_qp(rc->qp) == 0);
		rc->qp = NULL;
		break;
	case INVALIDATE:
		invalidate(rc);
		break;
	case UNBIND:
		bind_window(rc, way, 0);
		break;
	default:
		CHECK(ibv_dealloc_mw(mw) == 0);
		mw = NULL;
	}
}

/* What end_access() left. */
static void clean_up(struct rc *rc, enum way way)
{
	if (rc->qp)
		CHECK(ibv_destroy_qp(rc->qp) == 0);
	if (mw)
		CHECK(ibv_dealloc_mw(mw) == 0);
	mw = NULL;
	if (way != DEREG)
		CHECK(ibv_dereg_mr(rc->mr) == 0);
}

static void defend(int sock)
{
	struct ibv_qp *first;
	struct rc rc;
	void *elsewhere = calloc(1, 4096);

	rc_open(&rc, SIZE);
	first = rc.qp;
	CHECK(ibv_dereg_mr(rc.mr) == 0);
	rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, REMOTE);
	CHECK(rc.mr);
	for (int round = 0; round < ROUNDS; round++) {
		enum way way = round % WAYS;
		struct rc_addr peer;
		uint32_t rkey;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		rkey = begin_access(&rc, way);
		CHECK(write(sock, &rkey, sizeof(rkey)) == sizeof(rkey));
		wait_for_writes();
		end_access(&rc, way, elsewhere);
		want_quiet(&rc);
		rc_meet(sock);
		clean_up(&rc, way);
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

	alarm(RC_LIMIT_S);
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
