/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream of UC or UD requests, by UDP: their packets wait for one another, but not after the
 * program has seen them complete.
 *
 *	TOGETHER	A stream takes far fewer system calls than it has requests. What the
 *			program has seen complete has left.
 *	THREADS		Another thread polls meanwhile. The datagrams keep their order.
 *	UNPOLLED	The program posts and does not poll: all leaves by itself.
 *	EXIT		The same, and exits.
 *	HANDLER		A signal's handler calls exit() while a poll sends them: the process ends.
 *	ORDER		UC requests, of which only some may wait, arrive in their order: UC would
 *			lose one that is overtaken.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "child.h"
#include "next_syscall.h"
#include "rc.h"
#include "rnd.h"
#include "util/atomic.h"
#include "util/tuning.h"

enum {
	QKEY = 77,
	GRH = 40,
	LEN = 64,
	PACKET = 12 + 8 + LEN + 4,	/* BTH, DETH, payload, ICRC */
	FEW = TUNE_STREAM_POSTS + 4,	/* system calls for RC_DEPTH requests */
	ROUNDS = 100,
	LARGE = 17 << 10,		/* what does not wait */
	LARGE_ONES = 4,			/* in a round: all fits into the receiver's socket */
};

static uint64_t calls, bytes;	/* atomic: of sendmmsg(2), and those that it sent */
static __thread bool leaves;	/* the thread's next sendmmsg(2) calls exit() */

static size_t length(const struct msghdr *m)
{
	size_t sum = 0;

	for (size_t i = 0; i < (size_t)m->msg_iovlen; i++)
		sum += m->msg_iov[i].iov_len;
	return sum;
}

/* Replaces that of the C library. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
	const struct mmsghdr *mm;
	va_list args;
	long ret;

	if (number == SYS_sendmmsg && leaves) {
		leaves = false;
		exit(0);
	}
	va_start(args, number);
	ret = next_syscall(number, args);
	va_end(args);
	if (number != SYS_sendmmsg)
		return ret;
	va_start(args, number);
	(void)va_arg(args, long);
	mm = va_arg(args, const struct mmsghdr *);
	va_end(args);
	for (long i = 0; i < ret; i++)
		fetch_add_relaxed(&bytes, length(&mm[i].msg_hdr));
	fetch_add_relaxed(&calls, 1);
	return ret;
}

static uint64_t packets_sent(void)
{
	return load_relaxed(&bytes) / PACKET;
}

static struct ibv_qp *new_qp(struct rc *rc, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = rc->cq, .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = RC_DEPTH, .max_recv_wr = RC_DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
	return qp;
}

static void exchange(struct rc *rc, struct ibv_qp *qp, int sock, struct rc_addr *peer)
{
	struct rc_addr own = rc_address(rc, qp);

	child_send(sock, &own, sizeof(own));
	child_recv(sock, peer, sizeof(*peer));
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

	CHECK_EQ(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static struct ibv_qp *open_ud(struct rc *rc, int sock, struct rc_addr *peer)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp *qp;

	rc_open(rc, RC_DEPTH * (GRH + LEN));
	qp = new_qp(rc, IBV_QPT_UD);
	exchange(rc, qp, sock, peer);
	CHECK_EQ(ibv_modify_qp(qp, &rtr, IBV_QP_STATE), 0);
	to_rts(qp);
	return qp;
}

static struct ibv_qp *open_uc(struct rc *rc, int sock)
{
	struct ibv_qp_attr rtr;
	struct rc_addr peer;
	struct ibv_qp *qp;

	rc_open(rc, LARGE);
	qp = new_qp(rc, IBV_QPT_UC);
	exchange(rc, qp, sock, &peer);
	rtr = rc_rtr_attr(rc, &peer);
	CHECK_EQ(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN), 0);
	to_rts(qp);
	return qp;
}

static void close_all(struct rc *rc, struct ibv_qp *qp)
{
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	rc_close(rc);
}

static void post_receives(struct rc *rc, struct ibv_qp *qp, uint32_t len, bool apart)
{
	for (uint32_t i = 0; i < RC_DEPTH; i++) {
		struct ibv_sge sge = { (uintptr_t)rc->buf + (apart ? i * len : 0), len,
				       rc->mr->lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
	}
}

/* ---- UD ---- */

/* The datagrams of a round come in order. */
static void receive_round(struct rc *rc)
{
	for (uint32_t i = 0; i < RC_DEPTH; i++) {
		struct ibv_wc wc = rc_wait(rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ((uint8_t)rc->buf[i * (GRH + LEN) + GRH], i);
	}
}

/* The sender says whether another round comes. */
static bool round_comes(struct rc *rc, struct ibv_qp *qp, int sock)
{
	char go;

	post_receives(rc, qp, GRH + LEN, true);
	child_send(sock, "", 1);
	child_recv(sock, &go, 1);
	return go;
}

static void receive_rounds(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = open_ud(&rc, sock, &peer);

	while (round_comes(&rc, qp, sock))
		receive_round(&rc);
	close_all(&rc, qp);
}

static struct ibv_ah *new_ah(struct rc *rc, const struct rc_addr *peer)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = peer->gid, .sgid_index = (uint8_t)rc->gid_index, .hop_limit = 1 },
	};
	struct ibv_ah *ah = ibv_create_ah(rc->pd, &attr);

	CHECK(ah);
	return ah;
}

struct sender {
	struct rc rc;
	struct rc_addr peer;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	int sock;
};

/* It has a receive for each datagram of a round, and all of the last one. */
static void await_receiver(const struct sender *s)
{
	char ready;

	child_recv(s->sock, &ready, 1);
}

static void open_sender(struct sender *s, int sock)
{
	s->sock = sock;
	s->qp = open_ud(&s->rc, sock, &s->peer);
	s->ah = new_ah(&s->rc, &s->peer);
	await_receiver(s);
}

static void close_sender(struct sender *s)
{
	child_send(s->sock, &(char){ 0 }, 1);
	CHECK_EQ(ibv_destroy_ah(s->ah), 0);
	close_all(&s->rc, s->qp);
}

static void post_datagram(struct sender *s, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)s->rc.buf + i * LEN, LEN, s->rc.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.wr.ud = { .ah = s->ah, .remote_qpn = s->peer.qpn, .remote_qkey = QKEY },
	};

	memset(s->rc.buf + i * LEN, (int)i, LEN);
	CHECK_EQ(ibv_post_send(s->qp, &wr, &bad), 0);
}

static void post_round(struct sender *s)
{
	child_send(s->sock, &(char){ 1 }, 1);
	store_relaxed(&calls, 0);
	store_relaxed(&bytes, 0);
	for (uint32_t i = 0; i < RC_DEPTH; i++)
		post_datagram(s, i);
}

static bool take_completion(struct sender *s)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(s->rc.cq, 1, &wc);

	CHECK(n >= 0);
	if (n)
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	return n;
}

/* The packets of what is complete have left. */
static void see_all_complete(struct sender *s)
{
	uint64_t seen = 0;

	while (seen < RC_DEPTH) {
		seen += take_completion(s);
		CHECK(packets_sent() >= seen);
	}
}

static void together(struct sender *s)
{
	do {
		post_round(s);
		see_all_complete(s);
		await_receiver(s);
	} while (load_relaxed(&calls) > FEW);
}

static uint64_t seen_complete;	/* atomic: in this round */
static bool over;		/* atomic */

static void *take_completions(void *arg)
{
	while (!load_relaxed(&over))
		if (take_completion(arg))
			fetch_add_relaxed(&seen_complete, 1);
	return NULL;
}

static void with_threads(struct sender *s)
{
	pthread_t poller;

	CHECK_EQ(pthread_create(&poller, NULL, take_completions, s), 0);
	for (int r = 0; r < ROUNDS; r++) {
		store_relaxed(&seen_complete, 0);
		post_round(s);
		while (load_relaxed(&seen_complete) < RC_DEPTH)
			sched_yield();
		await_receiver(s);
	}
	store_relaxed(&over, true);
	CHECK_EQ(pthread_join(poller, NULL), 0);
}

/* Without a poll until the receiver has all of the round. */
static void unpolled(struct sender *s)
{
	for (int r = 0; r < ROUNDS; r++) {
		post_round(s);
		await_receiver(s);
		see_all_complete(s);
	}
}

static void post_and_exit(int sock)
{
	static struct sender s;

	open_sender(&s, sock);
	post_round(&s);
}

static void poll_and_exit(int sock)
{
	static struct sender s;

	alarm(RC_LIMIT_S);
	open_sender(&s, sock);
	for (;;) {	/* until the progress thread is not first */
		post_round(&s);
		leaves = true;
		while (take_completion(&s))
			;
		leaves = false;
	}
}

static void see_it_end(struct child *c)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = open_ud(&rc, c->sock, &peer);

	CHECK(round_comes(&rc, qp, c->sock));
	child_join(c);
	close_all(&rc, qp);
}

static void receive_of_the_dead(struct child *c)
{
	struct rc_addr peer;
	struct rc rc;
	struct ibv_qp *qp = open_ud(&rc, c->sock, &peer);

	CHECK(round_comes(&rc, qp, c->sock));
	child_join(c);
	receive_round(&rc);
	close_all(&rc, qp);
}

/* ---- UC ---- */

static void receive_in_order(int sock)
{
	struct rc rc;
	struct ibv_qp *qp = open_uc(&rc, sock);

	for (uint32_t r = 0; r < ROUNDS; r++) {
		post_receives(&rc, qp, LARGE, false);
		rc_barrier(sock);
		for (uint32_t i = 0; i < RC_DEPTH; i++) {
			struct ibv_wc wc = rc_wait(&rc);

			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(ntohl(wc.imm_data), r * RC_DEPTH + i);
		}
	}
	close_all(&rc, qp);
}

static void post_number(struct rc *rc, struct ibv_qp *qp, uint32_t len, uint32_t number)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, len, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1,
		.imm_data = htonl(number),
	};

	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

/* Mostly small messages, and now and then one that is too long to wait, or a poll. */
static void send_in_order(int sock)
{
	struct rc rc;
	struct ibv_qp *qp = open_uc(&rc, sock);
	struct ibv_wc wc;

	for (uint32_t r = 0; r < ROUNDS; r++) {
		int seen = 0, large = LARGE_ONES;

		rc_barrier(sock);
		for (uint32_t i = 0; i < RC_DEPTH; i++) {
			bool now = large && rnd(8) == 0;

			large -= now;
			post_number(&rc, qp, now ? LARGE : LEN, r * RC_DEPTH + i);
			if (rnd(8) == 0)
				seen += ibv_poll_cq(rc.cq, 1, &wc);
		}
		for (; seen < RC_DEPTH; seen++)
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	}
	close_all(&rc, qp);
}

/* The sender of datagrams is this process. */
static void send_rounds(struct child *c, void (*run)(struct sender *s))
{
	static struct sender s;

	*c = child_fork(receive_rounds);
	open_sender(&s, c->sock);
	run(&s);
	close_sender(&s);
	child_join(c);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "ORDER";
	struct child c;

	alarm(RC_LIMIT_S);
	CHECK(setenv("VERBENA_TRANSPORT", "udp", 1) == 0);
	rnd_start();
	if (strcmp(what, "TOGETHER") == 0) {
		send_rounds(&c, together);
	} else if (strcmp(what, "THREADS") == 0) {
		send_rounds(&c, with_threads);
	} else if (strcmp(what, "UNPOLLED") == 0) {
		send_rounds(&c, unpolled);
	} else if (strcmp(what, "EXIT") == 0) {
		c = child_fork(post_and_exit);
		receive_of_the_dead(&c);
	} else if (strcmp(what, "HANDLER") == 0) {
		c = child_fork(poll_and_exit);
		see_it_end(&c);
	} else {
		c = child_fork(receive_in_order);
		send_in_order(c.sock);
		child_join(&c);
	}
	return 0;
}
