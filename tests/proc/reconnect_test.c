/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs are reset and connected again, with the same PSNs, as programs do that replace a
 * connection (Mooncake). An adapter takes a packet when it arrives: one of the old connection finds
 * the QP as it was then. Here it waits in memory or in a socket, as no progress thread runs, and
 * must not reach the new connection.
 *
 *	reconnect_test SEND|WRITE|ACK|READ [transport]
 *
 *	SEND	a SEND that the peer has not taken takes no receive of the new connection, nor is
 *		one of the new connection taken for it
 *	WRITE	the same with a WRITE; by wire only, since on one host the initiator runs it
 *	ACK	an ACK that has not been taken completes no request of the new connection
 *	READ	the same with the response of a READ; by wire only
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"
#include "util/compiler.h"

enum {
	SIZE = 4096,
	LEN = 64,
	TIMEOUT = 20, /* 4 s: no packet is sent again */
	RETRIES = 7,
	LOOKS = 1000,
	OLD = 2, /* the connections: the first opens the way, */
	NEW,	 /* the last two are the test's */
};

static enum ibv_wr_opcode opcode;
static bool peer_answers; /* on the old connection */

static void open_end(struct rc *rc, int sock, struct rc_addr *peer)
{
	CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	CHECK(setenv("VERBENA_DEVICES", "lo", 1) == 0);
	rc_open(rc, SIZE);
	rc_post_recv(rc, rc->qp, 1);
	rc_pair(rc, sock, peer, TIMEOUT, RETRIES);
}

static void reset(struct rc *rc)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK_EQ(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	CHECK_EQ(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						      IBV_QP_ACCESS_FLAGS), 0);
}

/* The initiator is reset first: it still answers for nothing when the target is. */
static void reconnect(struct rc *rc, int sock, const struct rc_addr *peer, bool first)
{
	rc_barrier(sock);
	if (first)
		reset(rc);
	rc_barrier(sock);
	if (!first)
		reset(rc);
	rc_barrier(sock);
	rc_connect(rc, rc->qp, peer, TIMEOUT, RETRIES);
	rc_barrier(sock);
}

static void expect(struct rc *rc, enum ibv_wc_opcode op, uint64_t wr_id)
{
	struct ibv_wc wc = rc_wait(rc);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, op);
	CHECK_EQ(wc.wr_id, wr_id);
}

static void look(struct rc *rc)
{
	struct ibv_wc wc;

	for (int i = 0; i < LOOKS; i++)
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
}

static void post(struct rc *rc, const struct rc_addr *peer, int connection)
{
	struct rc_addr at = *peer;

	memset(rc->buf, connection, LEN);
	at.addr += (uint64_t)connection * LEN;
	CHECK_EQ(rc_post_send(rc, rc->qp, opcode, LEN, &at, (uint64_t)connection), 0);
}

static enum ibv_wc_opcode completed(void)
{
	switch (opcode) {
	case IBV_WR_SEND:
		return IBV_WC_SEND;
	case IBV_WR_RDMA_WRITE:
		return IBV_WC_RDMA_WRITE;
	default:
		return IBV_WC_RDMA_READ;
	}
}

static void initiate(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	open_end(&rc, sock, &peer);
	CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, LEN, &peer, 1), 0);
	expect(&rc, IBV_WC_SEND, 1);
	rc_tell(sock);
	reconnect(&rc, sock, &peer, true);
	post(&rc, &peer, OLD);
	reconnect(&rc, sock, &peer, true);
	post(&rc, &peer, NEW);
	if (peer_answers)
		look(&rc);
	rc_barrier(sock);
	expect(&rc, completed(), NEW);
	if (opcode == IBV_WR_RDMA_READ)
		CHECK_EQ(rc.buf[0], NEW);
	memset(rc.buf, NEW + 1, LEN);
	CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, LEN, &peer, NEW + 1), 0);
	expect(&rc, IBV_WC_SEND, NEW + 1);
	rc_tell(sock);
	rc_close(&rc);
}

/*
 * By wire a packet may have come to the initiator's socket, which passes it on when it polls: then
 * nothing is taken.
 */
static void take_old(struct rc *rc)
{
	struct ibv_wc wc;

	for (int i = 0; i < LOOKS; i++)
		CHECK(ibv_poll_cq(rc->cq, 1, &wc) >= 0);
}

static void take_new(struct rc *rc)
{
	if (opcode == IBV_WR_SEND) {
		expect(rc, IBV_WC_RECV, NEW);
		CHECK_EQ(rc->buf[0], NEW);
	}
	expect(rc, IBV_WC_RECV, NEW + 1);
	CHECK_EQ(rc->buf[0], NEW + 1);
	if (opcode == IBV_WR_RDMA_WRITE)
		CHECK_EQ(rc->buf[NEW * LEN], NEW);
}

static void target(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	open_end(&rc, sock, &peer);
	expect(&rc, IBV_WC_RECV, 1);
	rc_poll_until_told(&rc, sock);
	reconnect(&rc, sock, &peer, false);
	if (opcode == IBV_WR_SEND)
		rc_post_recv(&rc, rc.qp, OLD);
	if (peer_answers)
		take_old(&rc);
	reconnect(&rc, sock, &peer, false);
	if (opcode == IBV_WR_RDMA_READ)
		memset(rc.buf, NEW, SIZE);
	if (opcode == IBV_WR_SEND)
		rc_post_recv(&rc, rc.qp, NEW);
	rc_post_recv(&rc, rc.qp, NEW + 1);
	rc_barrier(sock);
	take_new(&rc);
	rc_poll_until_told(&rc, sock);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
		bool answers;
	} modes[] = {
		{ "SEND", IBV_WR_SEND, false },
		{ "WRITE", IBV_WR_RDMA_WRITE, false },
		{ "ACK", IBV_WR_SEND, true },
		{ "READ", IBV_WR_RDMA_READ, true },
	};
	struct child c;

	alarm(RC_LIMIT_S);
	CHECK(argc >= 2);
	if (argc > 2)
		CHECK(setenv("VERBENA_TRANSPORT", argv[2], 1) == 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(argv[1], modes[i].name) == 0) {
			opcode = modes[i].opcode;
			peer_answers = modes[i].answers;
		}
	c = child_fork(target);
	initiate(c.sock);
	child_join(&c);
	return 0;
}
