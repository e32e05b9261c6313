/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WRITEs of an unreliable connection, which access the memory of a peer on this host directly, as
 * those of RC do.
 *
 *	uc_write_test ORDER [udp]	a WRITE behind a SEND is not seen before it
 *	uc_write_test MAPPED		the same in memory that the peer can map
 *	uc_write_test REFUSED [udp]	a WRITE with a wrong key, or to a QP that receives no more,
 *					succeeds and writes nothing (IBTA vol 1, 9.8.2)
 *	uc_write_test KILL		nor does it fail, or wait, when the peer has died
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "rc.h"
#include "rnd.h"
#include "util/atomic.h"

enum {
	BATCH = 24,
	BATCHES = 400,
	LEN = 64,	/* of a SEND */
	WORD_AT = 0,
	HERE = 64,	/* SENDs and their receives, in both processes */
	WORDS = HERE + BATCH * LEN,	/* what WRITEs write */
	SIZE = WORDS + BATCH * 8,
};

static bool mapped;

static struct ibv_qp *new_uc(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = IBV_QPT_UC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = RC_DEPTH, .max_recv_wr = RC_DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

static struct ibv_qp *connect_uc(struct rc *rc, int sock, struct rc_addr *peer)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS }, rtr;
	struct ibv_qp *qp;
	struct rc_addr own;

	rc_open(rc, SIZE);
	if (mapped)
		rc_share(rc);
	qp = new_uc(rc);
	own = rc_address(rc, qp);
	child_send(sock, &own, sizeof(own));
	child_recv(sock, peer, sizeof(*peer));
	rtr = rc_rtr_attr(rc, peer);
	CHECK(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) == 0);
	CHECK(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	rc_barrier(sock);
	return qp;
}

static void close_uc(struct rc *rc, struct ibv_qp *qp)
{
	CHECK(ibv_destroy_qp(qp) == 0);
	rc_close(rc);
}

static void post(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t at,
		 uint32_t len, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + at, len, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void expect_sent(struct rc *rc, int n)
{
	while (n--)
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

/* ---- ORDER ---- */

static void post_receives(struct rc *rc, struct ibv_qp *qp)
{
	for (int i = 0; i < BATCH; i++) {
		struct ibv_sge sge = { (uintptr_t)rc->buf + HERE + i * LEN, LEN, rc->mr->lkey };
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
	}
}

static void expect_payload(const struct rc *rc, int i, uint64_t value)
{
	for (int k = 0; k < LEN; k++)
		CHECK_EQ((uint8_t)rc->buf[HERE + i * LEN + k], (uint8_t)value);
}

/* Each value that the word shows was written behind a SEND of it. */
static void watch_word(struct rc *rc, uint64_t first, bool polls)
{
	const uint64_t *word = (const uint64_t *)(rc->buf + WORD_AT);
	struct ibv_wc wc;
	uint64_t value;
	int received = 0;

	do {
		value = load_acquire(word);
		for (uint64_t v = first; v <= value; v++)
			expect_payload(rc, v - first, v);
		if (polls)
			received += ibv_poll_cq(rc->cq, 1, &wc);
	} while (value < first + BATCH - 1);
	for (; received < BATCH; received++)
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

static void target(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = connect_uc(&rc, sock, &peer);

	for (int b = 0; b < BATCHES; b++) {
		post_receives(&rc, qp);
		rc_barrier(sock);
		watch_word(&rc, 1 + (uint64_t)b * BATCH, b % 2);
		rc_barrier(sock);
	}
	close_uc(&rc, qp);
}

static void send_batch(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer, uint64_t first)
{
	for (int i = 0; i < BATCH; i++) {
		memset(rc->buf + HERE + i * LEN, (uint8_t)(first + i), LEN);
		memcpy(rc->buf + WORDS + i * 8, &(uint64_t){ first + i }, 8);
		post(rc, qp, IBV_WR_SEND, HERE + i * LEN, LEN, 0, 0);
		post(rc, qp, IBV_WR_RDMA_WRITE, WORDS + i * 8, 8, peer->addr + WORD_AT, peer->rkey);
		/* Now and then the target has taken all before the next. */
		if (rnd(4) == 0)
			for (int k = rnd(2000); k; k--)
				cpu_relax();
	}
	expect_sent(rc, 2 * BATCH);
}

static void keep_order(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = connect_uc(&rc, sock, &peer);

	for (int b = 0; b < BATCHES; b++) {
		rc_barrier(sock);
		send_batch(&rc, qp, &peer, 1 + (uint64_t)b * BATCH);
		rc_barrier(sock);
	}
	close_uc(&rc, qp);
}

/* ---- REFUSED ---- */

static void refusing(int sock)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = connect_uc(&rc, sock, &peer);
	const uint64_t *word = (const uint64_t *)(rc.buf + WORD_AT);

	while (load_acquire(word) != 2)
		;
	CHECK_EQ(rc_state(qp), IBV_QPS_RTS);
	CHECK(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
	rc_barrier(sock);
	rc_barrier(sock);
	CHECK_EQ(load_acquire(word), 2);
	close_uc(&rc, qp);
}

static void write_word(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer, uint32_t rkey,
		       uint64_t value)
{
	memcpy(rc->buf + WORDS, &value, sizeof(value));
	post(rc, qp, IBV_WR_RDMA_WRITE, WORDS, sizeof(value), peer->addr + WORD_AT, rkey);
	expect_sent(rc, 1);
}

static void be_refused(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = connect_uc(&rc, sock, &peer);

	write_word(&rc, qp, &peer, peer.rkey ^ 0x100, 1);
	post(&rc, qp, IBV_WR_RDMA_WRITE, WORDS, 8, peer.addr + SIZE, peer.rkey);
	expect_sent(&rc, 1);
	CHECK_EQ(rc_state(qp), IBV_QPS_RTS);
	write_word(&rc, qp, &peer, peer.rkey, 2);
	rc_barrier(sock);
	for (uint64_t i = 0; i < 100; i++)
		write_word(&rc, qp, &peer, peer.rkey, 100 + i);
	rc_barrier(sock);
	CHECK_EQ(rc_state(qp), IBV_QPS_RTS);
	close_uc(&rc, qp);
}

/* ---- KILL ---- */

static void wait_to_die(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	connect_uc(&rc, sock, &peer);
	child_send(sock, "", 1);
	pause();
}

static void outlive(struct child *c)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = connect_uc(&rc, c->sock, &peer);
	char ready;

	child_recv(c->sock, &ready, 1);
	for (uint64_t i = 0; i < 100; i++)
		write_word(&rc, qp, &peer, peer.rkey, i);
	child_kill(c);
	for (uint64_t i = 0; i < 10000; i++)
		write_word(&rc, qp, &peer, peer.rkey, i);
	CHECK_EQ(rc_state(qp), IBV_QPS_RTS);
	close_uc(&rc, qp);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "ORDER";
	struct child c;

	alarm(RC_LIMIT_S);
	CHECK(setenv("VERBENA_TRANSPORT", argc > 2 ? argv[2] : "local", 1) == 0);
	rnd_start();
	mapped = strcmp(what, "MAPPED") == 0;
	if (strcmp(what, "KILL") == 0) {
		c = child_fork(wait_to_die);
		outlive(&c);
		return 0;
	}
	c = child_fork(strcmp(what, "REFUSED") == 0 ? refusing : target);
	if (strcmp(what, "REFUSED") == 0)
		be_refused(c.sock);
	else
		keep_order(c.sock);
	child_join(&c);
	return 0;
}
