/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_rereg_mr() of access rights while another process uses the region: no request fails that old
 * and new rights allow, and none succeeds that the new ones do not. (dereg_test: nothing is stored
 * after rights were taken.)
 *
 *	KEPT [TRANSPORT]	READs while all other rights come and go
 *	SHARED [TRANSPORT]	the same in memory that the reader may map
 *	TAKEN [TRANSPORT]	WRITEs after the right was taken, and given back
 */
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	SIZE = 1 << 16,
	READS = 20000,
	ROUNDS = 20,
	TIMEOUT = 18,	/* no request may fail on a busy machine */
	RETRIES = 7,
	READ_ONLY = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	ALL = READ_ONLY | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

static bool shared;

static void set_rights(struct rc *rc, int access)
{
	uint32_t rkey = rc->mr->rkey;

	CHECK_EQ(ibv_rereg_mr(rc->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access), 0);
	CHECK_EQ(rc->mr->rkey, rkey);
}

static bool told(int sock)
{
	char c;

	return recv(sock, &c, 1, MSG_DONTWAIT) == 1;
}

/* Changes the rights until it is told to stop. */
static void change_rights(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	if (shared)
		rc_share(&rc);
	memset(rc.buf, 0x5a, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	do {
		set_rights(&rc, READ_ONLY);
		sched_yield();
		set_rights(&rc, ALL);
		sched_yield();
	} while (!told(sock));
	rc_barrier(sock);
	rc_close(&rc);
}

static void test_kept(void)
{
	static const uint32_t lengths[] = { 8, 30000 };
	struct rc_addr peer;
	struct child owner;
	struct rc rc;

	owner = child_fork(change_rights);
	rc_open(&rc, SIZE);
	rc_pair(&rc, owner.sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < READS; i++) {
		uint32_t len = lengths[i % 2];

		rc.buf[len - 1] = 0;
		CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_READ, len, &peer, i), 0);
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		CHECK_EQ(rc.buf[len - 1], 0x5a);
	}
	rc_tell(owner.sock);
	rc_barrier(owner.sock);
	child_join(&owner);
	rc_close(&rc);
}

static void test_shared(void)
{
	shared = true;
	test_kept();
}

/* Takes the right to WRITE and gives it back, in every round for a new QP. */
static void take_right(int sock)
{
	struct rc_addr peer;
	struct ibv_qp *first;
	struct rc rc;

	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int round = 0; round < ROUNDS; round++) {
		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		rc_barrier(sock);	/* it has written */
		set_rights(&rc, READ_ONLY);
		memset(rc.buf, 0x11, SIZE);
		rc_barrier(sock);
		rc_barrier(sock);	/* it has been refused */
		for (int i = 0; i < SIZE; i++)
			CHECK_EQ(rc.buf[i], 0x11);
		CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
		set_rights(&rc, ALL);
	}
	rc.qp = first;
	rc_close(&rc);
}

static void test_taken(void)
{
	struct rc_addr peer;
	struct ibv_qp *first;
	struct child owner;
	struct rc rc;

	owner = child_fork(take_right);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t len = round % 2 ? 8 : SIZE;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, owner.sock, &peer, TIMEOUT, RETRIES);
		for (int i = 0; i < 3; i++) {
			CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, len, &peer, i), 0);
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		}
		rc_barrier(owner.sock);
		rc_barrier(owner.sock);
		CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_READ, len, &peer, 4), 0);
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, len, &peer, 5), 0);
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_REM_ACCESS_ERR);
		rc_barrier(owner.sock);
		CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	}
	child_join(&owner);
	rc.qp = first;
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = { { "KEPT", test_kept }, { "SHARED", test_shared }, { "TAKEN", test_taken } };

	CHECK(argc >= 2);
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	alarm(RC_LIMIT_S);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	printf("there is no case %s\n", argv[1]);
	return 1;
}
