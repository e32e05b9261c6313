/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Revocation of access races with remote access. One process writes to a region of another as fast
 * as it can while the owner revokes the access: by ibv_dereg_mr, by ibv_rereg_mr, by destroying the
 * QP or taking its rights, or by invalidating, unbinding or deallocating a memory window. After the
 * call has returned the memory must not change any more, and the writer's request must fail.
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
	SIZE = 4 << 20,		/* takes long enough that it is revoked in between */
	ROUNDS = 64,
	TIMEOUT = 10,
	RETRIES = 3,
	SCANS = 50,
	REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

/* Counts the writer's completed requests; the owner waits until it grows. */
static volatile uint32_t *completed_writes;

static void write_until_error(int sock)
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
			++*completed_writes;
		}
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_RETRY_EXC_ERR ||
		      wc.status == IBV_WC_REM_INV_REQ_ERR);
		rc_barrier(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = first;
	rc_close(&rc);
}

/* Returns while a WRITE is going on: it has stored the first byte, and hardly more. */
static void wait_for_writes(struct rc *rc)
{
	volatile char *first = rc->buf;
	uint32_t seen = *completed_writes;

	while (*completed_writes - seen < 3)
		;
	*first = 0;
	while (*first == 0)
		;
}

/*
 * Marks the buffer, first what a WRITE reaches last, and checks that none changes it any more.
 */
static void expect_unchanged(struct rc *rc)
{
	for (int i = SIZE - 64; i >= 0; i -= 64)
		rc->buf[i] = (char)0xaa;
	for (int scan = 0; scan < SCANS; scan++)
		for (int i = 0; i < SIZE; i += 64)
			CHECK((uint8_t)rc->buf[i] == 0xaa);
}

enum revocation {
	DEREG, REREG, RIGHTS, DESTROY_QP, QP_RIGHTS, INVALIDATE, UNBIND, DEALLOC_MW, REVOCATIONS
};

static struct ibv_mw *mw;	/* bound to the whole region in the last three */

static void expect_success(struct rc *rc)
{
	CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
}

/* UNBIND uses a type 1 window; the others use type 2, bound and invalidated by work requests. */
static void bind_window(struct rc *rc, enum revocation revocation, uint64_t length)
{
	struct ibv_mw_bind_info info = {
		.mr = rc->mr, .addr = (uintptr_t)rc->buf, .length = length,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_mw_bind bind = { .bind_info = info };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW };

	if (revocation == UNBIND) {
		CHECK(ibv_bind_mw(rc->qp, mw, &bind) == 0);
	} else {
		mw->rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey;
		wr.bind_mw.bind_info = info;
		CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	}
	expect_success(rc);
}

static void invalidate(struct rc *rc)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey };

	CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	expect_success(rc);
}

/* Returns the rkey that the writer is to use. */
static uint32_t grant_access(struct rc *rc, enum revocation revocation)
{
	if (revocation < INVALIDATE)
		return rc->mr->rkey;
	mw = ibv_alloc_mw(rc->pd, revocation == UNBIND ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	CHECK(mw);
	bind_window(rc, revocation, SIZE);
	return mw->rkey;
}

static void revoke_access(struct rc *rc, enum revocation revocation, void *other_buffer)
{
	struct ibv_qp_attr no_rights = { .qp_access_flags = 0 };

	switch (revocation) {
	case DEREG:
		CHECK(ibv_dereg_mr(rc->mr) == 0);
		break;
	case REREG:
		/* The region moves to another buffer and no longer contains the old address. */
		CHECK(ibv_rereg_mr(rc->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other_buffer,
				   4096, 0) == 0);
		break;
	case RIGHTS:
		CHECK(ibv_rereg_mr(rc->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				   REMOTE & ~IBV_ACCESS_REMOTE_WRITE) == 0);
		break;
	case DESTROY_QP:
		CHECK(ibv_destroy_qp(rc->qp) == 0);
		rc->qp = NULL;
		break;
	case QP_RIGHTS:
		CHECK(ibv_modify_qp(rc->qp, &no_rights, IBV_QP_ACCESS_FLAGS) == 0);
		break;
	case INVALIDATE:
		invalidate(rc);
		break;
	case UNBIND:
		bind_window(rc, revocation, 0);
		break;
	default:
		CHECK(ibv_dealloc_mw(mw) == 0);
		mw = NULL;
	}
}

/* Destroys what revoke_access() left. */
static void clean_up(struct rc *rc, enum revocation revocation)
{
	if (rc->qp)
		CHECK(ibv_destroy_qp(rc->qp) == 0);
	if (mw)
		CHECK(ibv_dealloc_mw(mw) == 0);
	mw = NULL;
	if (revocation != DEREG)
		CHECK(ibv_dereg_mr(rc->mr) == 0);
}

static void own_region(int sock)
{
	struct ibv_qp *first;
	struct rc rc;
	void *other_buffer = calloc(1, 4096);

	rc_open(&rc, SIZE);
	first = rc.qp;
	CHECK(ibv_dereg_mr(rc.mr) == 0);
	rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, REMOTE);
	CHECK(rc.mr);
	for (int round = 0; round < ROUNDS; round++) {
		enum revocation revocation = round % REVOCATIONS;
		struct rc_addr peer;
		uint32_t rkey;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		rkey = grant_access(&rc, revocation);
		CHECK(write(sock, &rkey, sizeof(rkey)) == sizeof(rkey));
		wait_for_writes(&rc);
		revoke_access(&rc, revocation, other_buffer);
		expect_unchanged(&rc);
		rc_barrier(sock);
		clean_up(&rc, revocation);
		rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, REMOTE);
		CHECK(rc.mr);
	}
	rc.qp = first;
	rc_close(&rc);
	free(other_buffer);
}

int main(void)
{
	int sock[2], status;
	pid_t writer;

	alarm(RC_LIMIT_S);
	completed_writes =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(completed_writes != MAP_FAILED);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	writer = fork();
	CHECK(writer >= 0);
	if (writer == 0) {
		write_until_error(sock[1]);
		exit(0);
	}
	close(sock[1]);
	own_region(sock[0]);
	CHECK(waitpid(writer, &status, 0) == writer);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}
