/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC domain of several processes: messages, memory, queues, and the domain itself. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "rnd.h"
#include "xrc_family.h"

enum { READ_LEN = 800000 };	/* more answers than a lane or an inbox takes at once */

/* Messages of all sizes to random receivers, many in flight. */
static void test_stream(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };

	family_timeout = PATIENT;
	family_gather(&f);
	family_order_all(&f, RECEIVE);
	while (s.n < MESSAGES) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	for (int i = 0; i < TARGETS; i++)
		CHECK_EQ(family_stop(&f, i), s.sent[i]);
	family_part(&f);
}

/*
 * WRITE, READ, atomics and WRITE with immediate act in the memory of the SRQ's process, with its
 * keys.
 */
static void test_memory(void)
{
	struct family f = { 0 };
	uint64_t *mine;

	family_gather(&f);
	mine = (uint64_t *)f.x.rc.buf;
	for (int i = 0; i < TARGETS; i++) {
		uint32_t srqn = f.facts[i].srqn;
		const struct rc_addr *at = &f.facts[i].addr;
		struct ibv_wc wc;

		mine[0] = 1000 + i;
		xrc_send(&f.x, IBV_WR_RDMA_WRITE, srqn, 0, 20000, at, 1, 0);
		family_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(family_word(&f, i), 1000 + i);
		xrc_send(&f.x, IBV_WR_ATOMIC_FETCH_AND_ADD, srqn, 8, 8, at, 2, 0);
		family_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(mine[1], 1000 + i);
		xrc_send(&f.x, IBV_WR_RDMA_READ, srqn, XRC_SLOT, READ_LEN, at, 3, 0);
		family_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint64_t *)xrc_buffer(&f.x, 1), 1001 + i);
		family_order(&f, i, POST);
		xrc_send(&f.x, IBV_WR_RDMA_WRITE_WITH_IMM, srqn, 0, 5000, at, 4, 0);
		family_sent(&f, IBV_WC_SUCCESS);
		wc = family_take(&f, i);
		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQ(wc.imm_data, 4);
		CHECK_EQ(wc.byte_len, 5000);
	}
	/* A key of one process means nothing at another's SRQ. */
	xrc_send(&f.x, IBV_WR_RDMA_WRITE, f.facts[1].srqn, 0, 8, &f.facts[2].addr, 5, 0);
	family_sent(&f, f.facts[1].addr.rkey == f.facts[2].addr.rkey ? IBV_WC_SUCCESS :
		    IBV_WC_REM_ACCESS_ERR);
	family_part(&f);
}

/* An empty SRQ, its limit, solicited events, and an SRQ that is no more. */
static void test_queue(void)
{
	struct family f = { 0 };
	struct ibv_wc wc;

	family_gather(&f);
	/* Refused until there is a receive. */
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 1, 0);
	family_order(&f, 1, POST);
	family_sent(&f, IBV_WC_SUCCESS);
	CHECK_EQ(family_take(&f, 1).byte_len, 100);
	/* The limit event comes with the last receive. */
	family_order(&f, 2, POST);
	family_order(&f, 2, ARM_LIMIT);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[2].srqn, 0, 8, NULL, 2, 0);
	family_sent(&f, IBV_WC_SUCCESS);
	rc_meet(f.child[2].sock);
	CHECK_EQ(family_take(&f, 2).byte_len, 8);
	/* Only a solicited completion wakes it. */
	family_order(&f, 1, POST);
	family_order(&f, 1, POST);
	family_order(&f, 1, SLEEP);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 9, NULL, 3, 0);
	family_sent(&f, IBV_WC_SUCCESS);
	CHECK(!member_has_order(f.child[1].sock));
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 10, NULL, 4, IBV_SEND_SOLICITED);
	family_sent(&f, IBV_WC_SUCCESS);
	rc_meet(f.child[1].sock);
	CHECK_EQ(family_take(&f, 1).byte_len, 9);
	CHECK_EQ(family_take(&f, 1).byte_len, 10);
	/* Too long for the receive: both sides learn it. */
	family_order(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, XRC_SLOT + 1, NULL, 5, 0);
	family_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	wc = family_take(&f, 1);
	CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	family_part(&f);
}

/* A process leaves the domain and comes back, while it has the state on loan. */
static void test_again(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_send(&f, 1, 100);
	f.facts[1].srqn = (uint32_t)family_call(&f, 1, AGAIN);
	family_send(&f, 1, 200);
	family_send(&f, 0, 300);
	family_send(&f, 1, 400);
	family_part(&f);
}

static void test_gone_srq(void)
{
	struct family f = { 0 };

	family_gather(&f);
	family_order(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 1, 0);
	family_sent(&f, IBV_WC_SUCCESS);
	family_take(&f, 1);
	family_order(&f, 1, DROP_SRQ);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 2, 0);
	family_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	family_part(&f);
}

static void domain_holder(int sock)
{
	struct xrc x = { 0 };
	char c;

	alarm(RC_LIMIT_S);
	rc_open(&x.rc, 4096);
	CHECK(xrc_domain(&x, family_file, O_CREAT | O_EXCL));
	rc_meet(sock);
	child_hear(sock, &c, 1);
	_exit(0);
}

/* A domain is there while a process has it, and O_EXCL is about all of them. */
static void test_domain(void)
{
	struct xrc x = { 0 };
	struct ibv_xrcd *d;
	struct child c;

	alarm(RC_LIMIT_S);
	c = child_fork(domain_holder);
	rc_meet(c.sock);
	rc_open(&x.rc, 4096);
	CHECK(!xrc_domain(&x, family_file, O_CREAT | O_EXCL));
	CHECK_EQ(errno, EEXIST);
	d = xrc_domain(&x, family_file, 0);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	child_kill(&c);
	CHECK(!xrc_domain(&x, family_file, 0));
	CHECK_EQ(errno, ENOENT);
	d = xrc_domain(&x, family_file, O_CREAT | O_EXCL);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	rc_close(&x.rc);
}

int main(int argc, char **argv)
{
	static const struct family_case cases[] = {
		{ "DOMAIN", test_domain },
		{ "STREAM", test_stream },
		{ "MEMORY", test_memory },
		{ "QUEUE", test_queue },
		{ "GONE", test_gone_srq },
		{ "AGAIN", test_again },
	};

	return family_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
